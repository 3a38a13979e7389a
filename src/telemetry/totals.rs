//! What follows from the counts: sums, times, how the run ended, and whether every row is accounted for.
//!
//! Nothing is counted here.

use std::time::Duration;

use super::event::InputEnd;
use super::latency::LatencyCounts;
use super::pace::Pause;
use super::stats::Stats;
use crate::base::error::Exit;

impl Stats {
    /// Rows with a verdict.
    #[must_use]
    pub(crate) const fn scored(&self) -> u64 {
        self.approved + self.reviewed + self.blocked + self.undecided
    }

    /// Rows without a verdict.
    #[must_use]
    pub(crate) fn failures(&self) -> u64 {
        self.failed.values().sum()
    }

    /// Calls that the service answered with success, and so billed.
    #[must_use]
    pub(crate) const fn billed(&self) -> u64 {
        self.answered + self.billed_without_verdict
    }

    /// Further calls that the service may have billed, or may still bill, with those of an earlier run that was killed and
    /// counted none.
    #[must_use]
    pub(crate) const fn maybe_billed(&self) -> u64 {
        self.unknown_outcome + self.unclear + self.in_flight + self.asked_by_killed_run()
    }

    /// Rows that are done, with a verdict or without.
    #[must_use]
    pub(crate) fn resolved(&self) -> u64 {
        self.scored() + self.failures()
    }

    /// Time spent in pauses up to `now`.
    #[must_use]
    pub(crate) fn time_paused(&self, now: Duration) -> Duration {
        let current = self.pause.map_or(Duration::ZERO, |(started, pause)| {
            now.saturating_sub(started).min(pause.length)
        });
        self.paused + current
    }

    /// How long the service was down, up to `now`.
    #[must_use]
    pub(crate) fn time_down(&self, now: Duration) -> Duration {
        let current = self
            .outage
            .map_or(Duration::ZERO, |outage| now.saturating_sub(outage.since));
        self.down + current
    }

    /// How much of the current pause is left at `now`, and the pause itself.
    #[must_use]
    pub(crate) fn pause_left(&self, now: Duration) -> Option<(Duration, Pause)> {
        let (started, pause) = self.pause?;
        let left = (started + pause.length).saturating_sub(now);
        (!left.is_zero()).then_some((left, pause))
    }

    /// The latency that this share of the answered calls did not exceed; `None` before the first answer.
    #[must_use]
    pub(crate) fn latency(&self, quantile: f64) -> Option<Duration> {
        self.latencies.quantile(quantile)
    }

    /// How many answered calls took up to each of these times, which must rise.
    #[must_use]
    pub(crate) fn latencies_up_to(&self, bounds: &[Duration]) -> LatencyCounts {
        self.latencies.up_to(bounds)
    }

    /// Whether the output has all rows that it is to have: neither was the run stopped, nor did its input break.
    #[must_use]
    pub(crate) const fn has_all_rows(&self) -> bool {
        self.cancelled.is_none() && !matches!(self.input_end, Some(InputEnd::Broken))
    }

    /// Whether the output has every row that the run was to take, also if the run was stopped after the last one.
    #[must_use]
    pub(crate) fn all_rows_are_written(&self) -> bool {
        matches!(self.input_end, Some(InputEnd::Whole | InputEnd::Part))
            && self.left == 0
            && self.written == self.resolved()
    }

    /// Whether the run has reached the end of its input, apart from files that it could not use.
    #[must_use]
    pub(crate) const fn has_all_usable_rows(&self) -> bool {
        self.cancelled.is_none() && !matches!(self.input_end, Some(InputEnd::Part))
    }

    /// How the run ended, for the exit code, unless [failures are accepted](super::accepted_failures).
    #[must_use]
    pub(crate) fn exit(&self) -> Exit {
        let all_decided = self.failed.is_empty() && self.undecided == 0;
        match self.cancelled.or(self.file_failed) {
            None if all_decided && self.skipped_are_decided() => Exit::Complete,
            None => Exit::SomeFailed,
            Some(reason) => reason.exit(),
        }
    }

    /// Whether every row has a verdict and a decision in the files that an earlier run has finished.
    #[must_use]
    pub(crate) const fn skipped_are_decided(&self) -> bool {
        self.skipped_with_rejects == 0
    }

    /// Checks that every row that was read is accounted for.
    ///
    /// # Errors
    /// The numbers that do not add up, which is always a bug.
    pub(crate) fn check_invariants(&self) -> Result<(), String> {
        let resolved = self.resolved();
        let whole = self.cancelled.is_none();
        let broken = self.admitted != resolved + self.left
            || self.written > resolved
            || (self.written != resolved && !self.output_failed)
            || (self.unknown_levels.rows() != self.undecided && !self.output_failed)
            || self.read < self.admitted
            || (whole
                && (self.read != self.admitted || self.left != 0 || self.input_end.is_none()))
            || self.in_flight != 0;
        if !broken {
            return Ok(());
        }
        Err(format!(
            "rows do not add up: {} read, {} admitted, {resolved} resolved, {} left, {} written, {} calls in flight",
            self.read, self.admitted, self.left, self.written, self.in_flight
        ))
    }
}
