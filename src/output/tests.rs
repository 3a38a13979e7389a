//! Writing: dropping our columns gives back the input, and a failed write leaves only complete
//! rows.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use proptest::prelude::*;

use super::file::{OutputFile, RowFiles, WriteError};
use super::target::{Replace, Target};
use super::writer::Writer;
use crate::base::encoding::TextEncoding;
use crate::drift::Drift;
use crate::layout::{AddedColumns, DECISION_COLUMN, Format, Layout, SCORE_COLUMN};
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

fn verdict() -> Verdict {
    let answer = Answer {
        transaction_id: TransactionId::new("T~1").unwrap(),
        score: Score::from_json_number("1.50").unwrap(),
        captured: Box::default(),
    };
    Verdict::Scored(answer, Some(Decision::Approve))
}

fn failed(failure: Failure) -> RowState {
    RowState::Done {
        verdict: Verdict::Failed(failure),
        old: None,
    }
}

/// Rows made of their parts: blank lines before, content, line end.
fn rows(parts: &[(&str, &str, &str)]) -> Vec<Row> {
    let mut number = RowNumber::FIRST;
    let mut rows = Vec::new();
    for (before, content, end) in parts {
        let raw = [*before, *content, *end].concat();
        rows.push(Row {
            number,
            raw: RawRow {
                bytes: Bytes::from(raw),
                content: Span::new(before.len(), before.len() + content.len()),
                ours: Box::default(),
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

fn layout() -> Layout {
    let header = rows(&[("", "a,b", "\r\n")]).remove(0).raw;
    Layout {
        format: Format::Delimited { delimiter: b',' },
        encoding: TextEncoding::UTF_8,
        preamble: "\u{feff}".into(),
        header: Some(header),
        columns: AddedColumns::new("", [], None),
    }
}

/// A writer with rejects and changes in these files.
fn writer(layout: Layout, to: &Unsteady, beside: [Option<Target>; 2]) -> Writer {
    let policy = DecisionPolicy::default();
    let output = OutputFile::stream(to.clone());
    let [rejects, changes] = beside.map(|target| target.map(|it| it.open(0o666).unwrap()));
    Writer::new(layout, policy, RowFiles::new(output, rejects, changes))
}

fn write(batches: &[Vec<Row>], to: &Unsteady) -> Result<(), WriteError> {
    let mut writer = writer(layout(), to, [None, None]);
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
    fn dropping_our_cells_gives_back_every_byte(
        parts in prop::collection::vec(("[\r\n]{0,2}", "[^\r\n~]{1,12}", "(\r\n|\n|\r)"), 0..20),
        step in 1_usize..40,
    ) {
        let parts: Vec<_> = { parts.iter() }
            .map(|(before, content, end)| (before.as_str(), content.as_str(), end.as_str()))
            .collect();
        let to = Unsteady::new(step, 0, None);
        prop_assert!(write(&[rows(&parts)], &to).is_ok());
        let mut output = to.bytes();
        let header = b"\xef\xbb\xbfa,b,transaction_id,risk_score,decision\r\n";
        prop_assert!(output.starts_with(header));
        output.drain(..header.len());
        let mut input: Vec<u8> = { parts.iter() }
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

/// As in `SQLite`'s own tests: the first operation fails, then the second, and so on, until none
/// fails.
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
fn a_row_without_a_verdict_has_empty_cells_and_goes_to_the_rejects_unchanged() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.rejects.csv");
    let to = Unsteady::new(usize::MAX, 0, None);
    let mut batch = rows(&[("", "1,\"2\"", "\r\n"), ("", "3,4", "\r\n")]);
    batch[0].state = failed(Failure::new(Reason::InvalidIp, "line 2: \"no\", ip"));
    let rejects = Target::new(&path, |_| Replace::Nothing).unwrap();
    let mut writer = writer(layout(), &to, [Some(rejects), None]);
    assert!(writer.write(&batch).is_ok() && writer.into_files().commit(|_| ()).error.is_none());
    let output = String::from_utf8(to.bytes()).unwrap();
    assert_eq!(
        output,
        "\u{feff}a,b,transaction_id,risk_score,decision\r\n1,\"2\",,,\r\n3,4,T~1,1.50,approve\r\n"
    );
    let rejects = std::fs::read_to_string(path).unwrap();
    let expected = "\u{feff}reject_row,reject_reason,reject_message,a,b\r\n\
        1,invalid_ip,\"line 2: \"\"no\"\", ip\",1,\"2\"\r\n";
    assert_eq!(rejects, expected);
}

/// Rows that end with an earlier decision and are now approved with 1.50, and a directory with the
/// changes.
struct Night {
    directory: tempfile::TempDir,
    layout: Layout,
    rows: Vec<Row>,
}

impl Night {
    fn of(format: Format, header: Option<&str>, contents: &[(&str, &str, &str)]) -> Self {
        let parts: Vec<_> = contents
            .iter()
            .map(|(before, content, _)| (*before, *content, "\r\n"))
            .collect();
        let mut night = rows(&parts);
        for (finished, (before, content, decision)) in night.iter_mut().zip(contents) {
            let end = before.len() + content.len();
            let end = if content.ends_with('}') { end - 1 } else { end };
            let span = Span::new(end - decision.len(), end);
            finished.raw.ours = Box::new([(span, DECISION_COLUMN)]);
        }
        let header = header.map(|header| rows(&[("\n", header, "\r\n")]).remove(0).raw);
        Self {
            directory: tempfile::tempdir().unwrap(),
            layout: Layout {
                format,
                header,
                ..layout()
            },
            rows: night,
        }
    }

    /// A writer that has been given the rows, and whether the output took them.
    fn written(&self, to: &Unsteady) -> (Writer, Result<(), WriteError>) {
        let open = |name| Target::new(&self.directory.path().join(name), |_| Replace::Nothing);
        let [rejects, changes] = ["rejects", "changes"].map(|name| open(name).ok());
        let mut writer = writer(self.layout.clone(), to, [rejects, changes]);
        let written = writer.write(&self.rows);
        (writer, written)
    }

    fn read(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.directory.path().join(name)).ok()
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.directory.path()).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

fn everything() -> Unsteady {
    Unsteady::new(usize::MAX, 0, None)
}

#[test]
fn changes_have_five_columns_before_the_original_row() {
    for (delimiter, front) in [
        (
            ',',
            "change_row,old_decision,old_score,new_decision,new_score",
        ),
        (
            ';',
            "change_row;old_decision;old_score;new_decision;new_score",
        ),
        (
            ':',
            "change_row:old_decision:old_score:new_decision:new_score",
        ),
        (
            '_',
            "\"change_row\"_\"old_decision\"_\"old_score\"_\"new_decision\"_\"new_score\"",
        ),
    ] {
        let with = |text: &str| text.replace('|', &delimiter.to_string());
        let contents = [
            ("\n", "\"a|\nb\"|\"block\"", "\"block\""),
            ("", "c|approve", "approve"),
            ("", "d|=1+1", "=1+1"),
            ("\n\n", "e|review", "review"),
        ]
        .map(|(before, content, decision)| (before, with(content), decision));
        let contents = contents
            .each_ref()
            .map(|(before, content, decision)| (*before, content.as_str(), *decision));
        let byte = u8::try_from(delimiter).unwrap();
        let format = Format::Delimited { delimiter: byte };
        let mut night = Night::of(format, Some(&with("name|decision")), &contents);
        // Also an earlier score in the row: here in the first cell, which does not have one.
        let ours = &mut night.rows[3].raw.ours;
        *ours = [&[(Span::new(2, 3), SCORE_COLUMN)], &ours[..]]
            .concat()
            .into();
        let (mut writer, written) = night.written(&everything());
        assert!(written.is_ok());
        let drift = writer.take_drift();
        assert_eq!((drift.compared, drift.changed), (3, 2));
        assert_eq!(writer.take_drift(), Drift::default());
        let written = writer.into_files().commit(|_| ());
        assert_eq!(
            written.changes,
            Some(night.directory.path().join("changes"))
        );
        assert_eq!(night.names(), ["changes"]);
        let expected = format!(
            "\u{feff}{front}{}",
            with(
                "|name|decision\r\n\
                1|block||approve|1.50|\"a|\nb\"|\"block\"\r\n\
                4|review||approve|1.50|e|review\r\n"
            )
        );
        assert_eq!(night.read("changes").unwrap(), expected);
    }
}

#[test]
fn changes_of_objects_have_five_more_members() {
    let contents = [
        (
            "\n",
            r#"{"a":1 , "decision":"\u0062lock"}"#,
            r#""\u0062lock""#,
        ),
        ("", r#"{"decision":"approve"}"#, r#""approve""#),
        ("", r#"{"decision":7.50}"#, "7.50"),
        ("", r#"{"old_score":1, "decision":"block"}"#, r#""block""#),
    ];
    let mut night = Night::of(Format::Jsonl, None, &contents);
    night.rows[2].raw.ours[0].1 = SCORE_COLUMN;
    let (writer, written) = night.written(&everything());
    assert!(written.is_ok() && writer.into_files().commit(|_| ()).error.is_none());
    let expected = concat!(
        r#"{"a":1 , "decision":"\u0062lock","#,
        r#""change_row":1,"old_decision":"block","old_score":null,"new_decision":"approve","new_score":1.50}"#,
        "\r\n",
        r#"{"decision":7.50,"#,
        r#""change_row":3,"old_decision":"block","old_score":7.50,"new_decision":"approve","new_score":1.50}"#,
        "\r\n",
        r#"{"old_score":1, "decision":"block","#,
        r#""change_row":4,"old_decision":"block","old_score":null,"new_decision":"approve","new_score":1.50}"#,
        "\r\n",
    );
    assert_eq!(night.read("changes").unwrap(), expected);
}

#[test]
fn the_changes_are_kept_without_rows_and_removed_after_a_stop() {
    let format = Format::Delimited { delimiter: b',' };
    let still = || Night::of(format, Some("decision"), &[("", "approve", "approve")]);
    let night = still();
    let (writer, _) = night.written(&everything());
    assert!(writer.into_files().commit(|_| ()).error.is_none());
    let header = "\u{feff}change_row,old_decision,old_score,new_decision,new_score,decision\r\n";
    assert_eq!(night.read("changes").as_deref(), Some(header));
    for end in [RowFiles::keep_partial, RowFiles::give_up] {
        let night = still();
        let (writer, _) = night.written(&everything());
        assert_eq!(end(writer.into_files()).changes, None);
        assert_eq!(night.names(), [""; 0]);
    }
    let moved = Night::of(format, Some("decision"), &[("", "block", "block")]);
    let (writer, _) = moved.written(&everything());
    let left = writer.into_files().keep_partial();
    assert_eq!(
        left.changes,
        Some(moved.directory.path().join("changes.partial"))
    );
    let expected = format!("{header}1,block,,approve,1.50,block\r\n");
    assert_eq!(moved.read("changes.partial"), Some(expected));
}

#[test]
fn only_written_rows_with_a_verdict_are_compared() {
    let format = Format::Delimited { delimiter: b',' };
    let mut night = Night::of(format, Some("decision"), &[("", "block", "block")]);
    let (mut writer, written) = night.written(&Unsteady::new(usize::MAX, 1, None));
    assert!(written.is_err());
    assert_eq!(writer.take_drift(), Drift::default());
    let left = writer.into_files().give_up();
    assert!(left.output.or(left.changes).is_none());
    assert_eq!(night.names(), [""; 0]);

    night.rows[0].state = failed(Failure::new(Reason::Refused, "no"));
    let (mut writer, written) = night.written(&everything());
    assert!(written.is_ok());
    assert_eq!(writer.take_drift(), Drift::default());
    assert!(writer.into_files().commit(|_| ()).error.is_none());
    assert_eq!(night.names(), ["changes", "rejects"]);
}

#[test]
fn an_older_answer_is_compared_if_the_row_has_none() {
    let format = Format::Delimited { delimiter: b',' };
    let mut night = Night::of(
        format,
        Some("decision"),
        &[("", "x,", ""), ("", "y,block", "block")],
    );
    for finished in &mut night.rows {
        finished.state = RowState::Done {
            verdict: verdict(),
            old: Some(Score::from_json_number("4.0").unwrap()),
        };
    }
    let (writer, written) = night.written(&everything());
    assert!(written.is_ok() && writer.into_files().commit(|_| ()).error.is_none());
    let changes = night.read("changes").unwrap();
    assert!(
        changes.ends_with("\r\n1,review,4.0,approve,1.50,x,\r\n2,block,,approve,1.50,y,block\r\n"),
        "{changes}"
    );
}

#[test]
fn before_any_file_gets_its_name_the_final_states_are_known() {
    for end in ["", ".gz", ".zst"] {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let new = |name: &str| Target::new(&path(name), |_| Replace::Nothing).unwrap();
        let output = format!("output{end}");
        let open = |name: &str| new(name).open(0o666).unwrap();
        let files = RowFiles::new(open(&output), Some(open("rejects")), Some(open("changes")));
        let mut writer = Writer::new(layout(), DecisionPolicy::default(), files);
        let mut batch = rows(&[("", "1,2", "\n"), ("", "3,4", "\n")]);
        batch[0].state = failed(Failure::new(Reason::InvalidIp, "no"));
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
