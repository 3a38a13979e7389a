//! How many calls were made when: a picture of bounded size of a run of any length.
//!
//! Slots last a second at first; whenever there are too many, pairs of slots are merged.

use std::time::Duration;

/// Calls over time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Timeline {
    /// The length of a slot.
    slot: Duration,
    calls: Vec<u64>,
}

/// As many as a small chart can show. A run of two days has slots of about half an hour.
const MAX_SLOTS: usize = 128;

impl Default for Timeline {
    fn default() -> Self {
        Self {
            slot: Duration::from_secs(1),
            calls: Vec::new(),
        }
    }
}

impl Timeline {
    /// Counts a call that was made at `at`.
    pub(crate) fn record(&mut self, at: Duration) {
        let mut slot = self.slot_of(at);
        while slot >= MAX_SLOTS {
            self.slot *= 2;
            self.calls = self.calls.chunks(2).map(|two| two.iter().sum()).collect();
            slot = self.slot_of(at);
        }
        if self.calls.len() <= slot {
            self.calls.resize(slot + 1, 0);
        }
        if let Some(calls) = self.calls.get_mut(slot) {
            *calls += 1;
        }
    }

    /// The length of a slot.
    #[must_use]
    pub(crate) const fn slot(&self) -> Duration {
        self.slot
    }

    /// Calls in each slot, from the start of the run to the last call.
    #[must_use]
    pub(crate) fn calls(&self) -> &[u64] {
        &self.calls
    }

    fn slot_of(&self, at: Duration) -> usize {
        usize::try_from(at.as_secs() / self.slot.as_secs().max(1)).unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_run_fits_and_no_call_is_lost() {
        let mut timeline = Timeline::default();
        for second in 0..100_000 {
            timeline.record(Duration::from_secs(second));
        }
        assert!(timeline.calls().len() <= MAX_SLOTS);
        assert_eq!(timeline.calls().iter().sum::<u64>(), 100_000);
        assert_eq!(timeline.slot(), Duration::from_secs(1024));
        assert!(
            timeline
                .calls()
                .iter()
                .rev()
                .skip(1)
                .all(|calls| *calls == 1024)
        );
    }

    #[test]
    fn a_pause_shows_as_empty_slots() {
        let mut timeline = Timeline::default();
        timeline.record(Duration::from_millis(500));
        timeline.record(Duration::from_secs(3));
        assert_eq!(timeline.calls(), [1, 0, 0, 1]);
    }
}
