//! What became of a row, and the policy that makes a decision of an answer.
//!
//! A row's outcome is data: every row that is not left for a later run ends in exactly one [`Verdict`]. This module
//! knows neither HTTP nor files; `service` makes answers, `output` writes verdicts.

mod answer;
mod decision;
mod failure;
mod frequent;
mod levels;
mod outcome;
mod policy;
mod thresholds;

pub(crate) use answer::is_formula;
pub use answer::{Answer, Score, TransactionId};
pub use decision::Decision;
pub use failure::{Failure, Reason};
pub(crate) use frequent::most_frequent;
pub(crate) use levels::Levels;
pub(crate) use outcome::Resolution;
pub use outcome::Verdict;
pub use policy::DecisionPolicy;
pub(crate) use thresholds::Thresholds;
