//! Files that a run has written, read back.

#![allow(clippy::unwrap_used)]

use std::io;

use super::super::settings::{FileSettings, FormatChoice, Input};
use super::super::source::Source;
use super::{OpenedScored, ScoredColumns, ScoredReader};
use crate::base::encoding::TextEncoding;
use crate::base::error::Result;

/// A scored CSV file with a column that is asked for besides ours.
const CSV: &str = "\u{feff}id,\"risk_score\",name,transaction_id,decision\r\n\
                   1,1.50,\"Ann, B\",t-1,\"approve\"\r\n\
                   2,,Bob,,\r\n";

fn settings() -> FileSettings {
    FileSettings {
        input: Input::Stdin,
        format: FormatChoice::Detect,
        encoding: TextEncoding::UTF_8,
        delimiter: None,
        no_header: false,
        max_record: 1 << 16,
    }
}

fn open(
    text: &str,
    settings: &FileSettings,
    columns: ScoredColumns,
) -> Result<(ScoredReader, OpenedScored)> {
    let source = Source::of_reader(io::Cursor::new(text.as_bytes().to_vec())).unwrap();
    ScoredReader::of_source(source, settings, columns)
}

/// The values of all columns in each row, or the reason why it has none; and all bytes of the file, put together again.
fn read(
    text: &str,
    settings: &FileSettings,
    further: &[&str],
) -> Result<(Vec<Vec<String>>, String)> {
    let further: Vec<_> = further.iter().map(ToString::to_string).collect();
    let columns = ScoredColumns::new("", &further);
    let count = columns.names().len();
    let (mut reader, opened) = open(text, settings, columns)?;
    let (mut rows, mut bytes) = (Vec::new(), opened.layout.preamble.to_vec());
    bytes.extend(opened.layout.header.iter().flat_map(|row| row.raw.to_vec()));
    while let Some(batch) = reader.next_batch()? {
        for scored in &batch.rows {
            bytes.extend_from_slice(&scored.row.raw);
            let value = |column| scored.value(column, opened.layout.format).into_owned();
            rows.push(match &scored.cells {
                Ok(_) => (0..count).map(value).collect(),
                Err(failure) => vec![failure.reason.word().to_owned()],
            });
        }
        bytes.extend_from_slice(&batch.trailer);
    }
    Ok((rows, String::from_utf8(bytes).unwrap()))
}

#[test]
fn columns_are_found_wherever_they_are_and_no_byte_is_lost() {
    let (rows, bytes) = read(CSV, &settings(), &["name"]).unwrap();
    assert_eq!(
        rows,
        [["t-1", "1.50", "approve", "Ann, B"], ["", "", "", "Bob"]]
    );
    assert_eq!(bytes, CSV);
}

#[test]
fn members_are_found_in_any_order_and_others_by_their_pointer() {
    let text = "{\"decision\":\"block\",\"a\":{\"b\":\"x\\u0041\"},\"risk_score\":9.0,\"transaction_id\":\"t\"}\n\n\
                {\"transaction_id\":null,\"risk_score\":null,\"decision\":null}\n \n";
    let (rows, bytes) = read(text, &settings(), &["/a/b"]).unwrap();
    assert_eq!(rows, [["t", "9.0", "block", "xA"], ["", "", "", ""]]);
    assert_eq!(bytes, text);
}

#[test]
fn without_a_header_our_columns_are_the_last_three_and_others_have_numbers() {
    let settings = FileSettings {
        no_header: true,
        ..settings()
    };
    let (rows, _) = read("7,Ann,t-1,2,approve\n", &settings, &["2"]).unwrap();
    assert_eq!(rows, [["t-1", "2", "approve", "Ann"]]);
}

#[test]
fn a_row_that_cannot_be_read_keeps_its_place() {
    let text = "x,transaction_id,risk_score,decision\n1,t,1,approve\n2,t\n3,\"t\"x,1,approve\n";
    let (rows, bytes) = read(text, &settings(), &[]).unwrap();
    assert_eq!(rows.len(), 3);
    assert_eq!(rows.get(1..).unwrap(), [["ragged"], ["text_after_quote"]]);
    assert_eq!(bytes, text);
    let text = "{\"transaction_id\":\"t\",\"risk_score\":1,\"decision\":\"block\"}\n\
                {\"transaction_id\":\"t\",\"risk_score\":1,\"decision\":\"block\",\"decision\":\"approve\"}\n\
                {\"risk_score\":1,\"decision\":\"block\"}\nnot json\n[1]\n";
    let (rows, _) = read(text, &settings(), &[]).unwrap();
    let reasons = [
        "duplicate_key",
        "existing_columns",
        "not_json",
        "not_an_object",
    ];
    assert_eq!(rows.get(1..).unwrap(), reasons.map(|reason| [reason]));
}

