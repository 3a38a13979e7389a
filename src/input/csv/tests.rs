//! Records and cells, compared with the csv crate.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use proptest::prelude::*;

use super::scan::{RecordScan, find_record, unquote, unquoted};

/// All records of a text: the cells, and whether quotes were broken.
fn records(text: &[u8]) -> Vec<(Vec<Vec<u8>>, bool)> {
    let (mut rest, mut cells, mut records) = (text, Vec::new(), Vec::new());
    while let RecordScan::Record(extent) = find_record(rest, b',', true, &mut cells) {
        let values = cells
            .iter()
            .map(|cell| value(&rest[cell.range()]))
            .collect();
        records.push((values, extent.malformed));
        rest = &rest[extent.end..];
    }
    records
}

/// A cell's value, found both ways.
fn value(cell: &[u8]) -> Vec<u8> {
    let value = unquote(cell).into_owned();
    if let Some(text) = unquoted(std::str::from_utf8(cell).unwrap()) {
        assert_eq!(text.as_bytes(), value);
    }
    value
}

fn by_the_csv_crate(text: &[u8]) -> Vec<Vec<Vec<u8>>> {
    ::csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .from_reader(text)
        .byte_records()
        .map(|record| record.unwrap().iter().map(<[u8]>::to_vec).collect())
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn cells_are_the_same_as_with_the_csv_crate(text in "([ab,\"\r\n]|\"[a,\n]{0,3}\",?|\n){0,24}") {
        let ours = records(text.as_bytes());
        let closed = !matches!(
            find_record(text.as_bytes(), b',', true, &mut Vec::new()),
            RecordScan::Partial { .. }
        );
        let broken = ours.iter().any(|(_, malformed)| *malformed);
        let theirs = by_the_csv_crate(text.as_bytes());
        if !broken && closed && ours.len() == theirs.len() {
            let ours: Vec<_> = ours.into_iter().map(|(cells, _)| cells).collect();
            prop_assert_eq!(ours, theirs);
        } else {
            // We find fewer records if a quote is never closed. Broken quotes are reported, not
            // interpreted.
            prop_assert!(broken || ours.len() < theirs.len());
        }
    }

    #[test]
    fn a_record_does_not_depend_on_how_the_bytes_arrive(
        text in "([ab,\r\n]|\"[a,\"\"\r\n]{0,4}\"){1,20}",
        cut in 0_usize..40,
    ) {
        let whole = text.as_bytes();
        let cut = cut.min(whole.len());
        let (mut early, mut late) = (Vec::new(), Vec::new());
        if let RecordScan::Record(extent) = find_record(&whole[..cut], b',', false, &mut early) {
            let again = find_record(whole, b',', true, &mut late);
            let RecordScan::Record(again) = again else { panic!("lost a record") };
            prop_assert_eq!((extent.content, extent.end, early), (again.content, again.end, late));
        }
    }
}

#[test]
fn a_broken_quote_is_found() {
    assert_eq!(
        records(b"\"a\"b,c\n"),
        vec![(vec![b"\"a\"b".to_vec(), b"c".to_vec()], true)]
    );
    let found = find_record(b"\na,\"b\nc", b',', true, &mut Vec::new());
    assert!(
        matches!(
            found,
            RecordScan::Partial {
                lines_before: 1,
                open_quote: Some(0)
            }
        ),
        "{found:?}"
    );
}

#[test]
fn an_empty_quoted_value_is_a_row_and_a_blank_line_is_not() {
    assert_eq!(records(b"\"\"\n\n\"\"\n").len(), 2);
}
