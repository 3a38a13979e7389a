//! What other thresholds would do: one pass over the scores gives, for every pair of thresholds, the exact numbers of rows
//! that would be approved, reviewed and blocked, and the same of the rows that turned out to be bad or good.
//!
//! Scores are only counted between neighbouring thresholds, so memory does not grow. Scores come from `commands`; the
//! numbers go to a table, JSON or a report. This file must not know how they are shown.

use super::decisions::{DecisionCounts, Drift};
use crate::base::numbers::Decimal;
use crate::verdict::{Decision, Score, Thresholds};

/// Twice the highest threshold that is tried; the service's scores end at 10.
const HIGHEST_HALF: u8 = 20;

/// What a user who was let in turned out to be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum UserOutcome {
    /// Nobody knows yet, or the user was not let in.
    #[default]
    Unknown,
    /// A fraud.
    Bad,
    /// Not a fraud.
    Good,
}

/// Numbers of scores between thresholds: from 0 to 10 in steps of 0.5, and those of today.
#[derive(Debug, Clone)]
pub(crate) struct WhatIf {
    /// The thresholds in ascending order, each value once.
    thresholds: Vec<Decimal>,
    /// The rows up to each threshold and above the one before it, and then those above all thresholds.
    gaps: Vec<GapRows>,
    today: Thresholds,
}

/// Rows whose scores lie between two neighbouring thresholds, so that every pair decides alike about them.
#[derive(Debug, Clone, Copy, Default)]
struct GapRows {
    /// All of them, by the decisions that they have.
    all: DecisionCounts,
    /// Those that turned out to be bad.
    bad: u64,
    /// Those that turned out to be good.
    good: u64,
}

/// A pair of thresholds, and the decisions that it would make.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ThresholdPair {
    /// The thresholds.
    pub(crate) thresholds: Thresholds,
    /// Its decisions about all rows with a score.
    pub(crate) all: DecisionCounts,
    /// Those about rows that turned out to be bad: blocked or reviewed ones are caught, approved ones missed.
    pub(crate) bad: DecisionCounts,
    /// Those about rows that turned out to be good: blocked or reviewed ones are false alarms.
    pub(crate) good: DecisionCounts,
    /// The decisions that the rows have, compared with its own.
    pub(crate) changes: Drift,
}

impl WhatIf {
    /// Nothing counted yet. Today's thresholds are among those that are tried, whatever they are.
    pub(crate) fn new(today: &Thresholds) -> Self {
        let halves = (0..=HIGHEST_HALF).map(|half| (f64::from(half) / 2.0).to_string());
        let halves = halves.filter_map(|text| Decimal::new(&text));
        let own = [today.approve_max(), today.review_max()].map(Clone::clone);
        let mut thresholds: Vec<_> = halves.chain(own).collect();
        // Of equal ones, the plainly written one stays.
        thresholds.sort();
        thresholds.dedup();
        Self {
            gaps: vec![GapRows::default(); thresholds.len() + 1],
            thresholds,
            today: today.clone(),
        }
    }

    /// Counts the score of a row that has this decision.
    pub(crate) fn count(
        &mut self,
        score: &Score,
        decision: Option<Decision>,
        outcome: UserOutcome,
    ) {
        let is_below = |threshold: &Decimal| threshold < score.value();
        let at = self.thresholds.partition_point(is_below);
        if let Some(gap) = self.gaps.get_mut(at) {
            gap.all.count(decision);
            gap.bad += u64::from(outcome == UserOutcome::Bad);
            gap.good += u64::from(outcome == UserOutcome::Good);
        }
    }

    /// The thresholds of today.
    pub(crate) const fn today(&self) -> &Thresholds {
        &self.today
    }

    /// Takes the thresholds with which the rows were decided for today's, if today's would decide otherwise: a pair of those
    /// that are tried that gives exactly their decisions, the usual one before others, and then one that blocks as many as today's. To be called after the last score.
    /// Returns whether others were read.
    pub(crate) fn read_thresholds(&mut self) -> bool {
        let first = [self.pair(&self.today), self.pair(&Thresholds::default())];
        let fits = |pair: &ThresholdPair| {
            pair.changes.changed == 0 && pair.changes.compared == pair.all.rows()
        };
        let others = self.blocking_as_today().chain(self.pairs());
        let read = first.into_iter().chain(others).find(fits);
        let Some(read) = read.filter(|pair| pair.thresholds != self.today) else {
            return false;
        };
        self.today = read.thresholds;
        true
    }

