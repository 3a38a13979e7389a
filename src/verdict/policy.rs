//! The verdict on a row, and the policy that makes a decision of an answer: by its score and two thresholds, or by a level
//! in it.
//!
//! The service's interface names a risk level but gives neither its place nor its values, so both come from the user. A
//! level in no list has no decision: nothing is ever guessed.

use std::borrow::Cow;

use serde::Serialize;

use super::answer::{Answer, Failure, Reason, Score};
use crate::base::numbers::Decimal;
use crate::raw_json;

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
    pub fn decide(&self, answer: &Answer) -> Option<Decision> {
        match self {
            Self::Score(thresholds) => Some(thresholds.decide(&answer.score)),
            Self::Level { levels, .. } => levels.decide(&self.level(answer)?),
        }
    }

    /// The thresholds, if scores decide.
    pub(crate) const fn thresholds(&self) -> Option<&Thresholds> {
        match self {
            Self::Score(thresholds) => Some(thresholds),
            Self::Level { .. } => None,
        }
    }

    /// Where the level that decides is among the captured fields of an answer; `None` if scores decide.
    pub(crate) const fn level_field(&self) -> Option<usize> {
        match self {
            Self::Score(_) => None,
            Self::Level { field, .. } => Some(*field),
        }
    }

    /// The level of an answer, if levels decide and it has one: a string's content, or any other value as it was written.
    pub(crate) fn level<'a>(&self, answer: &'a Answer) -> Option<Cow<'a, str>> {
        let json = answer.captured.get(self.level_field()?)?.as_deref()?;
        Some(raw_json::text(json)).filter(|level| !level.trim().is_empty())
    }
}

impl Default for DecisionPolicy {
    fn default() -> Self {
        Self::Score(Thresholds::default())
    }
}

/// What the client does with a user who has that score.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    /// Low risk.
    Approve,
    /// A person should look.
    Review,
    /// High risk.
    Block,
}

impl Decision {
    /// All decisions, in the order in which they are shown.
    pub(crate) const ALL: [Self; 3] = [Self::Approve, Self::Review, Self::Block];

    /// The decision with this word.
    pub(crate) fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.word() == word)
    }

    /// The word that is written to files.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Review => "review",
            Self::Block => "block",
        }
    }
}

/// The two thresholds: approve up to the first, review up to the second, block above it.
#[derive(Debug, Clone, PartialEq)]
pub struct Thresholds {
    approve_max: Decimal,
    review_max: Decimal,
}

impl Thresholds {
    /// These thresholds; `None` if the first is above the second.
    pub(crate) fn new(approve_max: Decimal, review_max: Decimal) -> Option<Self> {
        (approve_max <= review_max).then_some(Self {
            approve_max,
            review_max,
        })
    }

    /// The highest score to approve.
    pub(crate) const fn approve_max(&self) -> &Decimal {
        &self.approve_max
    }

    /// The highest score to review.
    pub(crate) const fn review_max(&self) -> &Decimal {
        &self.review_max
    }

    /// The decision for a score.
    pub fn decide(&self, score: &Score) -> Decision {
        if *score.value() <= self.approve_max {
            Decision::Approve
        } else if *score.value() <= self.review_max {
            Decision::Review
        } else {
            Decision::Block
        }
    }
}

impl Default for Thresholds {
    /// The convention of the service's interface (section 2.2).
    fn default() -> Self {
        Self {
            approve_max: Decimal::from(2),
            review_max: Decimal::from(5),
        }
    }
}

/// Lists of levels, each with its decision.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Levels(Vec<(Box<str>, Decision)>);

impl Levels {
    /// Adds a level.
    ///
    /// # Errors
    /// The decision whose list has it already.
    pub(crate) fn add(&mut self, level: &str, decision: Decision) -> Result<(), Decision> {
        if let Some(there) = self.decide(level) {
            return Err(there);
        }
        self.0.push((level.trim().into(), decision));
        Ok(())
    }

    /// Whether no level was added.
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The levels that mean this decision, in the order in which they were given.
    pub(crate) fn listed(&self, decision: Decision) -> impl Iterator<Item = &str> {
        let mine = self.0.iter().filter(move |(_, means)| *means == decision);
        mine.map(|(level, _)| &**level)
    }

    /// The decision for a level, compared without white space around it and without regard to case; `None` if it is in no
    /// list.
    pub(crate) fn decide(&self, level: &str) -> Option<Decision> {
        let level = level.trim();
        let found = self.0.iter().find(|(listed, _)| is_same(listed, level));
        found.map(|(_, decision)| *decision)
    }
}

fn is_same(a: &str, b: &str) -> bool {
    let lower = |c: char| c.to_lowercase();
    a.chars().flat_map(lower).eq(b.chars().flat_map(lower))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_score_equal_to_a_threshold_belongs_to_the_lower_side() {
        let policy = Thresholds::default();
        let decide = |text| policy.decide(&Score::from_json_number(text).unwrap());
        assert_eq!(decide("2.0"), Decision::Approve);
        assert_eq!(decide("2.00000000000001"), Decision::Review);
        assert_eq!(decide("1.99999999999999"), Decision::Approve);
        assert_eq!(decide("5"), Decision::Review);
        assert_eq!(decide("50.0e-1"), Decision::Review);
        assert_eq!(decide("5.00000000000001"), Decision::Block);
    }

    #[test]
    fn thresholds_out_of_order_cannot_be_built() {
        let new = |approve, review| {
            Thresholds::new(
                Decimal::new(approve).unwrap(),
                Decimal::new(review).unwrap(),
            )
        };
        assert_eq!(new("5", "2"), None);
        assert_eq!(new("2.0000001", "2"), None);
        assert!(new("2.0", "2").is_some());
    }

    #[test]
    fn a_level_is_compared_by_its_text_and_is_in_one_list_only() {
        let mut levels = Levels::default();
        assert!(levels.is_empty());
        levels.add(" Low ", Decision::Approve).unwrap();
        levels.add("0", Decision::Approve).unwrap();
        levels.add("élevé", Decision::Block).unwrap();
        assert_eq!(levels.add("LOW", Decision::Block), Err(Decision::Approve));
        for (level, decision) in [
            ("low", Some(Decision::Approve)),
            ("\tLOW ", Some(Decision::Approve)),
            ("0", Some(Decision::Approve)),
            ("ÉLEVÉ", Some(Decision::Block)),
            ("0.0", None),
            ("00", None),
            ("lo", None),
            ("lower", None),
            ("", None),
        ] {
            assert_eq!(levels.decide(level), decision, "{level}");
        }
    }

    #[test]
    fn a_json_value_is_its_text() {
        for (json, level) in [
            ("1", Some("1")),
            ("1.0", Some("1.0")),
            (r#""high""#, Some("high")),
            (r#""h\u0069gh ""#, Some("high ")),
            (r#""1""#, Some("1")),
            ("true", Some("true")),
            (r#"{"a":1}"#, Some(r#"{"a":1}"#)),
            ("null", None),
            (r#""null""#, Some("null")),
            (r#""""#, None),
            (r#"" \t""#, None),
        ] {
            let policy = DecisionPolicy::Level {
                levels: Levels::default(),
                field: 0,
            };
            let answer = Answer {
                transaction_id: super::super::TransactionId::default(),
                score: Score::from_json_number("1").unwrap(),
                captured: [Some(json.into())].into(),
            };
            assert_eq!(policy.level(&answer).as_deref(), level, "{json}");
        }
    }
}
