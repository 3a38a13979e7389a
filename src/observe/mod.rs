//! What people and programs see of a run, while it lasts and when it is over.
//!
//! Everything here reads events or [`Stats`](crate::telemetry::stats::Stats); nothing here counts, and no stage knows of
//! it. Progress is drawn by a thread of its own, so a slow terminal never delays a call.

mod bar;
mod cost;
mod decided;
mod decisions_json;
#[cfg(test)]
mod documented;
mod json;
mod json_lines;
mod log;
mod messages;
mod metrics;
mod notice;
mod numbers;
mod plain;
mod progress;
mod run_counts;
mod run_identity;
mod screen;
mod settings;
mod snapshot;
mod style;
mod summary;
mod undecided;
mod view;
mod wait_reason;
mod what_if;
mod words;

pub(crate) use decided::DecideSummary;
pub(crate) use log::{
    DecidedBy, InputOpened, LogLevel, LogLine, LogQueue, LogSink, LogTarget, RunEnded, RunFiles,
    RunLimits, RunLog, RunStarted, log_at_once,
};
pub(crate) use messages::{speak_json, tell, tell_error, tell_usage, usage_error, warn, warn_of};
pub(crate) use metrics::{MetricsFile, MetricsLabels, MetricsThread};
pub(crate) use notice::notices;
pub(crate) use numbers::{count, counted, day, moment, per_time, stamp};
pub(crate) use progress::ProgressThread;
pub(crate) use run_identity::{DecisionRule, RunIdentity};
pub(crate) use settings::{LedgerWait, ProgressSettings};
pub(crate) use style::Style;
pub(crate) use summary::{
    FailedStart, FileState, FileSummary, KeptLedger, LedgerLeft, ReadFile, RunSummary, WrittenFile,
    refuse_other_content,
};
pub(crate) use what_if::WhatIfView;
pub(crate) use words::{most, only_of_others};
