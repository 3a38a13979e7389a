//! What other thresholds would do: one pass over the scores gives, for every pair of thresholds, the exact numbers of rows
//! that would be approved, reviewed and blocked.
//!
//! Scores are only counted between neighbouring thresholds, so memory does not grow. Scores come from `commands`; the
//! numbers go to a table, JSON or a report. This file must not know how they are shown.

use serde::Serialize;

use super::decisions::DecisionCounts;
use crate::base::numbers::Decimal;
use crate::verdict::{Score, Thresholds};

/// The highest threshold that is tried; the service's scores end here.
const HIGHEST: u8 = 10;

/// Numbers of scores between thresholds: from 0 to 10 in steps of 0.5, and those of today.
#[derive(Debug, Clone)]
pub(crate) struct WhatIf {
    /// In ascending order, each value once.
    bounds: Box<[Bound]>,
    /// Scores above all thresholds.
    above: u64,
    today: Thresholds,
}

/// A threshold.
#[derive(Debug, Clone)]
struct Bound {
    threshold: Decimal,
    /// Scores above the threshold before it, and up to this one.
    scores: u64,
}

/// One threshold: the share that is approved depends only on the first of a pair, the share that is blocked only on the
/// second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ThresholdStep<'a> {
    /// The threshold.
    pub(crate) threshold: &'a Decimal,
    /// Scores up to it: the rows that it would approve.
    pub(crate) up_to: u64,
    /// Scores above it: the rows that it would block.
    pub(crate) above: u64,
    /// It is today's threshold for approving.
    pub(crate) is_approve_max: bool,
    /// It is today's threshold for reviewing.
    pub(crate) is_review_max: bool,
}

/// A pair of thresholds as they are written, and the decisions that it would make.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(crate) struct ThresholdPair<'a> {
    /// Approve up to this score.
    pub(crate) approve_max: &'a str,
    /// Review up to this score; never below the first.
    pub(crate) review_max: &'a str,
    /// The decisions.
    #[serde(flatten)]
    pub(crate) outcomes: DecisionCounts,
    /// Both are today's.
    pub(crate) today: bool,
}

impl WhatIf {
    /// Nothing counted yet. Today's thresholds are among those that are tried, whatever they are.
    pub(crate) fn new(today: &Thresholds) -> Self {
        let whole = (0..=HIGHEST).map(Decimal::from);
        let halves = (0..HIGHEST).filter_map(|whole| Decimal::new(&format!("{whole}.5")));
        let own = [today.approve_max(), today.review_max()];
        let mut thresholds: Vec<_> = whole.chain(halves).chain(own.map(Clone::clone)).collect();
        // Stable: of equal ones, the plainly written one of our own stays.
        thresholds.sort();
        thresholds.dedup();
        let bound = |threshold| Bound {
            threshold,
            scores: 0,
        };
        Self {
            bounds: thresholds.into_iter().map(bound).collect(),
            above: 0,
            today: today.clone(),
        }
    }

    /// Counts the score of a row.
    pub(crate) fn count(&mut self, score: &Score) {
        let is_below = |bound: &Bound| bound.threshold < *score.value();
        let at = self.bounds.partition_point(is_below);
        match self.bounds.get_mut(at) {
            Some(bound) => bound.scores += 1,
            None => self.above += 1,
        }
    }

    /// The number of scores that were counted.
    pub(crate) fn scores(&self) -> u64 {
        self.bounds.iter().map(|bound| bound.scores).sum::<u64>() + self.above
    }

