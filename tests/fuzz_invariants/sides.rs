//! The files beside the output: each line can be parsed, and is about the row that it names.

use std::fs;

use rescore::internals::{
    DecisionPolicy, Failure, Layout, OutputFile, Readers, Replace, Row, RowFiles, Target, Verdict,
    Writer,
};

use super::Kept;
use super::cells;
use super::files::{by_the_csv_crate, is_broken, is_json, verdict};

/// Writes the rows with both files beside the output, and looks at those.
pub(super) fn check(layout: &Layout, finished: &[Row]) {
    let directory = tempfile::tempdir().unwrap();
    let target = |name: &str| Target::new(&directory.path().join(name), Replace::Nothing).unwrap();
    let (rejects, changes) = (target("rejects"), target("changes"));
    let open = |target: &Target| Some(target.open(Readers::EVERYBODY).unwrap());
    let output = OutputFile::stream(Kept::default());
    let files = RowFiles::new(output, open(&rejects), open(&changes));
    let mut writer = Writer::new(layout.clone(), DecisionPolicy::default(), files);
    assert!(writer.write(finished).is_ok());
    assert!(writer.into_files().commit(|_| ()).error.is_none());
    let read = |target: &Target| fs::read(target.path()).unwrap_or_default();
    let failed: Vec<_> = finished.iter().filter_map(failed).collect();
    match cells::delimiter(layout) {
        // Parsers disagree about rows with broken quotes, so the expected content is not defined.
        Some(_) if finished.iter().any(is_broken) => {}
        Some(delimiter) => {
            check_cells(layout, &failed, &read(&rejects), delimiter);
            check_changed_cells(layout, &read(&changes), finished, delimiter);
        }
        None => check_members(&failed, &read(&rejects), &read(&changes)),
    }
}

fn failed(row: &Row) -> Option<(&Row, &Failure)> {
    match verdict(row) {
        Verdict::Failed(failure) => Some((row, failure)),
        Verdict::Scored(..) => None,
    }
}

fn check_cells(layout: &Layout, failed: &[(&Row, &Failure)], rejects: &[u8], delimiter: u8) {
    let Some(text) = rejects
        .strip_prefix(&*layout.preamble)
        .filter(|text| !text.is_empty())
    else {
        assert!(failed.is_empty(), "rows without a verdict are not told");
        return;
    };
    let records = by_the_csv_crate(text, delimiter);
    assert_eq!(records.len(), 1 + failed.len());
    for (record, (row, failure)) in records.iter().skip(1).zip(failed) {
        assert_eq!(record[0], row.number.to_string().into_bytes());
        assert_eq!(record[1], failure.reason.word().as_bytes());
        assert_eq!(record[3..], cells_of(row, delimiter), "row {}", row.number);
    }
}

fn check_changed_cells(layout: &Layout, changes: &[u8], finished: &[Row], delimiter: u8) {
    let text = changes.strip_prefix(&*layout.preamble).unwrap();
    for record in by_the_csv_crate(text, delimiter).iter().skip(1) {
        let number: usize = String::from_utf8_lossy(&record[0]).parse().unwrap();
        assert_ne!(record[1], record[3], "row {number}: the same decision");
        assert_eq!(
            record[5..],
            cells_of(&finished[number - 1], delimiter),
            "row {number}"
        );
    }
}

/// The cells of a row as it was read. A byte order mark in front is part of the first.
fn cells_of(row: &Row, delimiter: u8) -> Vec<Vec<u8>> {
    let content = [b"x\n", row.raw.content()].concat();
    by_the_csv_crate(&content, delimiter).remove(1)
}

fn check_members(failed: &[(&Row, &Failure)], rejects: &[u8], changes: &[u8]) {
    let lines = |text: &[u8]| -> Vec<Vec<u8>> {
        let lines = text.split(|byte| *byte == b'\n' || *byte == b'\r');
        let lines = lines.filter(|line| !line.is_empty());
        lines.map(<[u8]>::to_vec).collect()
    };
    let rejects = lines(rejects);
    assert_eq!(rejects.len(), failed.len());
    for (line, (row, failure)) in rejects.iter().zip(failed) {
        let text = String::from_utf8_lossy(line);
        assert!(is_json(line), "row {}: {text}", row.number);
        let told = format!(
            "\"reject_row\":{},\"reject_reason\":\"{}\"",
            row.number, failure.reason
        );
        assert!(text.contains(&told), "{text}");
    }
    for line in lines(changes) {
        assert!(is_json(&line), "{}", String::from_utf8_lossy(&line));
    }
}
