//! The summary of a run that could not start.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::earlier::refuse_other_content;
use super::json::SummaryJson;
use super::kept_ledger::LedgerLeft;
use super::named_file::ReadFile;
use super::run_summary::RunSummary;
use crate::base::error::Error;
use crate::base::money::Tariff;
use crate::base::own_file;
use crate::observe::json::indented;
use crate::observe::run_identity::RunIdentity;
use crate::selection::Selection;
use crate::telemetry::accepted_failures::AcceptedFailures;
use crate::telemetry::stats::Stats;

/// Why it stopped.
const NOT_STARTED: &str = "not_started";

/// A run that could not start: what was known of it, which is what it was asked to do.
#[derive(Debug)]
pub(crate) struct FailedStart {
    /// Which run it is.
    pub(crate) identity: RunIdentity,
    /// The stand-in would have answered.
    pub(crate) sandbox: bool,
    /// The service's address.
    pub(crate) endpoint: Option<String>,
    /// The input.
    pub(crate) input: ReadFile,
    /// Which of its rows it should have taken.
    pub(crate) selection: Selection,
    /// What calls cost, if the user says so.
    pub(crate) tariff: Option<Tariff>,
}

impl FailedStart {
    /// Replaces an earlier summary by one that says why the run did not start. Where there is none, none is made: a run that
    /// was refused leaves no files.
    ///
    /// # Errors
    /// It cannot be written, or its content is not a summary.
    pub(crate) fn replace(self, path: &Path, error: &Error) -> io::Result<()> {
        let there = fs::metadata(path)?;
        if !there.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        refuse_other_content(path)?;
        own_file::replace(path, own_file::mode_of(&there), self.text(error).as_bytes())
    }

    fn text(self, error: &Error) -> String {
        let run = RunSummary {
            identity: &self.identity,
            stats: &Stats::default(),
            end: SystemTime::now(),
            accepted: AcceptedFailures::default(),
            elapsed: Duration::ZERO,
            error: Some(error),
            sandbox: self.sandbox,
            tariff: self.tariff.as_ref(),
            part: (!self.selection.is_everything()).then_some(self.selection),
            endpoint: self.endpoint.as_deref(),
            input: self.input,
            files: None,
            output: None,
            rejects: None,
            changes: None,
            ledger: LedgerLeft::Nothing,
            sandbox_billed: None,
            output_is_gone: false,
        };
        indented(&SummaryJson::new(&run).ended(error.exit(), NOT_STARTED))
    }
}
