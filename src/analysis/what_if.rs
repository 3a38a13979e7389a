//! What other thresholds would do: one pass over the scores gives, for every pair of thresholds, the exact numbers of rows
//! that would be approved, reviewed and blocked, and the same of the rows that turned out to be bad or good.
//!
//! Scores are only counted between neighbouring thresholds, so memory does not grow. Scores come from `commands`; the
//! numbers go to a table, JSON or a report. This file must not know how they are shown.

use std::mem;

use super::decisions::{DecisionCounts, Drift};
use crate::base::numbers::Decimal;
use crate::verdict::{Decision, Score, Thresholds};

/// The highest threshold that is tried; the service's scores end here.
const HIGHEST: u8 = 10;

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

/// Numbers of scores between thresholds: from 0 to 10 in steps of 0.5, those of today, and those that are tried.
#[derive(Debug, Clone)]
pub(crate) struct WhatIf {
    /// In ascending order, each value once.
    bounds: Vec<Bound>,
    /// Scores above all thresholds.
    above: OutcomeRows,
    today: Thresholds,
    /// The lowest and the highest score with each decision.
    ranges: [Option<(Decimal, Decimal)>; 3],
}

/// A threshold.
#[derive(Debug, Clone)]
struct Bound {
    threshold: Decimal,
    /// Scores above the threshold before it, and up to this one.
    scores: OutcomeRows,
}

/// Rows with a score by their decisions: all of them, and those that turned out to be bad or good.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct OutcomeRows {
    /// All of them.
    pub(crate) all: DecisionCounts,
    /// Those that turned out to be bad.
    pub(crate) bad: DecisionCounts,
    /// Those that turned out to be good.
    pub(crate) good: DecisionCounts,
}

/// One threshold: the share that is approved depends only on the first of a pair, the share that is blocked only on the
/// second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ThresholdStep<'a> {
    /// The threshold.
    pub(crate) threshold: &'a Decimal,
    /// Scores up to it: the rows that it would approve.
    pub(crate) up_to: OutcomeRows,
    /// Scores above it: the rows that it would block.
    pub(crate) above: OutcomeRows,
    /// It is today's threshold for approving.
    pub(crate) is_approve_max: bool,
    /// It is today's threshold for reviewing.
    pub(crate) is_review_max: bool,
}

/// A pair of thresholds, and the decisions that it would make.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ThresholdPair<'a> {
    /// Approve up to this score.
    pub(crate) approve_max: &'a Decimal,
    /// Review up to this score; never below the first.
    pub(crate) review_max: &'a Decimal,
    /// The decisions.
    pub(crate) all: DecisionCounts,
    /// Those about rows that turned out to be bad: blocked or reviewed ones are caught, approved ones missed.
    pub(crate) bad: DecisionCounts,
    /// Those about rows that turned out to be good: blocked or reviewed ones are false alarms.
    pub(crate) good: DecisionCounts,
    /// Both are today's.
    pub(crate) is_today: bool,
}

impl OutcomeRows {
    fn count(&mut self, decision: Option<Decision>, outcome: UserOutcome) {
        self.all.count(decision);
        match outcome {
            UserOutcome::Unknown => {}
            UserOutcome::Bad => self.bad.count(decision),
            UserOutcome::Good => self.good.count(decision),
        }
    }

    fn plus(mut self, other: &Self) -> Self {
        self.all.add(&other.all);
        self.bad.add(&other.bad);
        self.good.add(&other.good);
        self
    }

    const fn since(self, earlier: Self) -> Self {
        Self {
            all: self.all.since(earlier.all),
            bad: self.bad.since(earlier.bad),
            good: self.good.since(earlier.good),
        }
    }

    /// Takes the rows with one of these decisions out of it.
    fn take(&mut self, decisions: &[Decision]) -> Self {
        let mut taken = Self::default();
        for decision in decisions {
            for (from, to) in [
                (&mut self.all, &mut taken.all),
                (&mut self.bad, &mut taken.bad),
                (&mut self.good, &mut taken.good),
            ] {
                mem::swap(from.of_mut(*decision), to.of_mut(*decision));
            }
        }
        taken
    }
}

