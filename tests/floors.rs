//! The order of the house: imports point only downwards, and each outside library has its one owner.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot read the sources should fail"
)]

use std::fs;
use std::path::{Path, PathBuf};

/// Rooms from the ground up. A room may use what is on its own floor only within itself.
const FLOORS: &[&[&str]] = &[
    &["base", "row"],
    &["raw_json"],
    &["verdict", "layout"],
    &["drift"],
    &["telemetry", "fields"],
    &[
        "input", "output", "service", "pace", "ledger", "observe", "sandbox",
    ],
    &["scorer"],
    &["pipeline"],
    &["config"],
    &["commands"],
    &["cli"],
    &["program"],
    &["main"],
];

/// The only files that may name a library.
const OWNERS: &[(&str, &[&str])] = &[
    ("reqwest", &["service/http.rs", "service/http/"]),
    ("rustls", &["service/"]),
    ("rustls_platform_verifier", &["service/pinned.rs"]),
    ("governor", &["pace/limiter.rs"]),
    ("indicatif", &["observe/bar.rs", "observe/screen.rs"]),
    ("console", &["base/stderr.rs"]),
    ("clap", &["cli/"]),
    ("hyper", &["sandbox/"]),
    ("csv_core", &["output/csv.rs"]),
    ("rusqlite", &["ledger/"]),
    ("chardetng", &["input/text.rs"]),
    ("blake3", &["ledger/"]),
    (
        "rustix",
        &[
            "commands/descriptors.rs",
            "commands/signals.rs",
            "input/source.rs",
            "program.rs",
            "base/own_file.rs",
            "output/name.rs",
            "base/rlimit.rs",
        ],
    ),
];

fn sources() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut files, mut directories) = (Vec::new(), vec![root.clone()]);
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path: PathBuf = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path
                    .strip_prefix(&root)
                    .unwrap()
                    .to_str()
                    .unwrap()
                    .replace('\\', "/");
                files.push((name, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    assert!(!files.is_empty());
    files
}

fn room(file: &str) -> &str {
    file.split('/').next().unwrap().trim_end_matches(".rs")
}

fn floor(room: &str) -> usize {
    FLOORS
        .iter()
        .position(|rooms| rooms.contains(&room))
        .unwrap_or_else(|| panic!("`{room}` has no floor yet: give it one in tests/floors.rs"))
}

/// The code that ships: comments and what stands under `#[cfg(test)]` may name anything.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .take_while(|line| line.trim() != "#[cfg(test)]")
        .filter(|line| !line.trim_start().starts_with("//"))
}

fn rooms_used(text: &str) -> Vec<String> {
    let mut used = Vec::new();
    for line in code(text) {
        for path in ["crate::", "rescore::"] {
            for (_, rest) in line
                .match_indices(path)
                .map(|(at, _)| line.split_at(at + path.len()))
            {
                used.push(
                    rest.chars()
                        .take_while(|c| c.is_alphanumeric() || *c == '_')
                        .collect(),
                );
            }
        }
    }
    used.retain(|room: &String| !room.is_empty());
    used
}

#[test]
fn imports_point_only_downwards() {
    let mut checked = 0;
    for (file, text) in sources() {
        let here = room(&file);
        if here == "lib" || here == "main" {
            continue;
        }
        for used in rooms_used(&text) {
            checked += 1;
            let allowed = used == here || floor(&used) < floor(here);
            assert!(
                allowed,
                "src/{file} (floor {}) uses `{used}` (floor {})",
                floor(here),
                floor(&used)
            );
        }
        assert!(
            !code(&text).any(|line| line.contains("use crate::{")),
            "src/{file}: one `use crate::room` a line"
        );
    }
    assert!(checked > 10, "the test itself has gone blind");
}

#[test]
fn each_library_has_its_owner() {
    for (file, text) in sources() {
        for (library, owners) in OWNERS {
            let named = code(&text).any(|line| line.contains(&format!("{library}::")));
            let owner = owners.iter().any(|owner| file.starts_with(owner));
            assert!(
                !named || owner,
                "src/{file} names {library}; its owner is {owners:?}"
            );
        }
    }
}

#[test]
fn only_say_writes_to_standard_error() {
    for (file, text) in sources() {
        let named = code(&text).any(|line| {
            line.replace("io::stderr().is_terminal()", "")
                .contains("io::stderr()")
        });
        assert!(
            !named || file == "base/stderr.rs",
            "src/{file} names standard error; `say` makes texts safe"
        );
    }
}

#[test]
fn every_file_says_what_it_is_for() {
    for (file, text) in sources() {
        assert!(
            text.starts_with("//! "),
            "src/{file} does not begin with `//!`"
        );
    }
}
