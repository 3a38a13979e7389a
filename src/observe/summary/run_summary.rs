//! A run that is over: what its summary is made of.

use std::path::PathBuf;
use std::time::Duration;

use super::files::FileSummary;
use super::kept_ledger::KeptLedger;
use crate::base::money::Tariff;
use crate::selection::Selection;
use crate::telemetry::accepted_failures::AcceptedFailures;
use crate::telemetry::stats::Stats;

/// A run that is over.
#[derive(Debug)]
pub(crate) struct RunSummary<'a> {
    /// What was counted.
    pub(crate) stats: &'a Stats,
    /// Failed rows with which it still counts as a success.
    pub(crate) accepted: AcceptedFailures,
    /// How long it took.
    pub(crate) elapsed: Duration,
    /// The stand-in answered, not the service.
    pub(crate) sandbox: bool,
    /// What calls cost, where the user says so.
    pub(crate) tariff: Option<&'a Tariff>,
    /// The rows that the run took, if it left others out.
    pub(crate) part: Option<Selection>,
    /// The service's address.
    pub(crate) endpoint: &'a str,
    /// The input was standard input.
    pub(crate) from_stdin: bool,
    /// What became of each of several files; `None` for a run of one file.
    pub(crate) files: Option<&'a [FileSummary]>,
    /// The output, or its partial file after an early stop; of several files the directory; `None` for standard output.
    pub(crate) output: Option<PathBuf>,
    /// The rejects, if there are any.
    pub(crate) rejects: Option<PathBuf>,
    /// The rows whose decision changed, if the run was asked for them.
    pub(crate) changes: Option<PathBuf>,
    /// The ledger, if one stays.
    pub(crate) ledger: Option<KeptLedger>,
    /// Calls that the stand-in billed.
    pub(crate) sandbox_billed: Option<u64>,
    /// The output was removed during the run.
    pub(crate) output_is_gone: bool,
}
