//! What became of a row, and the policy that turns a score into a decision.
//!
//! A row's outcome is data: every row that is not left for a later run ends in exactly one [`Verdict`]. This module
//! knows neither HTTP nor files; `service` makes answers, `output` writes verdicts.

mod answer;
mod decision;
mod failure;
mod outcome;

pub(crate) use answer::is_formula;
pub use answer::{Answer, Score, TransactionId};
pub use decision::{Decision, DecisionPolicy, Thresholds};
pub use failure::{Failure, Reason};
pub(crate) use outcome::Resolution;
pub use outcome::Verdict;