impl WhatIf {
    /// Nothing counted yet. Today's thresholds are among those that are tried, whatever they are.
    pub(crate) fn new(today: &Thresholds) -> Self {
        let whole = (0..=HIGHEST).map(Decimal::from);
        let halves = (0..HIGHEST).filter_map(|whole| Decimal::new(&format!("{whole}.5")));
        let own = [today.approve_max(), today.review_max()].map(Clone::clone);
        let mut all = Self {
            bounds: Vec::new(),
            above: OutcomeRows::default(),
            today: today.clone(),
            ranges: [None, None, None],
        };
        // Of equal ones, the plainly written one of our own stays.
        for threshold in whole.chain(halves).chain(own) {
            all.split(&threshold, &[]);
        }
        all
    }

    /// Adds a threshold. Of the scores that it parts, those with these decisions are up to it.
    fn split(&mut self, threshold: &Decimal, up_to: &[Decision]) {
        let at = self
            .bounds
            .partition_point(|bound| bound.threshold < *threshold);
        let there = self.bounds.get_mut(at);
        if there
            .as_ref()
            .is_some_and(|bound| bound.threshold == *threshold)
        {
            return;
        }
        let parted = there.map_or(&mut self.above, |bound| &mut bound.scores);
        let scores = parted.take(up_to);
        let threshold = threshold.clone();
        self.bounds.insert(at, Bound { threshold, scores });
    }

    /// Counts the score of a row that has this decision.
    pub(crate) fn count(
        &mut self,
        score: &Score,
        decision: Option<Decision>,
        outcome: UserOutcome,
    ) {
        let value = score.value();
        let at = self
            .bounds
            .partition_point(|bound| bound.threshold < *value);
        let gap = self.bounds.get_mut(at);
        let gap = gap.map_or(&mut self.above, |bound| &mut bound.scores);
        gap.count(decision, outcome);
        let Some(range) = decision.and_then(|it| self.ranges.get_mut(it as usize)) else {
            return;
        };
        let (lowest, highest) = range.get_or_insert_with(|| (value.clone(), value.clone()));
        if *value < *lowest {
            lowest.clone_from(value);
        } else if *value > *highest {
            highest.clone_from(value);
        }
    }

    /// The thresholds of today.
    pub(crate) const fn today(&self) -> &Thresholds {
        &self.today
    }

    /// Takes the thresholds with which the rows were decided for today's, if today's would decide otherwise. They can be read
    /// in the rows if a pair gives exactly their decisions; of several pairs it is the usual one, or one of round numbers. To be called after the
    /// last score. Returns whether others were read.
    pub(crate) fn read_thresholds(&mut self) -> bool {
        use Decision::{Approve, Block, Review};
        let usual = Thresholds::default();
        let first = [self.today.approve_max(), usual.approve_max()];
        let approve_max = self.between(&[Approve], &[Review, Block], first);
        let first = [self.today.review_max(), usual.review_max()];
        let review_max = self.between(&[Approve, Review], &[Block], first);
        let read = approve_max.zip(review_max);
        let read = read.and_then(|(approve, review)| Thresholds::new(approve, review));
        let is_decided = self.total().all.none == 0 && self.decided_otherwise() > 0;
        let Some(read) = read.filter(|_| is_decided) else {
            return false;
        };
        self.split(read.approve_max(), &[Approve]);
        self.split(read.review_max(), &[Approve, Review]);
        self.today = read;
        true
    }

    /// A threshold between the scores with these decisions: one of `first`, or a round one, if there is one.
    fn between(
        &self,
        up_to: &[Decision],
        above: &[Decision],
        first: [&Decimal; 2],
    ) -> Option<Decimal> {
        let ranges = |decisions: &[Decision]| {
            let ranges = decisions.iter();
            let ranges =
                ranges.filter_map(|decision| self.ranges.get(*decision as usize)?.as_ref());
            ranges.collect::<Vec<_>>()
        };
        let (up_to, above) = (ranges(up_to), ranges(above));
        let low = up_to.iter().map(|(_, highest)| highest).max();
        let high = above.iter().map(|(lowest, _)| lowest).min();
        let round = self.bounds.iter().map(|bound| &bound.threshold);
        let mut all = first.into_iter().chain(round).chain(low);
        let is_between =
            |it: &&Decimal| low.is_none_or(|low| low <= *it) && high.is_none_or(|high| *it < high);
        all.find(is_between).cloned()
    }

