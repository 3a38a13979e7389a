//! The run's ledger, whichever it is: opened before any file is touched, ended with the run.
//!
//! [`plan`] says which one it is and opens it, [`prepared`] knows what earlier runs left in it, and [`running`] is what the
//! rows of this run use and what stays at the end.

mod plan;
mod prepared;
mod running;

pub(super) use plan::{CallShape, LedgerPlace, LedgerPlan};
pub(super) use prepared::{LedgerLastWords, PreparedLedger};
pub(super) use running::{LedgerEnd, RunLedger};