    /// Every threshold in ascending order.
    pub(crate) fn steps(&self) -> impl Iterator<Item = ThresholdStep<'_>> + Clone {
        let all = self.scores();
        let running = |up_to: &mut u64, bound: &Bound| {
            *up_to += bound.scores;
            Some(*up_to)
        };
        let up_to = self.bounds.iter().scan(0, running);
        self.bounds.iter().zip(up_to).map(move |(bound, up_to)| {
            let threshold = &bound.threshold;
            ThresholdStep {
                threshold,
                up_to,
                above: all - up_to,
                is_approve_max: threshold == self.today.approve_max(),
                is_review_max: threshold == self.today.review_max(),
            }
        })
    }

    /// Every pair of thresholds, in ascending order of the first and then of the second.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = ThresholdPair<'_>> {
        let steps = self.steps();
        let second = steps.clone();
        steps.enumerate().flat_map(move |(at, approve)| {
            second.clone().skip(at).map(move |review| ThresholdPair {
                approve_max: approve.threshold.text(),
                review_max: review.threshold.text(),
                outcomes: DecisionCounts {
                    approve: approve.up_to,
                    review: review.up_to - approve.up_to,
                    block: review.above,
                    none: 0,
                },
                today: approve.is_approve_max && review.is_review_max,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decimal(text: &str) -> Decimal {
        Decimal::new(text).unwrap()
    }

    fn thresholds(approve: &str, review: &str) -> Thresholds {
        Thresholds::new(decimal(approve), decimal(review)).unwrap()
    }

    fn counted<T: AsRef<str>>(today: &Thresholds, scores: &[T]) -> WhatIf {
        let mut what_if = WhatIf::new(today);
        for score in scores {
            what_if.count(&Score::from_json_number(score.as_ref()).unwrap());
        }
        what_if
    }

    /// What deciding every score by a pair of thresholds brings.
    fn decided<T: AsRef<str>>(pair: &ThresholdPair<'_>, scores: &[T]) -> DecisionCounts {
        let policy = thresholds(pair.approve_max, pair.review_max);
        let mut outcomes = DecisionCounts::default();
        for score in scores {
            let score = Score::from_json_number(score.as_ref()).unwrap();
            outcomes.count(Some(policy.decide(&score)));
        }
        outcomes
    }

    #[test]
    fn every_pair_has_the_numbers_that_deciding_by_it_would_bring() {
        // Equal to thresholds, next to them, outside of the scale, and in odd notations.
        let scores = [
            "0",
            "-0",
            "0.5",
            "2",
            "2.0",
            "2.00000000000001",
            "1.99999999999999",
            "2.25",
            "2.25000000000001",
            "5",
            "50e-1",
            "5.01",
            "9.9",
            "10",
            "10.0000000000001",
            "11",
            "1e300",
            "-1",
            "-0.0000000000000000001",
            "1e-400",
        ];
        let today = thresholds("2.25", "5");
        let what_if = counted(&today, &scores);
        assert_eq!(what_if.scores(), scores.len() as u64);
        let pairs: Vec<_> = what_if.pairs().collect();
        // 21 steps and 2.25, in pairs whose first is not above the second.
        assert_eq!(pairs.len(), 22 * 23 / 2);
        for pair in &pairs {
            assert_eq!(pair.outcomes, decided(pair, &scores), "{pair:?}");
        }
        let marked: Vec<_> = pairs.iter().filter(|pair| pair.today).collect();
        assert!(matches!(&*marked, [pair] if pair.approve_max == "2.25" && pair.review_max == "5"));
    }

    #[test]
    fn todays_thresholds_are_among_the_steps_once_each() {
        let texts = |what_if: &WhatIf| -> Vec<String> {
            what_if
                .steps()
                .map(|step| step.threshold.text().to_owned())
                .collect()
        };
        // The plain notation stays.
        assert_eq!(texts(&WhatIf::new(&thresholds("2.00", "50e-1"))).len(), 21);
        assert!(texts(&WhatIf::new(&thresholds("2.00", "5"))).contains(&"2".to_owned()));
        let what_if = WhatIf::new(&thresholds("-3", "12.5"));
        let shown = texts(&what_if);
        assert_eq!(
            (shown.len(), &*shown[0], &*shown[1], &*shown[2]),
            (23, "-3", "0", "0.5")
        );
        assert_eq!((&*shown[21], &*shown[22]), ("10", "12.5"));
        let marks = |step: ThresholdStep<'_>| (step.is_approve_max, step.is_review_max);
        let marks: Vec<_> = what_if.steps().map(marks).collect();
        assert_eq!(
            (marks[0], marks[1], marks[22]),
            ((true, false), (false, false), (false, true))
        );
        let same = WhatIf::new(&thresholds("3", "3.0"));
        assert_eq!(
            same.steps()
                .filter(|step| step.is_approve_max && step.is_review_max)
                .count(),
            1
        );
        assert_eq!(same.pairs().filter(|pair| pair.today).count(), 1);
    }

    #[test]
    fn no_scores_are_nothing_everywhere() {
        let what_if = WhatIf::new(&Thresholds::default());
        assert_eq!(what_if.scores(), 0);
        assert!(
            what_if
                .pairs()
                .all(|pair| pair.outcomes == DecisionCounts::default())
        );
    }

    proptest! {
        #[test]
        fn any_scores_are_counted_as_they_would_be_decided(
            scores in prop::collection::vec((-200..1_200_i32, 0..3_u8), 0..40),
            (approve, more) in (-100..1_200_i32, 0..300_i32),
        ) {
            let hundredths = |number: i32| format!("{number}e-2");
            // Some lie just beside a threshold.
            let scores: Vec<_> = scores.into_iter().map(|(number, beside)| match beside {
                0 => hundredths(number),
                1 => format!("{number}.0000000001e-2"),
                _ => format!("{number}.000e-2"),
            }).collect();
            let what_if = counted(&thresholds(&hundredths(approve), &hundredths(approve + more)), &scores);
            for pair in what_if.pairs() {
                prop_assert_eq!(pair.outcomes, decided(&pair, &scores), "{:?}", pair);
            }
        }
    }
}
