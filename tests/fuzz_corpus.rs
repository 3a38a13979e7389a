//! Every input that the fuzz targets kept still meets the invariants.
//!
//! `fuzz/README.md` says how to search for more. Input that breaks an invariant there is added to `fuzz/corpus` and replayed here.

mod fuzz_invariants;

use std::fs;
use std::path::Path;

/// Checks the invariant over every file of the target's corpus.
#[allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test that cannot read its corpus should fail"
)]
fn replay(target: &str, invariant: fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fuzz/corpus")
        .join(target);
    let mut files: Vec<_> = fs::read_dir(&corpus)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    assert!(files.len() >= 10, "the corpus of `{target}` is gone");
    for file in files {
        // Shown if the check panics.
        eprintln!("{}", file.display());
        invariant(&fs::read(&file).unwrap());
    }
}

#[test]
fn rows_of_csv_come_out_as_they_went_in() {
    replay("csv", fuzz_invariants::files::csv);
}

#[test]
fn rows_of_jsonl_come_out_as_they_went_in() {
    replay("jsonl", fuzz_invariants::files::jsonl);
}

#[test]
fn answers_are_judged_without_repeating_what_was_sent() {
    replay("answer", fuzz_invariants::answer::holds);
}

#[test]
fn no_headers_ask_for_an_impossible_pace() {
    replay("headers", fuzz_invariants::headers::holds);
}
