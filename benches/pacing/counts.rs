//! Accepted and refused calls, second by second since the first call.

use std::ops::Range;
use std::time::Duration;

use crate::table::Refusals;

/// What a service saw.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counts {
    seconds: Vec<Second>,
    last_accepted: Duration,
}

#[derive(Debug, Clone, Copy, Default)]
struct Second {
    accepted: u32,
    refused: u32,
}

impl Counts {
    /// A call that came so long after the first one.
    pub(crate) fn add(&mut self, at: Duration, accepted: bool) {
        let second = usize::try_from(at.as_secs()).unwrap();
        if self.seconds.len() <= second {
            self.seconds.resize(second + 1, Second::default());
        }
        let counted = &mut self.seconds[second];
        if accepted {
            counted.accepted += 1;
            self.last_accepted = self.last_accepted.max(at);
        } else {
            counted.refused += 1;
        }
    }

    /// When the last call that was accepted came.
    pub(crate) const fn last_accepted(&self) -> Duration {
        self.last_accepted
    }

    pub(crate) fn accepted(&self) -> u32 {
        self.seconds.iter().map(|second| second.accepted).sum()
    }

    /// All refusals, of all calls.
    pub(crate) fn refusals(&self) -> Refusals {
        let refused = self.seconds.iter().map(|second| second.refused).sum();
        Refusals {
            refused,
            calls: self.accepted() + refused,
        }
    }

    /// Calls accepted a second in these seconds; a second without calls counts as well.
    pub(crate) fn rate(&self, seconds: Range<usize>) -> f64 {
        let length = f64::from(u32::try_from(seconds.len()).unwrap());
        f64::from(self.within(seconds, |second| second.accepted)) / length
    }

    /// Calls refused in these seconds.
    pub(crate) fn refused_in(&self, seconds: Range<usize>) -> u32 {
        self.within(seconds, |second| second.refused)
    }

    /// The lowest rate over so many seconds in a row within these, and where they start; `None` where there are fewer.
    pub(crate) fn worst(&self, length: usize, within: Range<usize>) -> Option<(usize, f64)> {
        let last = within.end.checked_sub(length)?;
        (within.start..=last)
            .map(|from| (from, self.rate(from..from + length)))
            .min_by(|(_, a), (_, b)| a.total_cmp(b))
    }

    /// The most that were accepted in a second.
    pub(crate) fn best_second(&self) -> u32 {
        let accepted = self.seconds.iter().map(|second| second.accepted);
        accepted.max().unwrap_or_default()
    }

    fn within(&self, seconds: Range<usize>, count: fn(&Second) -> u32) -> u32 {
        let counted = self.seconds.iter().skip(seconds.start).take(seconds.len());
        counted.map(count).sum()
    }
}
