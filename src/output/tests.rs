//! Writing: dropping the added columns gives back the input, and a failed write leaves only complete rows.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use proptest::prelude::*;

use super::file::{OutputFile, RowFiles, WriteError};
use super::target::{Replace, Target};
use super::writer::Writer;
use crate::analysis::Drift;
use crate::base::private_file::Readers;
use crate::base::text::TextEncoding;
use crate::layout::{AddedColumns, DECISION_COLUMN, Format, Layout};
use crate::row::{RawRow, RowNumber, Span};
use crate::row_state::{Row, RowState};
use crate::verdict::{
    Answer, Decision, DecisionPolicy, Failure, Reason, Score, TransactionId, Verdict,
};

/// Takes at most `step` bytes per write and fails at the `fails`th. The test can see what it took.
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

/// Rows made of their parts: blank lines before, content, line end.
fn rows(parts: &[(&str, &str, &str)]) -> Vec<Row> {
    let verdict = || {
        let answer = Answer {
            transaction_id: TransactionId::new("T~1").unwrap(),
            score: Score::from_json_number("1.50").unwrap(),
            captured: Box::default(),
        };
        Verdict::Scored(answer, Some(Decision::Approve))
    };
    let mut number = RowNumber::FIRST;
    let mut rows = Vec::new();
    for (before, content, end) in parts {
        let raw = [*before, *content, *end].concat();
        rows.push(Row {
            number,
            raw: RawRow {
                bytes: Bytes::from(raw),
                content: Span::new(before.len(), before.len() + content.len()),
                ..RawRow::default()
            },
            state: RowState::Done {
                verdict: verdict(),
                old: None,
            },
        });
        number = number.next();
    }
    rows
}

fn writer(files: RowFiles) -> Writer {
    let header = rows(&[("", "a,b", "\r\n")]).remove(0).raw;
    let layout = Layout {
        format: Format::Delimited {
            delimiter: b',',
            quotes: true,
        },
        encoding: TextEncoding::UTF_8,
        preamble: "\u{feff}".into(),
        header: Some(header),
        columns: AddedColumns::new("", [], None),
    };
    Writer::new(layout, DecisionPolicy::default(), files)
}

fn write(batches: &[Vec<Row>], to: &Unsteady) -> Result<(), WriteError> {
    let mut writer = writer(RowFiles::new(OutputFile::stream(to.clone()), None, None));
    for batch in batches {
        writer.write(batch)?;
    }
    writer.trailer(b"\n\n");
    let written = writer.into_files().commit(|_| ());
    written.error.map_or(Ok(()), |error| Err(*error))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn dropping_the_added_cells_gives_back_every_byte(
        parts in prop::collection::vec(("[\r\n]{0,2}", "[^\r\n~]{1,12}", "(\r\n|\n|\r)"), 0..20),
        step in 1_usize..40,
    ) {
        let parts: Vec<_> = parts
            .iter()
            .map(|(before, content, end)| (before.as_str(), content.as_str(), end.as_str()))
            .collect();
        let to = Unsteady::new(step, 0, None);
        prop_assert!(write(&[rows(&parts)], &to).is_ok());
        let mut output = to.bytes();
        let header = b"\xef\xbb\xbfa,b,transaction_id,risk_score,decision\r\n";
        prop_assert!(output.starts_with(header));
        output.drain(..header.len());
        let mut input: Vec<u8> = parts
            .iter()
            .flat_map(|(before, content, end)| [*before, *content, *end].concat().into_bytes())
            .collect();
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

/// As in `SQLite`'s own tests: the first operation fails, then the second, and so on, until none fails.
#[test]
fn a_failed_write_is_an_error_and_leaves_correct_rows() {
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
fn only_rows_that_the_output_took_are_compared_with_their_old_decision() {
    let mut batch = rows(&[("", "x,block", "\n")]);
    batch[0].raw.scored_cells = Box::new([(Span::new(2, 7), DECISION_COLUMN)]);
    for (fails, compared) in [(0, 1), (1, 0)] {
        let output = OutputFile::stream(Unsteady::new(usize::MAX, fails, None));
        let mut writer = writer(RowFiles::new(output, None, None));
        assert_eq!(writer.write(&batch).is_ok(), fails == 0);
        let drift = writer.take_drift();
        assert_eq!((drift.compared, drift.changed), (compared, compared));
        assert_eq!(writer.take_drift(), Drift::default());
    }
}

#[test]
fn before_any_file_gets_its_name_the_final_states_are_known() {
    for end in ["", ".gz", ".zst"] {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let new = |name: &str| Target::new(&path(name), Replace::Nothing).unwrap();
        let output = format!("output{end}");
        let open = |name: &str| new(name).open(Readers::EVERYBODY).unwrap();
        let files = RowFiles::new(open(&output), Some(open("rejects")), Some(open("changes")));
        let mut writer = writer(files);
        let mut batch = rows(&[("", "1,2", "\n"), ("", "3,4", "\n")]);
        batch[0].state = RowState::Done {
            verdict: Verdict::Failed(Failure::new(Reason::InvalidIp, "no")),
            old: None,
        };
        assert!(writer.write(&batch).is_ok());
        let mut told = Vec::new();
        let written = writer.into_files().commit(|sealed| {
            told = sealed.to_vec();
            assert!(told.iter().all(|(path, _)| !path.exists()));
        });
        assert!(written.error.is_none());
        assert_eq!(told.len(), 3);
        for (path, then) in told {
            let now = path.metadata().unwrap();
            let modified = |metadata: &std::fs::Metadata| metadata.modified().unwrap();
            assert_eq!((now.len(), modified(&now)), (then.len(), modified(&then)));
        }
    }
}
