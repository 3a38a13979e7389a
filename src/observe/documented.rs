//! The keys of JSON objects as README and `docs/` list them, for the tests that hold them against the types.

#![allow(clippy::expect_used, reason = "a document without it fails the test")]

use std::fs;
use std::path::{Path, PathBuf};

/// What the documents say about an object.
pub(super) struct Documented {
    /// The keys in the first cells of the table's rows, in their order.
    pub(super) keys: Vec<String>,
    /// The whole document with the table.
    pub(super) text: String,
}

/// The table in the documents that has this key in a first cell.
pub(super) fn table_with(key: &str) -> Documented {
    let mut found = documents().into_iter().filter_map(|text| {
        let keys = keys_of_table(&text, key)?;
        Some(Documented { keys, text })
    });
    found.next().expect("a table with this key")
}

/// The line in the documents that starts like this.
pub(super) fn example_with(start: &str) -> String {
    let documents = documents().concat();
    let mut lines = documents.lines().filter(|line| line.starts_with(start));
    lines
        .next()
        .expect("a line that starts like this")
        .to_owned()
}

fn documents() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let docs = fs::read_dir(root.join("docs"));
    let docs = docs.into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = docs.map(|entry| entry.path()).collect();
    paths.push(root.join("README.md"));
    let texts = paths
        .iter()
        .filter_map(|path| fs::read_to_string(path).ok());
    texts.collect()
}

fn keys_of_table(text: &str, key: &str) -> Option<Vec<String>> {
    let lines: Vec<_> = text.lines().collect();
    let mut tables = lines.split(|line| !line.starts_with('|'));
    let keys = |table: &[&str]| -> Vec<String> {
        let cells = table.iter().filter_map(|row| row.split('|').nth(1));
        let keys = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
        keys.map(str::to_owned).collect()
    };
    tables.find_map(|table| Some(keys(table)).filter(|keys| keys.iter().any(|it| it == key)))
}