    /// The decisions of the rows, compared with those that these thresholds would make, which were tried.
    pub(crate) fn changes(&self, thresholds: &Thresholds) -> Drift {
        let mut drift = Drift::default();
        drift.count_all(&self.above.all, Decision::Block);
        for Bound { threshold, scores } in &self.bounds {
            let now = match threshold {
                it if it <= thresholds.approve_max() => Decision::Approve,
                it if it <= thresholds.review_max() => Decision::Review,
                _ => Decision::Block,
            };
            drift.count_all(&scores.all, now);
        }
        drift
    }

    /// Rows whose decision is not that of today's thresholds.
    pub(crate) fn decided_otherwise(&self) -> u64 {
        self.changes(&self.today).changed
    }

    /// All rows with a score.
    pub(crate) fn total(&self) -> OutcomeRows {
        let bounds = self.bounds.iter().map(|bound| &bound.scores);
        bounds.fold(self.above, OutcomeRows::plus)
    }

    /// Every threshold in ascending order.
    pub(crate) fn steps(&self) -> impl Iterator<Item = ThresholdStep<'_>> + Clone {
        let all = self.total();
        let running = |up_to: &mut OutcomeRows, bound: &Bound| {
            *up_to = up_to.plus(&bound.scores);
            Some(*up_to)
        };
        let up_to = self.bounds.iter().scan(OutcomeRows::default(), running);
        self.bounds.iter().zip(up_to).map(move |(bound, up_to)| {
            let threshold = &bound.threshold;
            ThresholdStep {
                threshold,
                up_to,
                above: all.since(up_to),
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
            let second = second.clone().skip(at);
            second.map(move |review| ThresholdPair::of(&approve, &review))
        })
    }

    /// This pair, which was tried.
    pub(crate) fn pair(&self, of: &Thresholds) -> Option<ThresholdPair<'_>> {
        let is_it = |pair: &ThresholdPair<'_>| {
            pair.approve_max == of.approve_max() && pair.review_max == of.review_max()
        };
        self.pairs().find(is_it)
    }

    /// The pair that catches at least this share of the bad rows, in percent, with the fewest reviews. It blocks no more than
    /// today's does: otherwise blocking everybody would need no review at all. `None` if no pair catches as many.
    pub(crate) fn catching(&self, percent: f64) -> Option<ThresholdPair<'_>> {
        let catches = |pair: &ThresholdPair<'_>| {
            let (caught, bad) = (pair.caught() as f64, pair.bad.rows() as f64);
            bad > 0.0 && caught * 100.0 >= bad * percent
        };
        // The higher the first threshold, the fewer reviews.
        let pairs = self
            .pairs()
            .filter(|pair| pair.review_max == self.today.review_max());
        pairs.filter(catches).last()
    }
}

impl<'a> ThresholdPair<'a> {
    fn of(approve: &ThresholdStep<'a>, review: &ThresholdStep<'a>) -> Self {
        let decided = |of: fn(&OutcomeRows) -> &DecisionCounts| {
            let [approve, up_to, block] =
                [approve.up_to, review.up_to, review.above].map(|rows| of(&rows).rows());
            DecisionCounts {
                approve,
                review: up_to - approve,
                block,
                none: 0,
            }
        };
        Self {
            approve_max: approve.threshold,
            review_max: review.threshold,
            all: decided(|rows| &rows.all),
            bad: decided(|rows| &rows.bad),
            good: decided(|rows| &rows.good),
            is_today: approve.is_approve_max && review.is_review_max,
        }
    }

