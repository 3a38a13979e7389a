//! The summary of a run that could not start.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::json::SummaryJson;
use super::named_file::ReadFile;
use super::run_summary::RunSummary;
use crate::base::error::Error;
use crate::base::money::Tariff;
use crate::observe::json::indented;
use crate::observe::run_identity::RunIdentity;
use crate::selection::Selection;
use crate::telemetry::accepted_failures::AcceptedFailures;
use crate::telemetry::stats::Stats;

/// How a summary starts: only such a file is replaced by a failure.
const START: &[u8] = b"{\"type\":\"summary\"";
/// How many bytes are read to find that out, with room for line ends and indentation.
const START_BYTES: u64 = 64;
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
        if !is_summary(path)? {
            return Err(io::Error::other("its content is not a summary of rescore"));
        }
        fs::write(path, self.text(error))
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
            from_stdin: self.input.path.is_none(),
            input: self.input,
            files: None,
            output: None,
            rejects: None,
            changes: None,
            ledger: None,
            sandbox_billed: None,
            output_is_gone: false,
        };
        indented(&SummaryJson::new(&run).ended(error.exit(), NOT_STARTED))
    }
}

/// Whether there is a summary, or the empty file of one that was not written yet.
fn is_summary(path: &Path) -> io::Result<bool> {
    let there = fs::metadata(path)?;
    if !there.is_file() || there.len() == 0 {
        return Ok(there.is_file());
    }
    let mut start = Vec::new();
    File::open(path)?
        .take(START_BYTES)
        .read_to_end(&mut start)?;
    start.retain(|byte| !byte.is_ascii_whitespace());
    Ok(start.starts_with(START))
}
