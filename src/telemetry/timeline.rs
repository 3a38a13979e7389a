//! How many calls were made when: a bounded picture of a run of any length.
//!
//! Slots of a second at first; when there are too many, two become one. It knows nothing of why.

use std::time::Duration;

/// Calls over time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Timeline {
    /// How long a slot is.
    slot: Duration,
    calls: Vec<u64>,
}

/// As many as a small chart can show; a run of two days has slots of half an hour at most.
const MOST: usize = 128;

impl Default for Timeline {
    fn default() -> Self {
        Self {
            slot: Duration::from_secs(1),
            calls: Vec::new(),
        }
    }
}

impl Timeline {
    /// A call began at `at`.
    pub(crate) fn note(&mut self, at: Duration) {
        let mut place = self.place(at);
        while place >= MOST {
            self.slot *= 2;
            self.calls = self.calls.chunks(2).map(|two| two.iter().sum()).collect();
            place = self.place(at);
        }
        if self.calls.len() <= place {
            self.calls.resize(place + 1, 0);
        }
        if let Some(calls) = self.calls.get_mut(place) {
            *calls += 1;
        }
    }

    /// The length of a slot.
    #[must_use]
    pub(crate) const fn slot(&self) -> Duration {
        self.slot
    }

    /// Calls in each slot, from the run's begin to the last call.
    #[must_use]
    pub(crate) fn calls(&self) -> &[u64] {
        &self.calls
    }

    fn place(&self, at: Duration) -> usize {
        usize::try_from(at.as_secs() / self.slot.as_secs().max(1)).unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_run_fits_and_nothing_is_lost() {
        let mut timeline = Timeline::default();
        for second in 0..100_000 {
            timeline.note(Duration::from_secs(second));
        }
        assert!(timeline.calls().len() <= MOST);
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
    fn a_pause_is_seen() {
        let mut timeline = Timeline::default();
        timeline.note(Duration::from_millis(500));
        timeline.note(Duration::from_secs(3));
        assert_eq!(timeline.calls(), [1, 0, 0, 1]);
    }
}
