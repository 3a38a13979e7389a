//! What became of a row, and the policy that makes a decision of an answer.
//!
//! A row's outcome is data: every row that is not left for a later run ends in exactly one [`Verdict`]. This module
//! knows neither HTTP nor files; `service` makes answers, `output` writes verdicts.

mod answer;
mod failure;
mod outcome;
mod policy;

pub(crate) use answer::is_formula;
pub use answer::{Answer, Score, TransactionId};
pub(crate) use failure::most_frequent;
pub use failure::{Failure, Reason};
pub(crate) use outcome::Resolution;
pub use outcome::Verdict;
pub use policy::{Decision, DecisionPolicy};
pub(crate) use policy::{Levels, Thresholds};
