//! What a ledger knows about a request, as the run that asks sees it.

use crate::telemetry::event::{Origin, Unusable};
use crate::verdict::{Answer, Failure, Score};

/// What a ledger knows about a request.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LookupResult {
    /// What became of it, where that can be used.
    pub known: Option<KnownOutcome>,
    /// The user's score before the run started, where this run replaces that answer or has done so: the same however often
    /// the run was stopped since, and for all rows that ask the same.
    pub(crate) old: Option<Score>,
    /// Why an existing answer is not used, if no setting asks for that.
    pub(crate) unusable: Option<Unusable>,
}

impl LookupResult {
    /// There is an answer that cannot be used.
    pub(super) fn unusable(why: Unusable) -> Self {
        Self {
            unusable: Some(why),
            ..Self::default()
        }
    }
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum KnownOutcome {
    /// It was answered.
    Answer(Answer),
    /// It must not be sent again in this run.
    Failure(Failure),
}

/// The run that an answer arrived in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnsweredIn {
    /// This one.
    ThisRun,
    /// Another one that writes to the same ledger.
    OtherRun,
}

impl AnsweredIn {
    /// Where a row's verdict comes from, if it is from there.
    pub(crate) const fn origin(self) -> Origin {
        match self {
            Self::ThisRun => Origin::Duplicate,
            Self::OtherRun => Origin::Ledger,
        }
    }
}
