//! Reading when reads fail, are short or return single bytes: rows are complete and correct, or
//! there is an error.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::io::{self, Read};

use bytes::{Bytes, BytesMut};

use super::{Compose, Input, Reader, ReaderSettings};
use crate::base::error::Result;
use crate::fields::UserRequest;
use crate::layout::{DECISION_COLUMN, SCORE_COLUMN};
use crate::row_state::Row;

/// Returns at most `step` bytes per read, is interrupted at every third read, and fails at the
/// `fails`th.
struct Unsteady {
    bytes: io::Cursor<Vec<u8>>,
    step: usize,
    reads: usize,
    fails: usize,
}

impl Read for Unsteady {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.reads += 1;
        if self.reads == self.fails {
            return Err(io::Error::other("the disk is on fire"));
        }
        if self.reads.is_multiple_of(3) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let most = self.step.min(into.len());
        self.bytes.read(&mut into[..most])
    }
}

/// The bytes of all rows and whether they are valid, and how reading ended.
fn read(bytes: &[u8], step: usize, fails: usize) -> (Vec<(Bytes, bool)>, Result<()>) {
    let source = Unsteady {
        bytes: io::Cursor::new(bytes.to_vec()),
        step,
        reads: 0,
        fails,
    };
    let compose = Compose::new(|request: &UserRequest<'_>, to: &mut BytesMut| {
        to.extend_from_slice(request.name.as_bytes());
    });
    let settings = ReaderSettings::without_options(Input::Stdin);
    let mut rows = Vec::new();
    let mut reader = match Reader::over(source, settings, compose) {
        Ok((reader, _)) => reader,
        Err(error) => return (rows, Err(error)),
    };
    loop {
        match reader.next_batch() {
            Ok(Some(batch)) => rows.extend(
                batch
                    .rows
                    .into_iter()
                    .map(|row| (row.state.failure().is_none(), row.raw.bytes))
                    .map(|(valid, bytes)| (bytes, valid)),
            ),
            Ok(None) => return (rows, Ok(())),
            Err(error) => return (rows, Err(error)),
        }
    }
}

const CSV: &str = "name,email,ip,user_agent\r\n\"A\nB\",a@x.org,::1,u\r\n\nC,c@x.org,\
    \"::1\",u\rD,d@x.org,nowhere,u\nE,e@x.org,::1,\"u \"\"v\"\"\"";
const JSONL: &str = "{\"name\":\"A\",\"email\":\"a@x.org\",\"ip\":\"::1\",\"user_agent\":\"u\"}\n\nno json\r\n\
    {\"name\":\"\u{fc}\",\"email\":\"b@x.org\",\"ip\":\"::1\",\"user_agent\":\"u\"}";

#[test]
fn rows_are_the_same_however_the_bytes_arrive() {
    for text in [CSV, JSONL] {
        let (whole, ended) = read(text.as_bytes(), usize::MAX, 0);
        assert!(ended.is_ok());
        assert!(
            whole.len() >= 3 && whole.iter().any(|(_, valid)| !valid),
            "{whole:?}"
        );
        for step in 1..text.len() {
            let (rows, ended) = read(text.as_bytes(), step, 0);
            assert!(ended.is_ok(), "{step}");
            assert_eq!(rows, whole, "{step} bytes at a time");
        }
    }
}

/// As in `SQLite`'s own tests: the first operation fails, then the second, and so on, until none
/// fails.
#[test]
fn a_failed_read_is_an_error_and_never_a_short_file() {
    for text in [CSV, JSONL] {
        let (whole, _) = read(text.as_bytes(), 7, 0);
        let mut failures = 0;
        for fails in 1.. {
            let (rows, ended) = read(text.as_bytes(), 7, fails);
            let Err(error) = ended else {
                assert_eq!(rows, whole);
                break;
            };
            failures += 1;
            assert!(
                error.report().contains("the disk is on fire"),
                "{}",
                error.report()
            );
            assert!(whole.starts_with(&rows), "{fails}: {rows:?}");
        }
        assert!(failures > text.len() / 7, "{failures}");
    }
}

/// The earlier score and decision of each row, as written.
fn earlier(text: &str, delimiter: Option<u8>) -> Vec<(String, String)> {
    let mut settings = ReaderSettings::without_options(Input::Stdin);
    settings.file.delimiter = delimiter;
    let source = io::Cursor::new(text.as_bytes().to_vec());
    let (mut reader, _) = Reader::over(source, settings, Compose::new(|_, _| {})).unwrap();
    let mut rows = Vec::new();
    while let Some(batch) = reader.next_batch().unwrap() {
        rows.extend(batch.rows.into_iter().map(|Row { raw, .. }| {
            let text = |column| String::from_utf8(raw.slice(raw.value_of(column)).to_vec());
            (text(SCORE_COLUMN).unwrap(), text(DECISION_COLUMN).unwrap())
        }));
    }
    rows
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    let owned = |(score, decision): &(&str, &str)| ((*score).to_owned(), (*decision).to_owned());
    expected.iter().map(owned).collect()
}

#[test]
fn earlier_cells_are_found() {
    let csv = "decision,name,email,ip,user_agent,transaction_id,risk_score\n\
        approve,A,a@x.org,::1,u,t,1.50\r\n\
        \n\"review\",\"B\nb\",b@x.org,::1,u,,\"3\"\n\
        ,C,c@x.org,::1,u,,\n\
        block,short\n\
        block,D,d@x.org,nowhere,u,,9";
    let expected = pairs(&[
        ("1.50", "approve"),
        ("\"3\"", "\"review\""),
        ("", ""),
        // It cannot be known which of its cells are ours.
        ("", ""),
        ("9", "block"),
    ]);
    assert_eq!(earlier(csv, None), expected);
    let other = |delimiter: &str| csv.replace("::1", "192.0.2.1").replace(',', delimiter);
    for delimiter in [";", ":", "\t", "_"] {
        let byte = delimiter.as_bytes()[0];
        let named = other(delimiter)
            .replace("user_agent", "\"user_agent\"")
            .replace("transaction_id", "\"transaction_id\"")
            .replace("risk_score", "\"risk_score\"");
        assert_eq!(earlier(&named, Some(byte)), expected);
    }
    assert_eq!(earlier(CSV, None), vec![(String::new(), String::new()); 4]);
}

#[test]
fn earlier_members_are_found() {
    let user = r#""name":"A","email":"a@x.org","ip":"::1","user_agent":"u""#;
    let text = format!(
        "{{\"decision\":\"approve\",{user},\"transaction_id\":\"t\",\"risk_score\": 1.50 }}\r\n\
        \n{{{user},\"transaction_id\":null,\"risk_score\":3,\"d\\u0065cision\":\"r\\u0065view\"}}\n\
        {{{user}}}\n\
        {{{user},\"transaction_id\":null,\"decision\":null,\"risk_score\":null}}\n\
        no json\n"
    );
    let expected = pairs(&[
        ("1.50", "\"approve\""),
        ("3", "\"r\\u0065view\""),
        ("", ""),
        ("null", "null"),
        ("", ""),
    ]);
    assert_eq!(earlier(&text, None), expected);
}
