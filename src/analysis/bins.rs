//! Numbers counted in bins of equal width: a histogram whose range need not be known in advance.
//!
//! Bins are 0.1 wide at first; when a number lies too far out, they become ten times as wide. So memory is bounded for
//! any numbers. Numbers come from scores; this file must not know what they mean.

use std::collections::BTreeMap;

/// Numbers in bins, each counted as one of `KINDS` kinds.
#[derive(Debug, Clone)]
pub(crate) struct Bins<const KINDS: usize> {
    /// The width of a bin.
    width: f64,
    /// By their distance from 0: bin 1 is above 0 and up to `width`, bin -1 is its mirror image.
    counts: BTreeMap<i64, [u64; KINDS]>,
    /// Numbers that are 0.
    zeros: [u64; KINDS],
}

/// The width at first: finer than any bar that is drawn for scores from 0 to 10.
const FINEST: f64 = 0.1;
/// The farthest bin on either side.
const FARTHEST: i64 = 1_000;
/// How many bins become one.
const MERGED: i64 = 10;
/// By what share of a bin a quotient such as 1.1 / 0.1 may be off before it belongs to the next bin.
const ROUNDING: f64 = 1e-9;

impl<const KINDS: usize> Default for Bins<KINDS> {
    fn default() -> Self {
        Self {
            width: FINEST,
            counts: BTreeMap::new(),
            zeros: [0; KINDS],
        }
    }
}

/// Neighbouring bars of equal width.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bars<const KINDS: usize> {
    /// The width of a bar.
    pub(crate) width: f64,
    /// Where the first bar starts, in bars from 0: negative on the left of it.
    pub(crate) first: i64,
    /// The numbers in each bar.
    pub(crate) counts: Vec<[u64; KINDS]>,
}

impl<const KINDS: usize> Bins<KINDS> {
    /// Counts a finite number. One between two bins belongs to that nearer to 0, as a score that is equal to a threshold
    /// belongs to the lower side.
    pub(crate) fn count(&mut self, number: f64, kind: usize) {
        let mut at = self.bin(number);
        while at.abs() > FARTHEST {
            self.widen();
            at = self.bin(number);
        }
        let bin = match at {
            0 => &mut self.zeros,
            at => self.counts.entry(at).or_insert([0; KINDS]),
        };
        if let Some(counter) = bin.get_mut(kind) {
            *counter += 1;
        }
    }

    fn bin(&self, number: f64) -> i64 {
        #[allow(
            clippy::cast_possible_truncation,
            reason = "it saturates, which is far enough"
        )]
        let distance = (number.abs() / self.width - ROUNDING).ceil() as i64;
        if number < 0.0 { -distance } else { distance }
    }

    fn widen(&mut self) {
        self.width *= 10.0;
        for (at, counts) in std::mem::take(&mut self.counts) {
            let merged = self.counts.entry(merged(at, MERGED)).or_insert([0; KINDS]);
            add(merged, &counts);
        }
    }

    /// Numbers that are exactly 0, which no bar has.
    #[must_use]
    pub(crate) const fn zeros(&self) -> &[u64; KINDS] {
        &self.zeros
    }

    /// The numbers in at most `most` bars, which span at least from `least` to `greatest` and include 0. Their width is 1,
    /// 2 or 5 times a power of ten.
    #[must_use]
    pub(crate) fn bars(&self, most: i64, least: f64, greatest: f64) -> Bars<KINDS> {
        let ends = [self.counts.first_key_value(), self.counts.last_key_value()];
        let ends = ends.map(|bin| bin.map_or(0, |(at, _)| *at));
        let left = ends[0].min(self.bin(least)).min(0);
        let right = ends[1].max(self.bin(greatest)).max(1);
        let steps = (0..12).flat_map(|power| [1, 2, 5].map(|step| step * 10_i64.pow(power)));
        let span = |step: i64| merged(right, step) - merged(left, step);
        let step = steps.clone().find(|step| span(*step) <= most).unwrap_or(1);
        let first = merged(left, step);
        let length = usize::try_from(span(step)).unwrap_or(1);
        let mut bars = vec![[0; KINDS]; length];
        for (at, counts) in &self.counts {
            let bar = merged(*at, step);
            // On the right of 0, bar 1 is the first one.
            let place = if bar > 0 { bar - 1 } else { bar } - first;
            let bar = usize::try_from(place).ok().and_then(|at| bars.get_mut(at));
            if let Some(bar) = bar {
                add(bar, counts);
            }
        }
        #[allow(clippy::cast_precision_loss, reason = "a small number")]
        let width = self.width * step as f64;
        Bars {
            width,
            first,
            counts: bars,
        }
    }
}

