//! Which files may name a foreign crate.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::assert_none;
use crate::source::Source;
use crate::tree::Tree;

/// The only files that may name a crate, or the folders if they end in `/`.
const OWNERS: &[(&str, &[&str])] = &[
    ("base64", &["service/words.rs"]),
    ("blake3", &["ledger/", "selection.rs"]),
    ("chardetng", &["input/text.rs"]),
    ("clap", &["cli/", "config/", "commands/text.rs"]),
    ("clap_complete", &["cli/help.rs", "cli/parse.rs"]),
    ("clap_mangen", &["cli/help.rs", "commands/text.rs"]),
    ("console", &["base/stderr.rs"]),
    ("csv", &["input/sniff.rs"]),
    ("encoding_rs", &["base/encoding.rs"]),
    (
        "fastrand",
        &[
            "commands/run/prepare.rs",
            "ledger/postgres/server.rs",
            "pace/gate.rs",
            "sandbox/",
        ],
    ),
    ("flate2", &["input/source.rs", "output/encoder.rs"]),
    (
        "foldhash",
        &["engine/checks.rs", "input/members.rs", "ledger/key.rs"],
    ),
    ("futures", &["engine/", "pace/gate.rs"]),
    ("glob", &["commands/inputs.rs"]),
    ("governor", &["pace/limiter.rs"]),
    ("h2", &["service/http/fault.rs"]),
    ("http", &["service/"]),
    ("http_body_util", &["sandbox/"]),
    ("httpdate", &["engine/stop.rs", "service/"]),
    ("hyper", &["sandbox/", "service/http/fault.rs"]),
    (
        "hyper_util",
        &[
            "sandbox/",
            "service/endpoint.rs",
            "service/http/connections.rs",
        ],
    ),
    ("indicatif", &["observe/bar.rs"]),
    (
        "jiff",
        &[
            "config/values.rs",
            "ledger/outputs.rs",
            "observe/numbers.rs",
            "sandbox/stand_in.rs",
        ],
    ),
    ("maud", &["report/"]),
    (
        "memchr",
        &["fields/sanitise.rs", "input/", "layout.rs", "raw_json.rs"],
    ),
    ("mimalloc", &["main.rs"]),
    ("reqwest", &["service/http/client.rs", "service/http/"]),
    ("ring", &["ledger/key.rs"]),
    ("rlibphonenumber", &["fields/phone.rs"]),
    ("rusqlite", &["ledger/sqlite/"]),
    (
        "rustix",
        &[
            "commands/run/prepare.rs",
            "commands/signals.rs",
            "input/source.rs",
            "program.rs",
            "output/file.rs",
            "base/own_file.rs",
            "ledger/sqlite/file.rs",
            "ledger/outputs.rs",
            "ledger/sqlite/connect.rs",
        ],
    ),
    ("postgres", &["ledger/postgres/", "ledger/server_url.rs"]),
    ("rustls", &["ledger/postgres/server.rs", "service/"]),
    (
        "rustls_platform_verifier",
        &["ledger/postgres/server.rs", "service/http/connections.rs"],
    ),
    ("socket2", &["sandbox/server.rs"]),
    ("strsim", &["cli/", "fields/"]),
    ("tempfile", &["base/own_file.rs", "ledger/"]),
    ("tokio_postgres_rustls", &["ledger/postgres/server.rs"]),
    ("toml", &["cli/settings_file.rs"]),
    ("url", &["service/endpoint.rs"]),
    ("zstd", &["input/source.rs", "output/encoder.rs"]),
];

/// Crates that any file may name, and why.
const ANYWHERE: &[(&str, &str)] = &[
    (
        "bytes",
        "a row's bytes are shared, not copied, from the reader to the writer",
    ),
    (
        "serde",
        "only says of a type that it can be read or written",
    ),
    (
        "serde_json",
        "the format of rows, requests, answers, the ledger and what programs read",
    ),
    ("thiserror", "only says of a type that it is an error"),
    (
        "tokio",
        "channels, clocks and tasks wherever something waits",
    ),
];

/// The foreign crates that a file names without owning them.
pub(crate) fn crates_of_others(tree: &Tree, source: &Source) -> Vec<String> {
    let mut found = Vec::new();
    for (line, named) in tree.foreign(source) {
        let Some((_, owners)) = OWNERS.iter().find(|(name, _)| *name == named) else {
            continue;
        };
        if !owners.iter().any(|owner| source.file.starts_with(owner)) {
            let file = &source.file;
            found.push(format!(
                "src/{file}:{line} names `{named}`, whose owners are {owners:?}"
            ));
        }
    }
    found
}

#[test]
fn each_crate_has_its_owner() {
    let tree = Tree::read();
    let found = tree
        .shipped()
        .flat_map(|file| crates_of_others(&tree, file));
    assert_none(&found.collect::<Vec<_>>());
}

#[test]
fn every_dependency_is_assigned_and_every_owner_uses_it() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let manifest = fs::read_to_string(manifest).unwrap();
    let (_, dependencies) = manifest.split_once("\n[dependencies]\n").unwrap();
    let (dependencies, _) = dependencies.split_once("\n[").unwrap();
    let dependencies: BTreeSet<_> = dependencies
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(" = "))
        .map(|(name, _)| name.replace('-', "_"))
        .collect();
    let owned = OWNERS.iter().map(|(name, _)| *name);
    let anywhere = ANYWHERE.iter().map(|(name, _)| *name);
    let assigned: BTreeSet<_> = owned.chain(anywhere).map(str::to_owned).collect();
    assert_eq!(
        dependencies, assigned,
        "give each an owner in tests/layers/crates.rs"
    );

    let tree = Tree::read();
    let mut idle = Vec::new();
    for (name, owners) in OWNERS {
        for owner in *owners {
            let mut files = tree.shipped().filter(|file| file.file.starts_with(owner));
            if !files.any(|file| tree.foreign(file).any(|(_, named)| named == *name)) {
                idle.push(format!("`{owner}` does not use `{name}`, which it owns"));
            }
        }
    }
    assert_none(&idle);
}
