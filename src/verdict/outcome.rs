//! The final outcome of one row.

use serde::Serialize;

use super::answer::Answer;
use super::failure::{Failure, Reason};
use super::policy::Decision;

/// The final outcome of one row.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// The service gave a usable answer; there is no decision if its level is in no list.
    Scored(Answer, Option<Decision>),
    /// The row has no answer: its three cells stay empty, and it goes to the rejects with its
    /// reason.
    Failed(Failure),
}

impl Verdict {
    /// How many bytes it holds on the heap.
    #[must_use]
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Scored(answer, _) => {
                let captured = answer.captured.iter().flatten();
                captured.map(|value| value.len()).sum::<usize>()
                    + answer.transaction_id.as_str().len()
            }
            Self::Failed(failure) => failure.message.len(),
        }
    }

    /// The verdict without its values, for events and counters.
    #[must_use]
    pub(crate) fn outline(&self) -> Resolution {
        match self {
            Self::Scored(_, decision) => Resolution::Scored(*decision),
            Self::Failed(failure) => Resolution::Failed(failure.reason),
        }
    }
}

/// A [`Verdict`] without its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Resolution {
    /// Scored, with this decision, or none if the level is in no list.
    Scored(Option<Decision>),
    /// Failed, for this reason.
    Failed(Reason),
}
