//! The views of a run for people and programs, while it lasts and when it is over.
//!
//! Everything here reads events or [`Counts`](crate::telemetry::counts::Counts); nothing here counts, and no stage knows of
//! it. Progress, metrics and the log have threads of their own, so that a slow terminal or disk never delays a call.

mod decide;
mod messages;
mod metrics;
mod numbers;
mod progress;
mod run_status;
mod sample;
mod snapshot;
mod summary;
mod summary_text;
mod what_if;

pub(crate) use decide::{DecideSummary, ScoredRows};
pub(crate) use messages::{
    EventLog, LogLine, end_log, log_line, speak_json, start_log, tell, tell_error, tell_usage,
    warn, warn_of,
};
pub(crate) use metrics::{Measured, MetricsFile, MetricsThread};
pub(crate) use numbers::{
    count, counted, day, from_utc, moment, most, named, one_line, pretty_json, stamp, utc_seconds,
    whole_seconds,
};
pub(crate) use progress::{ProgressThread, Style};
pub(crate) use run_status::{
    RunPhase, RunStatus, known_runs, report_exit, report_preparing, report_summary, start_reports,
};
pub(crate) use sample::{is_known, sample_lines, sample_size};
pub(crate) use snapshot::ProgressSettings;
pub(crate) use summary::{
    DecisionRule, Expected, FileState, FileSummary, LedgerLeft, ReportedRun, RunIdentity,
    RunSummary, SizedFile, ended_by, only_of_others, refuse_other_content,
};
pub(crate) use summary_text::{facts, headline};
pub(crate) use what_if::{WhatIfView, in_words, threshold_cells, threshold_lines};