impl<const KINDS: usize> Bars<KINDS> {
    /// Where a bar starts, or where the one before it ends.
    #[must_use]
    pub(crate) fn edge(&self, bar: usize) -> f64 {
        let bars = self.first + i64::try_from(bar).unwrap_or(i64::MAX);
        #[allow(clippy::cast_precision_loss, reason = "there are few bars")]
        let bars = bars as f64;
        bars * self.width
    }

    /// Adds to the bar on the right of 0.
    pub(crate) fn add_zeros(&mut self, zeros: &[u64; KINDS]) {
        let bar = usize::try_from(-self.first).ok();
        if let Some(bar) = bar.and_then(|at| self.counts.get_mut(at)) {
            add(bar, zeros);
        }
    }
}

/// The bin that this one becomes a part of when so many become one.
const fn merged(at: i64, bins: i64) -> i64 {
    // Away from 0.
    (at + (bins - 1) * at.signum()) / bins
}

fn add<const KINDS: usize>(to: &mut [u64; KINDS], counts: &[u64; KINDS]) {
    for (sum, count) in to.iter_mut().zip(counts) {
        *sum += count;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn counted(numbers: &[f64]) -> Bins<1> {
        let mut bins = Bins::default();
        for number in numbers {
            bins.count(*number, 0);
        }
        bins
    }

    #[test]
    fn a_number_on_an_edge_is_on_the_side_of_zero() {
        // As doubles, 1.1 / 0.1 is above 11, and 0.3 / 0.1 below 3.
        let bins = counted(&[0.3, 1.1, 2.0, 2.01, -0.3, 0.0]);
        let bars = bins.bars(50, 0.0, 3.0);
        assert_eq!((bars.width, bars.first, bars.counts.len()), (0.1, -3, 33));
        let at = |from: f64| {
            let mut bars = bars.counts.iter().enumerate();
            bars.any(|(at, count)| *count == [1] && (bars_edge(&bins, at) - from).abs() < 1e-9)
        };
        assert!(at(0.2) && at(1.0) && at(1.9) && at(2.0) && at(-0.3));
        assert_eq!(bins.zeros(), &[1]);
    }

    fn bars_edge(bins: &Bins<1>, at: usize) -> f64 {
        bins.bars(50, 0.0, 3.0).edge(at)
    }

    #[test]
    fn bars_have_round_widths_and_span_what_was_asked_for() {
        let bars = counted(&[0.2, 9.7]).bars(50, 0.0, 6.0);
        assert_eq!((bars.width, bars.first, bars.counts.len()), (0.2, 0, 49));
        let bars = counted(&[]).bars(50, 0.0, 6.0);
        assert_eq!((bars.width, bars.first, bars.counts.len()), (0.2, 0, 30));
        let bars = counted(&[-1.0, 2.5]).bars(40, -2.5, 2.5);
        assert_eq!((bars.first, bars.counts.len()), (-13, 26));
        let mut bars = counted(&[0.0, 0.1]).bars(50, 0.0, 1.0);
        bars.add_zeros(&[1]);
        assert_eq!(bars.counts.first(), Some(&[2]));
    }

    #[test]
    fn far_numbers_make_bins_wider_and_none_is_lost() {
        let bins = counted(&[0.05, 1.0, -7.0, 99.0, 12_345.0, -1e300, 1e308]);
        assert!(bins.counts.len() <= 7);
        let bars = bins.bars(50, 0.0, 1.0);
        let sum: u64 = bars.counts.iter().flatten().sum();
        assert_eq!(sum, 7);
        assert!(bars.counts.len() <= 50);
    }

    proptest! {
        #[test]
        fn any_numbers_are_all_in_few_bars(
            numbers in prop::collection::vec(-1e6..1e6_f64, 0..60), most in 10..60_i64,
        ) {
            let bins = counted(&numbers);
            let mut bars = bins.bars(most, -1.0, 5.0);
            bars.add_zeros(bins.zeros());
            prop_assert!(i64::try_from(bars.counts.len()).is_ok_and(|length| length <= most));
            prop_assert_eq!(bars.counts.iter().flatten().sum::<u64>(), numbers.len() as u64);
            prop_assert!(bars.edge(0) <= -1.0 && bars.edge(bars.counts.len()) >= 5.0);
        }
    }
}