    /// What these thresholds would do, which must be a pair that is tried.
    pub(crate) fn pair(&self, thresholds: &Thresholds) -> ThresholdPair {
        let mut pair = ThresholdPair {
            thresholds: thresholds.clone(),
            all: DecisionCounts::default(),
            bad: DecisionCounts::default(),
            good: DecisionCounts::default(),
            changes: Drift::default(),
        };
        let highest = self.thresholds.iter().map(Some).chain([None]);
        for (highest, gap) in highest.zip(&self.gaps) {
            let now = match highest {
                Some(highest) if highest <= thresholds.approve_max() => Decision::Approve,
                Some(highest) if highest <= thresholds.review_max() => Decision::Review,
                _ => Decision::Block,
            };
            *pair.all.of_mut(now) += gap.all.rows();
            *pair.bad.of_mut(now) += gap.bad;
            *pair.good.of_mut(now) += gap.good;
            pair.changes.count_all(&gap.all, now);
        }
        pair
    }

    /// The pair of today's thresholds.
    pub(crate) fn todays_pair(&self) -> ThresholdPair {
        self.pair(&self.today)
    }

    /// Rows whose decision is not that of today's thresholds.
    pub(crate) fn decided_otherwise(&self) -> u64 {
        self.todays_pair().changes.changed
    }

