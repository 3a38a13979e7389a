//! What was seen of the service since the last step: sums and maxima, so that those of several workers can be added.

use serde::{Deserialize, Serialize};

use super::types::{Call, CallOutcome, Try};

/// Counts of a stretch of time. Times are seconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct Tally {
    /// Calls that started.
    pub(super) started: u32,
    /// Calls that the service answered, whatever it said.
    pub(super) accepted: u32,
    /// Calls that were refused, except those that are about a row.
    pub(super) refused: u32,
    /// Those of them that started after the last cut, and not alone after a pause.
    pub(super) refused_new: u32,
    /// When the first of these started, …
    pub(super) refused_at: f64,
    /// … how many calls started after it, …
    pub(super) refused_after: u32,
    /// … and the how manieth in flight it was.
    pub(super) refused_level: u32,
    /// The longest wait that the service named; 0 if it named none.
    pub(super) wait: f64,
    /// The most calls in flight when an accepted one started.
    pub(super) accepted_level: u32,
    /// Calls that failed.
    pub(super) failed: u32,
    /// A call that went alone was accepted.
    pub(super) single_good: bool,
    /// A call that went alone was refused, …
    pub(super) single_bad: bool,
    /// … or failed.
    pub(super) single_failed: bool,
    /// The last cut was about a row that is always refused.
    pub(super) row_alone: bool,
    /// The median of the answers' times, and the time that one answer in five was faster than; 0 if there were too few.
    pub(super) median: f64,
    pub(super) fast: f64,
    /// What headers said last: the calls that are left, and for how many seconds.
    pub(super) left: Option<(f64, f64)>,
    /// A call had to wait for the rate.
    pub(super) rate_used: bool,
    /// A call had to wait for another one to end.
    pub(super) in_flight_used: bool,
}

/// A call that ended, as far as its outcome does not say it.
#[derive(Debug, Clone, Copy)]
pub(super) struct TalliedCall {
    pub(super) call: Call,
    /// When it started.
    pub(super) began: f64,
    /// It went alone, after a pause or in an outage.
    pub(super) is_single: bool,
    /// It started after the last cut: an earlier one says nothing about the pace since then.
    pub(super) is_new: bool,
    /// Calls that started after it.
    pub(super) later: u64,
}

impl Tally {
    /// Counts a call that ended. Returns whether a step should follow immediately.
    pub(super) fn note(&mut self, ended: TalliedCall, outcome: CallOutcome, tried: Try) -> bool {
        match outcome {
            CallOutcome::Abandoned => false,
            CallOutcome::Answered => {
                self.accepted += 1;
                if ended.is_new {
                    self.accepted_level = self.accepted_level.max(ended.call.level);
                }
                self.single_good |= ended.is_single;
                ended.is_single
            }
            CallOutcome::Throttled(_) | CallOutcome::BusyOrAway => {
                self.refused(ended, outcome, tried)
            }
            CallOutcome::Failed | CallOutcome::Unavailable | CallOutcome::TimedOut => {
                self.failed += 1;
                self.single_failed |= ended.is_single;
                ended.is_single
            }
        }
    }

    /// Adds what another worker has seen.
    pub(super) fn add(&mut self, other: &Self) {
        if self.refused == 0 || (self.refused_new == 0 && other.refused_new > 0) {
            self.refused_at = other.refused_at;
            self.refused_level = other.refused_level;
        }
        if self.fast == 0.0 && other.median > 0.0 {
            (self.median, self.fast) = (other.median, other.fast);
        } else if other.fast > 0.0 {
            let (own, new) = (f64::from(self.accepted), f64::from(other.accepted.max(1)));
            let mean = |times: f64, time: f64| (times * own + time * new) / (own + new);
            self.median = mean(self.median, other.median);
            self.fast = mean(self.fast, other.fast);
        }
        self.started += other.started;
        self.accepted += other.accepted;
        self.refused += other.refused;
        self.refused_new += other.refused_new;
        self.wait = self.wait.max(other.wait);
        self.accepted_level = self.accepted_level.max(other.accepted_level);
        self.failed += other.failed;
        self.single_good |= other.single_good;
        self.single_bad |= other.single_bad;
        self.single_failed |= other.single_failed;
        self.row_alone |= other.row_alone;
        self.left = other.left.or(self.left);
        self.rate_used |= other.rate_used;
        self.in_flight_used |= other.in_flight_used;
    }

    fn refused(&mut self, ended: TalliedCall, outcome: CallOutcome, tried: Try) -> bool {
        if tried.is_alone() {
            self.row_alone |= tried == Try::FoundAlone;
            return self.row_alone;
        }
        if let CallOutcome::Throttled(Some(wait)) = outcome {
            self.wait = self.wait.max(wait.as_secs_f64());
        }
        if self.refused == 0 || (self.refused_new == 0 && ended.is_new) {
            self.refused_at = ended.began;
            self.refused_after = ended.later.try_into().unwrap_or(u32::MAX);
            self.refused_level = ended.call.level;
        }
        self.refused += 1;
        self.refused_new += u32::from(ended.is_new && !ended.is_single);
        self.single_bad |= ended.is_single;
        true
    }
}