#[test]
fn what_is_not_a_scored_file_is_refused_with_what_is_missing() {
    for (text, further, report) in [
        (
            "name,ip\nAnn,::1\n",
            &[][..],
            "is not a scored file: it has no column `transaction_id`\n  columns: name, ip",
        ),
        (
            "transaction_id,risk_score,decision\nt,1,maybe\n",
            &[],
            "is not a scored file: row 1 has a value in `decision` that rescore never writes",
        ),
        (
            "transaction_id,risk_score,decision,decision\n",
            &[],
            "has `decision` twice",
        ),
        (
            "transaction_id,risk_score,decision\nt,1,block\n",
            &["country"],
            "no column `country` in the input",
        ),
        (
            "country,transaction_id,risk_score,decision\nFR,t,1,block\n",
            &["contry"],
            "no column `contry` in the input\n  columns: country, transaction_id, risk_score, decision\n\n\
             hint: did you mean `country`?",
        ),
        (
            "{\"country\":\"FR\",\"transaction_id\":\"t\",\"risk_score\":1,\"decision\":\"block\"}\n",
            &["contry"],
            "hint: did you mean `country`?",
        ),
        (
            "{\"transaction_id\":\"t\",\"risk_score\":\"1\",\"decision\":\"block\"}\n",
            &[],
            "row 1 has a value in `risk_score` that rescore never writes",
        ),
        (
            "{\"id\":1}\n",
            &[],
            "is not a scored file: it has no member `transaction_id`\n  members: id",
        ),
    ] {
        let error = read(text, &settings(), further).unwrap_err();
        assert!(error.report().contains(report), "{}", error.report());
        assert_eq!(error.exit().code(), 2);
    }
}

#[test]
fn a_column_that_may_be_lacking_is_read_where_it_is() {
    let columns = || {
        let further = ["name".to_owned()];
        ScoredColumns::new("", &further).and_if_there(["previous_decision".to_owned()])
    };
    for (text, expected) in [
        (CSV, ["approve", "Ann, B", ""]),
        (
            "previous_decision,name,transaction_id,risk_score,decision\nblock,Ann,t-1,1,review\n",
            ["review", "Ann", "block"],
        ),
        (
            "{\"name\":\"Ann\",\"transaction_id\":\"t\",\"risk_score\":1,\"decision\":\"block\"}\n",
            ["block", "Ann", ""],
        ),
    ] {
        let (mut reader, opened) = open(text, &settings(), columns()).unwrap();
        let rows = reader.next_batch().unwrap().unwrap().rows;
        let row = rows.first().unwrap();
        let values = [2, 3, 4].map(|column| row.value(column, opened.layout.format).into_owned());
        assert_eq!(values, expected);
    }
}

#[test]
fn what_a_run_writes_for_no_users_is_a_scored_file_of_no_rows() {
    for text in ["", "\n", "transaction_id,risk_score,decision\n"] {
        let (rows, bytes) = read(text, &settings(), &[]).unwrap();
        assert!(rows.is_empty());
        assert_eq!(bytes, text);
    }
}

#[test]
fn a_file_in_another_encoding_is_read_in_it() {
    let csv = b"name,transaction_id,risk_score,decision,gr\xfc\xdfe\nJ\xfcrgen,\xfc-1,1.5,approve,\"h\xf6ch\"\"st\"\n";
    let source = Source::of_reader(io::Cursor::new(csv.to_vec())).unwrap();
    let settings = FileSettings {
        encoding: TextEncoding::of_label("latin1").unwrap(),
        ..settings()
    };
    let columns = ScoredColumns::new("", &["grüße".to_owned()]);
    let (mut reader, opened) = ScoredReader::of_source(source, &settings, columns).unwrap();
    let row = reader.next_batch().unwrap().unwrap().rows.remove(0);
    let values = [0, 3].map(|column| row.value(column, opened.layout.format).into_owned());
    assert_eq!(values, ["ü-1", "höch\"st"]);
    assert_eq!(opened.layout.encoding, settings.encoding);
}