    /// Bad rows that would be blocked or reviewed.
    pub(crate) const fn caught(&self) -> u64 {
        self.bad.block + self.bad.review
    }

    /// Good rows that would be blocked or reviewed.
    pub(crate) const fn false_alarms(&self) -> u64 {
        self.good.block + self.good.review
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
    fn decided<T: AsRef<str>>(pair: &ThresholdPair<'_>, scores: &[T]) -> DecisionCounts {
        let policy = thresholds(pair.approve_max.text(), pair.review_max.text());
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
        assert_eq!(what_if.total().all.rows(), scores.len() as u64);
        let pairs: Vec<_> = what_if.pairs().collect();
        // 21 steps and 2.25, in pairs whose first is not above the second.
        assert_eq!(pairs.len(), 22 * 23 / 2);
        for pair in &pairs {
            assert_eq!(pair.all, decided(pair, &scores), "{pair:?}");
        }
        let marked: Vec<_> = pairs.iter().filter(|pair| pair.is_today).collect();
        assert!(
            matches!(&*marked, [pair] if pair.approve_max.text() == "2.25" && pair.review_max.text() == "5")
        );
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
        assert_eq!(same.pairs().filter(|pair| pair.is_today).count(), 1);
    }

    #[test]
    fn no_scores_are_nothing_everywhere() {
        let what_if = WhatIf::new(&Thresholds::default());
        assert_eq!(what_if.total().all.rows(), 0);
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
            assert_eq!(pair.review_max.text(), "5");
            Some((pair.approve_max.text(), pair.caught(), pair.all.review))
        };
        // 1 of 4 is blocked today, whatever is reviewed.
        assert_eq!(caught(25.0), Some(("5", 1, 0)));
        assert_eq!(caught(25.1), Some(("3.5", 2, 1)));
        // A score on a threshold is below it.
        assert_eq!(caught(75.0), Some(("2", 3, 3)));
        assert_eq!(caught(100.0), Some(("0.5", 4, 5)));
        let today = what_if.pair(what_if.today()).unwrap();
        assert_eq!((today.caught(), today.false_alarms()), (3, 2));
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
        let read = |rows: &[&str]| {
            let mut what_if = of_rows(&Thresholds::default(), rows);
            let is_read = what_if.read_thresholds();
            assert_eq!(is_read, what_if.today != Thresholds::default());
            let today = what_if.today();
            let texts = (
                today.approve_max().text().to_owned(),
                today.review_max().text().to_owned(),
            );
            (texts, what_if)
        };
        let texts = |rows: &[&str]| read(rows).0;
        let of = |approve: &str, review: &str| (approve.to_owned(), review.to_owned());
        assert_eq!(texts(&["1 a", "3 r", "6 b"]), of("2", "5"));
        assert_eq!(texts(&["2.9 a", "3.3 r", "5.9 r", "6.2 b"]), of("3", "6"));
        // No round number is between them; and where there are no reviews, one threshold of today may fit.
        assert_eq!(texts(&["3.1 a", "3.2 r", "7 b"]), of("3.1", "5"));
        assert_eq!(texts(&["4 a", "9 b"]), of("4", "5"));
        // The usual ones come before other round ones.
        let mut tried = of_rows(&thresholds("3", "6"), &["1 a", "2.9 r", "4.4 r", "5.8 b"]);
        assert!(tried.read_thresholds() && tried.today == Thresholds::default());
        // Decided by something else, or not all of them.
        assert_eq!(texts(&["3 a", "2.5 r", "6 b"]), of("2", "5"));
        assert_eq!(texts(&["2.9 a", "3.3 r", "4"]), of("2", "5"));
        let (_, parted) = read(&["2.11 a bad", "2.12 r good", "2.13 b", "2.4 b good"]);
        assert_eq!(parted.decided_otherwise(), 0);
        let today = parted.pair(parted.today()).unwrap();
        assert_eq!(
            (today.all, today.bad, today.good),
            (
                [1, 1, 2, 0].into(),
                [1, 0, 0, 0].into(),
                [0, 1, 1, 0].into()
            )
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
