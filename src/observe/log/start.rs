//! What the log says of a run and of its input before the first call: names and settings, and no secret.

use std::time::Duration;

/// A run that starts.
#[derive(Debug)]
pub(crate) struct RunStarted {
    /// The job's name.
    pub(crate) job: String,
    /// The built-in stand-in answers.
    pub(crate) is_sandbox: bool,
    /// The service's address; `None` for the stand-in.
    pub(crate) endpoint: Option<String>,
    /// `paid` or `free`.
    pub(crate) plan: &'static str,
    /// The files, in the order of the log.
    pub(crate) files: RunFiles,
    /// Which rows are taken.
    pub(crate) limit: Option<u64>,
    /// The share of the rows that is taken.
    pub(crate) sample_percent: Option<f64>,
    /// As `--rate` names it.
    pub(crate) rate: String,
    /// The most calls in flight.
    pub(crate) concurrency: usize,
    /// Further attempts of a row.
    pub(crate) retries: u32,
    /// Those that may be billed twice.
    pub(crate) resend_unknown: u32,
    /// The header by which the service may recognise a repeated request.
    /// The time limit of a call.
    pub(crate) timeout: Duration,
    /// How long the service may throttle every call.
    pub(crate) max_wait: Duration,
    /// How long the service may be down.
    /// What a call costs.
    pub(crate) price: Option<String>,
    /// What decides.
    pub(crate) decided_by: DecidedBy,
}

/// The user's limits, as the options name them: what stops the run, and how many failures are accepted. `None` is none, or
/// the usual one. `tracing` has no room for them among the other settings: it takes 32 keys in a line.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct RunLimits {
    /// The most calls, also those that the most cost pays for.
    pub(crate) max_calls: Option<u64>,
    /// `--max-failures`.
    pub(crate) max_failures: Option<String>,
    /// `--keep-going`.
    pub(crate) keep_going: Option<bool>,
    /// `--min-rows`.
    pub(crate) min_rows: Option<u64>,
    /// `--max-invalid`.
    pub(crate) max_invalid: Option<String>,
    /// `--accept-failures`.
    pub(crate) accept_failures: Option<String>,
}

/// The names of the files that a run reads and writes.
#[derive(Debug, Default)]
pub(crate) struct RunFiles {
    /// The output; `None` is standard output, as with the others that are not there.
    pub(crate) output: Option<String>,
    /// Where `--rejects` has rows without a verdict copied to.
    pub(crate) rejects: Option<String>,
    /// Where rows go whose decision changed.
    pub(crate) changes: Option<String>,
    /// The page of HTML.
    pub(crate) report: Option<String>,
    /// The summary as JSON.
    pub(crate) summary: Option<String>,
    /// The metrics for Prometheus.
    pub(crate) metrics: Option<String>,
    /// The ledger.
    pub(crate) ledger: Option<String>,
}

/// What decides about a row.
#[derive(Debug)]
pub(crate) enum DecidedBy {
    /// The score, with these thresholds.
    Score {
        /// Up to this score a row is approved.
        approve_max: String,
        /// Up to this score a row is reviewed.
        review_max: String,
    },
    /// A level.
    Level,
}

/// An input that was opened.
#[derive(Debug)]
pub(crate) struct InputOpened {
    /// The path; `None` is standard input.
    pub(crate) input: Option<String>,
    /// `csv`, `tsv` or `jsonl`.
    pub(crate) format: &'static str,
    /// The size in bytes, where it is known.
    pub(crate) bytes: Option<u64>,
    /// Which column is which field.
    pub(crate) mapping: String,
}