    /// Every pair of thresholds, in ascending order of the first and then of the second.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = ThresholdPair> {
        let with = |first: &Decimal, second: &Decimal| {
            let thresholds = Thresholds::new(first.clone(), second.clone())?;
            Some(self.pair(&thresholds))
        };
        let all = self.thresholds.iter();
        all.flat_map(move |first| {
            let second = self.thresholds.iter();
            second.filter_map(move |second| with(first, second))
        })
    }

    /// Every threshold as a pair with itself, which reviews nothing: what it alone would approve or block.
    pub(crate) fn single(&self) -> impl Iterator<Item = ThresholdPair> {
        let is_one =
            |pair: &ThresholdPair| pair.thresholds.approve_max() == pair.thresholds.review_max();
        self.pairs().filter(is_one)
    }

    /// Whether one of today's thresholds is the first of this pair.
    pub(crate) fn is_todays(&self, pair: &ThresholdPair) -> bool {
        let threshold = pair.thresholds.approve_max();
        [self.today.approve_max(), self.today.review_max()].contains(&threshold)
    }

    /// The pairs that block as many rows as today's: every first threshold, in ascending order, with the second of today.
    pub(crate) fn blocking_as_today(&self) -> impl Iterator<Item = ThresholdPair> {
        let blocks = |pair: &ThresholdPair| pair.thresholds.review_max() == self.today.review_max();
        self.pairs().filter(blocks)
    }

    /// The pair that catches at least this share of the bad rows, in percent, with the fewest reviews. It blocks no more than
    /// today's does: otherwise blocking everybody would need no review at all. `None` if no pair catches as many.
    pub(crate) fn catching(&self, percent: f64) -> Option<ThresholdPair> {
        let catches = |pair: &ThresholdPair| {
            let (caught, bad) = (pair.bad.stopped() as f64, pair.bad.rows() as f64);
            bad > 0.0 && caught * 100.0 >= bad * percent
        };
        // The higher the first threshold, the fewer reviews.
        self.blocking_as_today().filter(catches).last()
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
            let score = Score::from_json_number(score.as_ref()).unwrap();
            what_if.count(&score, None, UserOutcome::Unknown);
        }
        what_if
    }

    /// What deciding every score by a pair of thresholds brings.
    fn decided<T: AsRef<str>>(pair: &ThresholdPair, scores: &[T]) -> DecisionCounts {
        let mut outcomes = DecisionCounts::default();
        for score in scores {
            let score = Score::from_json_number(score.as_ref()).unwrap();
            outcomes.count(Some(pair.thresholds.decide(&score)));
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
        assert_eq!(what_if.todays_pair().all.rows(), scores.len() as u64);
        let pairs: Vec<_> = what_if.pairs().collect();
        // 21 steps and 2.25, in pairs whose first is not above the second.
        assert_eq!(pairs.len(), 22 * 23 / 2);
        for pair in &pairs {
            assert_eq!(pair.all, decided(pair, &scores), "{pair:?}");
        }
        let todays = pairs.iter().filter(|pair| pair.thresholds == today);
        assert_eq!(todays.count(), 1);
    }

    #[test]
    fn todays_thresholds_are_among_the_tried_ones_once_each() {
        let texts = |approve: &str, review: &str| -> Vec<String> {
            let what_if = WhatIf::new(&thresholds(approve, review));
            let single = what_if.single();
            single
                .map(|pair| pair.thresholds.approve_max().text().to_owned())
                .collect()
        };
        // The plain notation stays.
        assert_eq!(texts("2.00", "50e-1").len(), 21);
        assert!(texts("2.00", "5").contains(&"2".to_owned()));
        assert_eq!(texts("3.1", "3.10").len(), 22);
        let tried = texts("-3", "12.5");
        assert_eq!(
            (tried.len(), &tried[..3]),
            (23, &["-3", "0", "0.5"].map(String::from)[..])
        );
        assert_eq!(tried[21..], ["10", "12.5"]);
    }

    #[test]
    fn no_scores_are_nothing_everywhere() {
        let what_if = WhatIf::new(&Thresholds::default());
        assert_eq!(what_if.todays_pair().all.rows(), 0);
        assert!(
            what_if
                .pairs()
                .all(|pair| pair.all == DecisionCounts::default())
        );
    }

    /// Counts rows of a score, a decision and an outcome: `1.5 a bad`.
    fn of_rows(today: &Thresholds, rows: &[&str]) -> WhatIf {
        let mut what_if = WhatIf::new(today);
        for row in rows {
            let mut words = row.split(' ');
            let score = Score::from_json_number(words.next().unwrap()).unwrap();
            let decision = match words.next() {
                Some("a") => Some(Decision::Approve),
                Some("r") => Some(Decision::Review),
                Some("b") => Some(Decision::Block),
                _ => None,
            };
            let outcome = match words.next() {
                Some("bad") => UserOutcome::Bad,
                Some("good") => UserOutcome::Good,
                _ => UserOutcome::Unknown,
            };
            what_if.count(&score, decision, outcome);
        }
        what_if
    }

    #[test]
    fn the_pair_that_catches_enough_has_the_fewest_reviews_and_blocks_no_more() {
        let rows = [
            "1 a bad",
            "2 a good",
            "2.5 r bad",
            "3 r good",
            "4 r bad",
            "6 b bad",
            "7 b good",
            "8 b",
        ];
        let what_if = of_rows(&Thresholds::default(), &rows);
        let caught = |percent| {
            let pair = what_if.catching(percent)?;
            assert_eq!(pair.thresholds.review_max().text(), "5");
            let approve_max = pair.thresholds.approve_max().text().to_owned();
            Some((approve_max, pair.bad.stopped(), pair.all.review))
        };
        // 1 of 4 is blocked today, whatever is reviewed.
        assert_eq!(caught(25.0), Some(("5".to_owned(), 1, 0)));
        assert_eq!(caught(25.1), Some(("3.5".to_owned(), 2, 1)));
        // A score on a threshold is below it.
        assert_eq!(caught(75.0), Some(("2".to_owned(), 3, 3)));
        assert_eq!(caught(100.0), Some(("0.5".to_owned(), 4, 5)));
        let today = what_if.todays_pair();
        assert_eq!((today.bad.stopped(), today.good.stopped()), (3, 2));
        assert_eq!(today.bad, [1, 2, 1, 0].into());
        // A bad row that every threshold approves.
        let lowest = of_rows(&Thresholds::default(), &["0 a bad", "9 b bad"]);
        assert_eq!(lowest.catching(100.0), None);
        assert_eq!(
            of_rows(&Thresholds::default(), &["9 b good"]).catching(1.0),
            None
        );
    }

    #[test]
    fn thresholds_are_read_from_rows_that_a_pair_has_decided() {
        let read = |today: [&str; 2], rows: &[&str]| {
            let today = thresholds(today[0], today[1]);
            let mut what_if = of_rows(&today, rows);
            let is_read = what_if.read_thresholds();
            assert_eq!(is_read, *what_if.today() != today);
            let found = what_if.today();
            [found.approve_max(), found.review_max()].map(|it| it.text().to_owned())
        };
        let usual = ["2", "5"];
        assert_eq!(read(usual, &["1 a", "3 r", "6 b"]), usual);
        assert_eq!(
            read(usual, &["2.9 a", "3.3 r", "5.9 r", "6.2 b"]),
            ["3", "6"]
        );
        // The usual ones come before others.
        assert_eq!(read(["3", "6"], &["1 a", "2.9 r", "4.4 r", "5.8 b"]), usual);
        // Decided by something else, by no half step, or not all of them.
        assert_eq!(read(usual, &["3 a", "2.5 r", "6 b"]), usual);
        assert_eq!(read(usual, &["3.1 a", "3.2 r", "7 b"]), usual);
        assert_eq!(read(usual, &["2.9 a", "3.3 r", "4"]), usual);
        assert_eq!(
            of_rows(&Thresholds::default(), &["1 a", "3 a", "6 r"])
                .todays_pair()
                .changes
                .changed,
            2
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
                prop_assert_eq!(pair.all, decided(&pair, &scores), "{:?}", pair);
            }
        }
    }
}
