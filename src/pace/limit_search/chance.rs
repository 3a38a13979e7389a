//! Whether chance alone explains that calls were refused above a limit and accepted below it.
//!
//! A service that refuses some calls at any pace brings gaps between refusals that are of about the same length, whatever is
//! tried. So a limit is beyond doubt only after a gap below it that is far longer than the usual ones.

/// The gaps between refusals, in what was used of the searched value: its product with the time, which for a rate is calls.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct RefusalGaps {
    /// How many gaps are over.
    over: u32,
    /// The length of all of them together.
    length: f64,
    /// The length of the one that lasts.
    current: f64,
}

/// A gap of this many times the mean is not chance, which brings one among 400: refusals have become rarer.
pub(in crate::pace) const BEYOND_CHANCE: f64 = 6.0;

impl RefusalGaps {
    /// This much was used without a refusal.
    pub(super) fn quiet(&mut self, used: f64) {
        self.current += used;
    }

    /// There was a refusal.
    pub(super) fn refused(&mut self) {
        self.over += 1;
        self.length += std::mem::take(&mut self.current);
    }

    /// Whether the gap that lasts is longer than chance explains.
    pub(super) fn is_beyond_chance(&self) -> bool {
        let over = f64::from(self.over);
        // Of few gaps the mean is uncertain: more by a standard deviation.
        let mean = self.length / (over - over.sqrt());
        self.over > 1 && self.current > mean.max(1.0) * BEYOND_CHANCE
    }
}
