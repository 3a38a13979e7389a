//! The table of constants in `docs/pacing.md` is the same as in the code.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

use std::fs;
use std::path::{Path, PathBuf};

/// A constant's file, name and value.
type Constant = (String, String, String);

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The files below this folder that ship.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() && name != "simulator" {
            found.extend(files(&path));
        } else if path.extension().is_some_and(|ext| ext == "rs") && !name.ends_with("tests.rs") {
            found.push(path);
        }
    }
    found
}

/// All constants but texts.
fn in_code() -> Vec<Constant> {
    let folder = root().join("src/pace");
    let mut constants = Vec::new();
    for path in files(&folder) {
        let text = fs::read_to_string(&path).unwrap();
        let file = path.strip_prefix(&folder).unwrap().to_str().unwrap();
        let ships = text.split("#[cfg(test)]\n").next().unwrap();
        for line in ships.lines() {
            let Some((_, declared)) = line.split_once("const ") else {
                continue;
            };
            let (Some((name, of)), Some(value)) = (declared.split_once(": "), assigned(declared))
            else {
                continue;
            };
            let is_name = name.chars().all(|c| c.is_ascii_uppercase() || c == '_');
            if is_name && !of.starts_with("&str") {
                constants.push((file.replace('\\', "/"), name.to_owned(), shown(value)));
            }
        }
    }
    constants
}

fn assigned(declared: &str) -> Option<&str> {
    declared.split_once(" = ")?.1.strip_suffix(';')
}

/// A value as the page shows it.
fn shown(value: &str) -> String {
    let inside = |start| value.strip_prefix(start)?.strip_suffix(')');
    let product = |text: &str| -> u64 {
        let factors = text.split(" * ");
        factors
            .map(|factor| factor.parse::<u64>().unwrap())
            .product()
    };
    if let Some(seconds) = inside("Duration::from_secs(").map(product) {
        return match seconds % 60 {
            0 => format!("{} min", seconds / 60),
            _ => format!("{seconds} s"),
        };
    }
    if let Some(milliseconds) = inside("Duration::from_millis(").map(product) {
        return format!("{milliseconds} ms");
    }
    if let Some(microseconds) = inside("Duration::from_micros(").map(product) {
        return format!("{microseconds} µs");
    }
    let value = value.trim_matches(['[', ']']).replace('_', "");
    let words = value.split(' ');
    let short = words.map(|word| word.strip_suffix(".0").unwrap_or(word));
    short.collect::<Vec<_>>().join(" ")
}

/// The rows of the page's table.
fn on_the_page() -> Vec<Constant> {
    let page = fs::read_to_string(root().join("docs/pacing.md")).unwrap();
    let (_, table) = page.split_once("## Constants\n").unwrap();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.map(|row| {
        let cells: Vec<_> = row
            .split(" | ")
            .map(|cell| cell.trim_matches('`'))
            .collect();
        let [file, name, value, reason] = cells[..] else {
            panic!("not a row: {row}");
        };
        assert!(reason.len() > 20, "`{name}` has no reason");
        (file.to_owned(), name.to_owned(), value.to_owned())
    })
    .collect()
}

#[test]
fn the_page_about_the_pace_names_each_constant_with_its_value() {
    let (mut code, mut page) = (in_code(), on_the_page());
    assert!(code.len() > 80, "only {} constants were found", code.len());
    code.sort();
    page.sort();
    for constant in &code {
        assert!(
            page.contains(constant),
            "not in docs/pacing.md: {constant:?}"
        );
    }
    for constant in &page {
        assert!(
            code.contains(constant),
            "only in docs/pacing.md: {constant:?}"
        );
    }
    assert_eq!(code.len(), page.len());
}
