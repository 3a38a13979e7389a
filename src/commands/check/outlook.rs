//! What a run would do and cost: everything that the words and the JSON show.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::super::open_input::InputFacts;
use super::counts::{CheckedRows, NamedRows};
use super::estimate::TimeEstimate;
use super::remedies::RemedyContext;
use crate::base::error::{Error, Exit};
use crate::base::money::Tariff;
use crate::config::InputLimits;
use crate::input::{Input, ReaderSettings};
use crate::layout::Format;
use crate::selection::Selection;

/// What a run would do and cost.
pub(super) struct Outlook {
    /// The inputs; there is at least one.
    pub(super) files: Vec<FileOutlook>,
    /// Requests to send.
    pub(super) calls: u64,
    pub(super) ledger: Option<LedgerOutlook>,
    pub(super) tariff: Option<Tariff>,
    pub(super) time: TimeEstimate,
    /// What the input must be like for the run to send anything.
    pub(super) limits: InputLimits,
    /// The output, if it is there and the run is not asked to replace it.
    pub(super) existing_output: Option<PathBuf>,
    /// Where the rows are that cannot be sent.
    pub(super) rejects: Option<PathBuf>,
    /// They are left to the run, which has an output.
    pub(super) run_writes_rejects: bool,
}

/// What was found out about an input.
pub(super) struct FileOutlook {
    /// The input's name for people.
    pub(super) name: String,
    /// The rows of it that a run would take.
    pub(super) selection: Selection,
    /// Its path; `None` is standard input.
    pub(super) path: Option<PathBuf>,
    /// Which column is which field, as one line.
    pub(super) mapping: String,
    /// Columns of an earlier run that would be replaced.
    pub(super) replaced: Vec<String>,
    /// Bytes behind the compressed data are ignored.
    pub(super) ignores_bytes: bool,
    pub(super) rows: CheckedRows,
    /// Decides which options would help.
    pub(super) remedies: RemedyContext,
    /// Its output is there: a run skips it, and it was not read.
    pub(super) finished: bool,
    /// Why it cannot be used, or not to its end.
    pub(super) error: Option<String>,
}

/// The ledger whose answers were looked up.
pub(super) struct LedgerOutlook {
    pub(super) ledger: PathBuf,
    /// Whose answers they are; `None` if it has none of the account.
    pub(super) endpoint: Option<String>,
    /// They come from the built-in stand-in, and cost nothing.
    pub(super) sandbox: bool,
    /// It is there already.
    pub(super) exists: bool,
    /// The run would continue one that was stopped.
    pub(super) continues: bool,
    /// Addresses that it has answers of instead.
    pub(super) others: Vec<String>,
}

/// Rows of a kind in all files.
pub(super) struct RowsOfKind<'a> {
    /// How many there are.
    pub(super) rows: u64,
    /// The first file that has some.
    pub(super) file: &'a FileOutlook,
    /// Those of this file.
    pub(super) first: &'a NamedRows,
}

impl FileOutlook {
    /// For an input that was read.
    pub(super) fn of(facts: &InputFacts, remedies: RemedyContext, rows: CheckedRows) -> Self {
        Self {
            name: facts.name(),
            selection: facts.selection,
            path: path(&facts.source),
            mapping: facts.mapping.clone(),
            replaced: facts.replaced.clone(),
            ignores_bytes: facts.ignored.any(),
            rows,
            remedies,
            finished: false,
            error: None,
        }
    }

    /// For an input that was not read.
    pub(super) fn unread(settings: &ReaderSettings) -> Self {
        let input = &settings.file.input;
        Self {
            name: input.shown(),
            selection: settings.selection,
            path: path(input),
            mapping: String::new(),
            replaced: Vec::new(),
            ignores_bytes: false,
            rows: CheckedRows::default(),
            remedies: RemedyContext::new(settings, Format::Jsonl),
            finished: false,
            error: None,
        }
    }

    /// The same input, whose output is there.
    pub(super) fn finished(mut self) -> Self {
        self.finished = true;
        self
    }

    /// The same input, which cannot be used for this reason.
    pub(super) fn broken(mut self, error: &Error) -> Self {
        let words = error.log_words();
        self.error = Some(words.lines().next().unwrap_or_default().to_owned());
        self
    }
}

fn path(input: &Input) -> Option<PathBuf> {
    match input {
        Input::File(path) => Some(path.clone()),
        Input::Stdin => None,
    }
}

impl Outlook {
    /// How the command ends.
    pub(super) fn exit(&self) -> Exit {
        if self.files.iter().any(|file| file.error.is_some()) {
            Exit::Usage
        } else if self.total(CheckedRows::rejected) == 0 {
            Exit::Complete
        } else {
            Exit::SomeFailed
        }
    }

    /// The input, if it is the only one.
    pub(super) fn only_file(&self) -> Option<&FileOutlook> {
        match self.files.as_slice() {
            [file] => Some(file),
            _ => None,
        }
    }

    /// A number of all inputs.
    pub(super) fn total(&self, number: impl Fn(&CheckedRows) -> u64) -> u64 {
        self.files.iter().map(|file| number(&file.rows)).sum()
    }

    /// Rows that repeat an earlier one that is not paid for.
    pub(super) fn duplicates(&self) -> u64 {
        self.total(CheckedRows::open) - self.calls
    }

    /// Rows of all inputs by their kind, such as the reason why they cannot be sent.
    pub(super) fn by_kind<'a, K: Ord + Copy + 'a>(
        &'a self,
        kinds: impl Fn(&CheckedRows) -> &BTreeMap<K, NamedRows>,
    ) -> BTreeMap<K, RowsOfKind<'a>> {
        let mut all: BTreeMap<K, RowsOfKind<'a>> = BTreeMap::new();
        for file in &self.files {
            for (kind, first) in kinds(&file.rows) {
                let rows = 0;
                let of_kind = all.entry(*kind).or_insert(RowsOfKind { rows, file, first });
                of_kind.rows += first.rows;
            }
        }
        all
    }

    /// Where the rejects are.
    pub(super) fn rejects(&self) -> Option<&Path> {
        self.rejects.as_deref()
    }
}
