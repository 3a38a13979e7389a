//! Under which epoch of the shared pace a call started.

use std::collections::VecDeque;
use std::time::Duration;

/// The epochs of the last while, by when this worker heard of them.
#[derive(Debug, Default)]
pub(super) struct Epochs(VecDeque<(Duration, u64)>);

/// Epochs that are remembered. A refusal of an older one is put down to the oldest, which was given up as well.
const REMEMBERED: usize = 16;

impl Epochs {
    /// The present one.
    pub(super) fn current(&self) -> u64 {
        self.0.back().map_or(0, |(_, epoch)| *epoch)
    }

    /// From now on this is the epoch. Whether it is a new one.
    pub(super) fn set(&mut self, now: Duration, epoch: u64) -> bool {
        if self.0.back().is_some_and(|(_, last)| *last == epoch) {
            return false;
        }
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back((now, epoch));
        true
    }

    /// The epoch in which a call started.
    pub(super) fn at(&self, began: Duration) -> u64 {
        let mut known = self.0.iter().rev();
        known
            .find(|(since, _)| *since <= began)
            .or(self.0.front())
            .map_or(0, |(_, epoch)| *epoch)
    }
}
