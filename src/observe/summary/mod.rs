//! What is shown when a run is over: a few lines for people, a JSON object for programs.
//!
//! Both are made only of the statistics and of what the run was asked to do.

mod call_lines;
mod drift_table;
mod earlier;
#[cfg(test)]
pub(super) mod example;
mod failed_start;
mod files;
mod json;
mod kept_ledger;
mod ledger_line;
mod named_file;
mod run_summary;
mod text;

pub(super) use drift_table::drift_table;
pub(crate) use earlier::refuse_other_content;
pub(crate) use failed_start::FailedStart;
pub(crate) use files::{FileState, FileSummary};
pub(crate) use kept_ledger::{KeptLedger, LedgerLeft};
pub(crate) use named_file::{ReadFile, WrittenFile};
pub(crate) use run_summary::RunSummary;
