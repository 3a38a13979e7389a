//! Scores counted in bins of equal width: a histogram whose range need not be known in advance.
//!
//! Bins are 0.1 wide at first; when a score lies too far out, they become ten times as wide. So memory is bounded for any
//! scores. This file must not know how they are drawn.

use std::collections::BTreeMap;

use super::decisions::DecisionCounts;
use crate::verdict::Decision;

/// Scores in bins, by their decisions.
#[derive(Debug, Clone)]
pub(crate) struct Bins {
    /// The width of a bin.
    width: f64,
    /// By their place: bin 1 is above 0 and up to `width`, and has 0 as well; bin 0 is the one before it.
    counts: BTreeMap<i64, DecisionCounts>,
}

/// The width at first: finer than any bar that is drawn for scores from 0 to 10.
const FINEST: f64 = 0.1;
/// The farthest bin on either side.
const FARTHEST: i64 = 1_000;
/// How many bins become one.
const MERGED: i64 = 10;
/// By what share of a bin a quotient such as 1.1 / 0.1 may be off before it belongs to the next bin.
const ROUNDING: f64 = 1e-9;

impl Default for Bins {
    fn default() -> Self {
        Self {
            width: FINEST,
            counts: BTreeMap::new(),
        }
    }
}

/// Neighbouring bars of equal width.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bars {
    /// The width of a bar.
    pub(crate) width: f64,
    /// Where the first bar starts, in bars from 0: negative on the left of it.
    first: i64,
    /// The scores in each bar.
    pub(crate) counts: Vec<DecisionCounts>,
}

impl Bins {
    /// Counts a finite score. One between two bins belongs to the lower one, like a score that is equal to a threshold.
    pub(crate) fn count(&mut self, score: f64, decision: Option<Decision>) {
        let mut at = self.bin(score);
        while at.unsigned_abs() > FARTHEST.unsigned_abs() {
            self.width *= 10.0;
            for (at, counts) in std::mem::take(&mut self.counts) {
                self.counts
                    .entry(merged(at, MERGED))
                    .or_default()
                    .add(&counts);
            }
            at = self.bin(score);
        }
        self.counts.entry(at).or_default().count(decision);
    }

    fn bin(&self, score: f64) -> i64 {
        #[allow(
            clippy::cast_possible_truncation,
            reason = "it saturates, which is far enough"
        )]
        let place = (score / self.width - ROUNDING).ceil() as i64;
        if score == 0.0 { 1 } else { place }
    }

    /// The scores in at most `most` bars, which span at least from `least` to `greatest`. Their width is 1, 2 or 5 times a
    /// power of ten.
    pub(crate) fn bars(&self, most: i64, least: f64, greatest: f64) -> Bars {
        // A threshold that lies out so far is not worth a picture of single bars.
        let bin = |score| self.bin(score).clamp(-FARTHEST, FARTHEST);
        let (least, greatest) = (bin(least), bin(greatest));
        let keys = || self.counts.keys().copied();
        let left = keys().next().map_or(least, |at| least.min(at));
        let right = keys().last().map_or(greatest, |at| greatest.max(at));
        let mut steps = (0..12).flat_map(|power| [1, 2, 5].map(|step| step * 10_i64.pow(power)));
        let span = |step: i64| merged(right, step) - merged(left, step) + 1;
        let step = steps.find(|step| span(*step) <= most).unwrap_or(1);
        let first = merged(left, step);
        let mut bars = vec![DecisionCounts::default(); usize::try_from(span(step)).unwrap_or(1)];
        for (at, counts) in &self.counts {
            let place = usize::try_from(merged(*at, step) - first).ok();
            if let Some(bar) = place.and_then(|place| bars.get_mut(place)) {
                bar.add(counts);
            }
        }
        let width = self.width * step as f64;
        Bars {
            width,
            first: first - 1,
            counts: bars,
        }
    }
}

impl Bars {
    /// Where a bar starts, or where the one before it ends.
    pub(crate) fn edge(&self, bar: usize) -> f64 {
        let bars = self.first + i64::try_from(bar).unwrap_or(i64::MAX);
        let bars = bars as f64;
        bars * self.width
    }
}

/// The bin that this one becomes a part of when this number of bins become one.
const fn merged(at: i64, bins: i64) -> i64 {
    (at + bins - 1).div_euclid(bins)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn counted(scores: &[f64]) -> Bins {
        let mut bins = Bins::default();
        for score in scores {
            bins.count(*score, None);
        }
        bins
    }

    fn rows(bars: &Bars) -> u64 {
        bars.counts.iter().map(DecisionCounts::rows).sum()
    }

    #[test]
    fn a_score_on_an_edge_is_on_the_lower_side() {
        // As doubles, 1.1 / 0.1 is above 11, and 0.3 / 0.1 below 3.
        let bars = counted(&[0.3, 1.1, 2.0, 2.01, -0.3, 0.0]).bars(50, -0.3, 3.0);
        assert_eq!((bars.width, bars.first, bars.counts.len()), (0.1, -4, 34));
        for from in [0.2, 1.0, 1.9, 2.0, -0.4, 0.0] {
            let mut there = bars.counts.iter().enumerate();
            let is_there = |(at, counts): (usize, &DecisionCounts)| {
                counts.rows() == 1 && (bars.edge(at) - from).abs() < 1e-9
            };
            assert!(there.any(is_there), "{from}");
        }
    }

    #[test]
    fn bars_have_round_widths_and_span_what_was_asked_for() {
        let bars = counted(&[0.2, 9.7]).bars(50, 0.0, 6.0);
        assert_eq!((bars.width, bars.first, bars.counts.len()), (0.2, 0, 49));
        let bars = counted(&[]).bars(50, 0.0, 6.0);
        assert_eq!((bars.width, bars.first, bars.counts.len()), (0.2, 0, 30));
        let bars = counted(&[0.0, 0.1]).bars(50, 0.0, 1.0);
        assert_eq!(bars.counts.first().map(DecisionCounts::rows), Some(2));
    }

    #[test]
    fn far_scores_make_bins_wider_and_none_is_lost() {
        let bins = counted(&[0.05, 1.0, -7.0, 99.0, 12_345.0, -1e300, 1e308]);
        assert!(bins.counts.len() <= 7);
        let bars = bins.bars(50, 0.0, 1.0);
        assert_eq!(rows(&bars), 7);
        assert!(bars.counts.len() <= 50);
        let far = counted(&[1.0]).bars(50, -1e300, 1e300);
        assert!(far.counts.len() <= 50);
    }

    proptest! {
        #[test]
        fn any_scores_are_all_in_few_bars(
            scores in prop::collection::vec(-1e6..1e6_f64, 0..60), most in 10..60_i64,
        ) {
            let bars = counted(&scores).bars(most, -1.0, 5.0);
            prop_assert!(i64::try_from(bars.counts.len()).is_ok_and(|length| length <= most));
            prop_assert_eq!(rows(&bars), scores.len() as u64);
            prop_assert!(bars.edge(0) <= -1.0 && bars.edge(bars.counts.len()) >= 5.0);
        }
    }
}
