//! The policy that makes a decision of an answer: by its score, or by a level in it.

use std::borrow::Cow;

use super::answer::{Answer, Score};
use super::decision::Decision;
use super::levels::{Levels, level_of};
use super::thresholds::Thresholds;

/// How decisions are made.
#[derive(Debug, Clone, PartialEq)]
pub enum DecisionPolicy {
    /// By the score.
    Score(Thresholds),
    /// By a level that the service gives.
    Level {
        /// What each level means.
        levels: Levels,
        /// Where the level is among the captured fields of an answer.
        field: usize,
    },
}

impl DecisionPolicy {
    /// The decision about an answer; `None` if its level is in no list.
    #[must_use]
    pub fn decide(&self, answer: &Answer) -> Option<Decision> {
        match self {
            Self::Score(thresholds) => Some(thresholds.decide(&answer.score)),
            Self::Level { levels, .. } => levels.decide(&self.level(answer)?),
        }
    }

    /// The thresholds, if scores decide.
    #[must_use]
    pub(crate) const fn thresholds(&self) -> Option<&Thresholds> {
        match self {
            Self::Score(thresholds) => Some(thresholds),
            Self::Level { .. } => None,
        }
    }

    /// Where the level that decides is among the captured fields of an answer; `None` if scores decide.
    #[must_use]
    pub(crate) const fn level_field(&self) -> Option<usize> {
        match self {
            Self::Score(_) => None,
            Self::Level { field, .. } => Some(*field),
        }
    }

    /// The decision that a score alone stands for; `None` if scores do not decide.
    #[must_use]
    pub(crate) fn decide_score(&self, score: &Score) -> Option<Decision> {
        match self {
            Self::Score(thresholds) => Some(thresholds.decide(score)),
            Self::Level { .. } => None,
        }
    }

    /// The level of an answer, if levels decide and it has one.
    #[must_use]
    pub(crate) fn level<'a>(&self, answer: &'a Answer) -> Option<Cow<'a, str>> {
        match self {
            Self::Score(_) => None,
            Self::Level { field, .. } => level_of(answer.captured.get(*field)?.as_deref()?),
        }
    }
}

impl Default for DecisionPolicy {
    fn default() -> Self {
        Self::Score(Thresholds::default())
    }
}
