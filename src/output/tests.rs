//! Writing: dropping our columns gives back the input, and a write that fails leaves whole rows behind.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::layout::{Existing, VERDICT_COLUMNS};
use crate::row::{RowNumber, Span};
use crate::verdict::{Answer, Decision, Failure, Reason, Score, TransactionId};

/// Takes at most `step` bytes a write and fails at the `fails`th; what it took can be seen from outside.
#[derive(Clone, Default)]
struct Unsteady(Arc<Mutex<Taken>>);

#[derive(Default)]
struct Taken {
    bytes: Vec<u8>,
    writes: usize,
    step: usize,
    fails: usize,
    how: Option<io::ErrorKind>,
}

impl Unsteady {
    fn new(step: usize, fails: usize, how: Option<io::ErrorKind>) -> Self {
        Self(Arc::new(Mutex::new(Taken {
            step,
            fails,
            how,
            ..Taken::default()
        })))
    }

    fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().bytes.clone()
    }
}

impl Write for Unsteady {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut taken = self.0.lock().unwrap();
        taken.writes += 1;
        if taken.writes == taken.fails {
            return Err(taken.how.unwrap_or(io::ErrorKind::StorageFull).into());
        }
        let most = taken.step.min(bytes.len());
        taken.bytes.extend_from_slice(&bytes[..most]);
        Ok(most)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

const CELLS: &[u8] = b",T~1,1.50,approve";

fn verdict() -> Verdict {
    let answer = Answer {
        transaction_id: TransactionId::new("T~1").unwrap(),
        score: Score::from_json_number("1.50").unwrap(),
        captured: Box::default(),
    };
    Verdict::Scored(answer, Decision::Approve)
}

/// Rows whose parts are given: blank lines before, content, line end.
fn rows(parts: &[(&str, &str, &str)]) -> Vec<Finished> {
    let mut number = RowNumber::FIRST;
    let mut rows = Vec::new();
    for (before, content, end) in parts {
        let raw = [*before, *content, *end].concat();
        rows.push(Finished {
            row: Row {
                number,
                raw: Bytes::from(raw),
                content: Span::new(before.len(), before.len() + content.len()),
                existing: Box::default(),
            },
            verdict: verdict(),
            aged: None,
        });
        number = number.next();
    }
    rows
}

fn layout() -> Layout {
    let header = rows(&[("", "a,b", "\r\n")]).remove(0).row;
    Layout {
        format: Format::Delimited { delimiter: b',' },
        byte_order_mark: b"\xef\xbb\xbf",
        header: Some(header),
        columns: VERDICT_COLUMNS.map(str::to_owned).into(),
        existing: Existing::Replace,
    }
}

fn write(batches: &[Vec<Finished>], to: &Unsteady) -> Result<(), WriteError> {
    let mut writer = Writer::new(layout(), Sink::stream(to.clone()), None);
    for batch in batches {
        writer.write(batch)?;
    }
    writer.trailer(b"\n\n");
    writer
        .commit()
        .map(drop)
        .map_err(|unfinished| unfinished.error)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn dropping_our_cells_gives_back_every_byte(
        parts in prop::collection::vec(("[\r\n]{0,2}", "[^\r\n~]{1,12}", "(\r\n|\n|\r)"), 0..20),
        step in 1_usize..40,
    ) {
        let parts: Vec<_> = parts.iter().map(|(before, content, end)| (before.as_str(), content.as_str(), end.as_str())).collect();
        let to = Unsteady::new(step, 0, None);
        prop_assert!(write(&[rows(&parts)], &to).is_ok());
        let mut output = to.bytes();
        let header = b"\xef\xbb\xbfa,b,transaction_id,risk_score,decision\r\n";
        prop_assert!(output.starts_with(header));
        output.drain(..header.len());
        let mut input: Vec<u8> = parts.iter().flat_map(|(before, content, end)| [*before, *content, *end].concat().into_bytes()).collect();
        input.extend_from_slice(b"\n\n");
        let mut cells = 0;
        while let Some(at) = output.windows(CELLS.len()).position(|window| window == CELLS) {
            output.drain(at..at + CELLS.len());
            cells += 1;
        }
        prop_assert_eq!(output, input);
        prop_assert_eq!(cells, parts.len());
    }
}

/// As `SQLite` tests itself: fail the first operation, then the second, until nothing fails any more.
#[test]
fn a_write_that_fails_is_an_error_and_what_is_there_is_right() {
    let batches = [
        rows(&[("", "1,2", "\r\n"), ("\n", "3,4", "\n")]),
        rows(&[("", "5,6", "")]),
    ];
    let whole = Unsteady::new(usize::MAX, 0, None);
    assert!(write(&batches, &whole).is_ok());
    for how in [io::ErrorKind::StorageFull, io::ErrorKind::BrokenPipe] {
        let mut failures = 0;
        for fails in 1.. {
            let to = Unsteady::new(5, fails, Some(how));
            match write(&batches, &to) {
                Ok(()) => {
                    assert_eq!(to.bytes(), whole.bytes());
                    break;
                }
                Err(WriteError::Closed) => assert_eq!(how, io::ErrorKind::BrokenPipe),
                Err(WriteError::Failed(error)) => {
                    assert_eq!((how, error.exit().code()), (io::ErrorKind::StorageFull, 3));
                    assert!(
                        error
                            .report()
                            .starts_with("error: cannot write the output: "),
                        "{}",
                        error.report()
                    );
                }
            }
            failures += 1;
            assert!(whole.bytes().starts_with(&to.bytes()));
        }
        assert!(failures > whole.bytes().len() / 5);
    }
}

#[test]
fn a_row_without_a_verdict_has_empty_cells_and_the_rejects_have_it_as_it_came() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.rejects.csv");
    let to = Unsteady::new(usize::MAX, 0, None);
    let mut batch = rows(&[("", "1,\"2\"", "\r\n"), ("", "3,4", "\r\n")]);
    batch[0].verdict = Verdict::Failed(Failure::new(Reason::InvalidIp, "line 2: \"no\", ip"));
    let rejects = Rejects::open(Target::new(&path, |_| Replace::Nothing).unwrap()).unwrap();
    let mut writer = Writer::new(layout(), Sink::stream(to.clone()), Some(rejects));
    assert!(writer.write(&batch).is_ok() && writer.commit().is_ok());
    let output = String::from_utf8(to.bytes()).unwrap();
    assert_eq!(
        output,
        "\u{feff}a,b,transaction_id,risk_score,decision\r\n1,\"2\",,,\r\n3,4,T~1,1.50,approve\r\n"
    );
    let rejects = std::fs::read_to_string(path).unwrap();
    let expected = "\u{feff}reject_row,reject_reason,reject_message,a,b\r\n1,invalid_ip,\"line 2: \"\"no\"\", ip\",1,\"2\"\r\n";
    assert_eq!(rejects, expected);
}
