//! Reading files as a run does, in this process: what the sections without the program measure, and the bodies that the
//! bare loop sends.

use std::path::{Path, PathBuf};
use std::time::Instant;

use bytes::Bytes;
use rescore::internals::{
    AddedColumns, Assignments, Compose, FieldRules, FileSettings, FormatChoice, Input, Plan,
    Reader, ReaderSettings, RowState, Selection, TextEncoding, write_body,
};

/// As [`crate::program::REQUEST`] asks for it.
const PLAN: Plan = Plan::Paid {
    vpn_check: true,
    advanced: false,
};

/// What a reader of a plain file needs.
pub(crate) fn reader_settings(input: &Path) -> ReaderSettings {
    ReaderSettings {
        file: FileSettings {
            input: Input::File(PathBuf::from(input)),
            format: FormatChoice::Detect,
            encoding: TextEncoding::UTF_8,
            delimiter: None,
            no_header: false,
        },
        judges_first_rows: true,
        selection: Selection::default(),
        scored: None,
        assignments: Assignments::default(),
        rules: FieldRules::default(),
        columns: AddedColumns::new("", [], None),
    }
}

/// How a run makes bodies.
pub(crate) fn compose() -> Compose {
    Compose::new(|request, to| write_body(request, PLAN, to))
}

/// The bodies that a run over this file sends.
pub(crate) fn bodies(input: &Path) -> Vec<Bytes> {
    let (mut reader, _) = Reader::open(reader_settings(input), compose()).unwrap();
    std::iter::from_fn(|| reader.next_batch().unwrap())
        .flat_map(|batch| batch.rows)
        .map(|row| match row.state {
            RowState::Asked(body) => body,
            other => unreachable!("{other:?}"),
        })
        .collect()
}

/// No bodies: reading alone is measured.
pub(crate) fn nothing() -> Compose {
    Compose::new(|_, _| {})
}

/// Reads all rows and finds their fields, on one thread; rows a second.
pub(crate) fn through_reader(input: &Path, rows: u32, compose: Compose) -> f64 {
    let began = Instant::now();
    let (mut reader, _) = Reader::open(reader_settings(input), compose).unwrap();
    while let Some(batch) = reader.next_batch().unwrap() {
        for row in batch.rows {
            assert!(row.state.failure().is_none());
        }
    }
    f64::from(rows) / began.elapsed().as_secs_f64()
}
