//! What a run would do and cost: everything that the words and the JSON show.

use std::path::{Path, PathBuf};

use super::counts::CheckedRows;
use super::estimate::TimeEstimate;
use super::remedies::RemedyContext;
use crate::base::error::Exit;
use crate::base::money::Tariff;
use crate::ledger::{NamedLedger, PreviewedRun};
use crate::selection::Selection;

/// What a run would do and cost.
pub(super) struct Outlook {
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
    pub(super) counts: CheckedRows,
    /// Decides which options would help.
    pub(super) remedies: RemedyContext,
    pub(super) ledger: Option<LedgerOutlook>,
    pub(super) tariff: Option<Tariff>,
    pub(super) time: TimeEstimate,
    /// Where the rows are that cannot be sent.
    pub(super) rejects: Option<PathBuf>,
}

/// The ledger whose answers were looked up.
pub(super) struct LedgerOutlook {
    pub(super) ledger: NamedLedger,
    /// Whose answers they are; `None` if it has none of the account.
    pub(super) endpoint: Option<String>,
    /// They come from the built-in stand-in, and cost nothing.
    pub(super) sandbox: bool,
    pub(super) run: PreviewedRun,
    /// Addresses that it has answers of instead.
    pub(super) others: Vec<String>,
}

impl Outlook {
    /// How the command ends.
    pub(super) fn exit(&self) -> Exit {
        if self.counts.rejected() == 0 {
            Exit::Complete
        } else {
            Exit::SomeFailed
        }
    }

    /// Where the rejects are.
    pub(super) fn rejects(&self) -> Option<&Path> {
        self.rejects.as_deref()
    }
}
