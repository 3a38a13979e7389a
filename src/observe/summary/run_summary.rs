//! A run that is over: what its summary is made of.

use std::time::{Duration, SystemTime};

use super::files::FileSummary;
use super::kept_ledger::LedgerLeft;
use super::named_file::{ReadFile, WrittenFile};
use crate::base::error::Error;
use crate::base::money::Tariff;
use crate::observe::run_identity::RunIdentity;
use crate::selection::Selection;
use crate::telemetry::accepted_failures::AcceptedFailures;
use crate::telemetry::stats::Stats;

/// A run that is over.
#[derive(Debug)]
pub(crate) struct RunSummary<'a> {
    /// Which run it was.
    pub(crate) identity: &'a RunIdentity,
    /// What was counted.
    pub(crate) stats: &'a Stats,
    /// When it ended.
    pub(crate) end: SystemTime,
    /// What ended it early, where its reason does not say it all.
    pub(crate) error: Option<&'a Error>,
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
    /// The service's address, if it is known.
    pub(crate) endpoint: Option<&'a str>,
    /// The input.
    pub(crate) input: ReadFile,
    /// What became of each of several files; `None` for a run of one file.
    pub(crate) files: Option<&'a [FileSummary]>,
    /// The output, or its partial file after an early stop; of several files the directory; `None` for standard output.
    pub(crate) output: Option<WrittenFile>,
    /// The rejects, if there are any.
    pub(crate) rejects: Option<WrittenFile>,
    /// The rows whose decision changed, if the run was asked for them.
    pub(crate) changes: Option<WrittenFile>,
    /// What is left of the ledger.
    pub(crate) ledger: LedgerLeft,
    /// Calls that the stand-in billed.
    pub(crate) sandbox_billed: Option<u64>,
    /// The output was removed or moved during the run.
    pub(crate) output_is_gone: bool,
}
