//! What became of a row, and the policy that makes a decision of an answer.
//!
//! A row's outcome is data: every row that is not left for a later run ends in exactly one [`Verdict`]. This module
//! knows neither HTTP nor files; `service` makes answers, `output` writes verdicts.

mod answer;
mod policy;

pub use answer::{Answer, Failure, Reason, Score, TransactionId};
pub(crate) use answer::{harmless_cell, id_cell, is_formula, most_frequent};
pub use policy::{Decision, DecisionPolicy, Verdict};
pub(crate) use policy::{Levels, Resolution, Thresholds};
