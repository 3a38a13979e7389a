//! The only counters in the program.
//!
//! [`Stats::apply`] is the only place that counts. Bar, log, summary and exit code all read from here; replaying the
//! events gives the same numbers.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::base::error::{Exit, Signal};
use crate::drift::Drift;
use crate::telemetry::event::{Again, Billing, CancelReason, Event, Origin, Pace, Pause, Unusable};
use crate::telemetry::timeline::Timeline;
use crate::verdict::{Decision, Reason, Resolution};

/// Everything that was counted of a run.
#[derive(Debug, Clone)]
pub(crate) struct Stats {
    /// Rows that the reader handed on.
    pub(crate) read: u64,
    /// Whether the input came to its end.
    pub(crate) input_ended: bool,
    /// Rows that entered the window.
    pub(crate) admitted: u64,
    /// Rows with each decision.
    pub(crate) approved: u64,
    /// Rows for review.
    pub(crate) reviewed: u64,
    /// Rows blocked.
    pub(crate) blocked: u64,
    /// Rows without a verdict, by reason.
    pub(crate) failed: BTreeMap<Reason, u64>,
    /// Rows whose verdict came from a call of their own.
    pub(crate) paid: u64,
    /// Of the rows with a verdict, those whose answer an earlier run paid for.
    pub(crate) known: u64,
    /// Of the rows with a verdict, those that share the answer of an equal row.
    pub(crate) duplicates: u64,
    /// Earlier decisions against those of this run.
    pub(crate) drift: Drift,
    /// Admitted rows that were left for a later run.
    pub(crate) left: u64,
    /// Rows in the output.
    pub(crate) written: u64,
    /// Bytes of the source that are used up with the rows read.
    pub(crate) position: u64,
    /// Whether the writer failed.
    pub(crate) output_failed: bool,
    /// Calls that went out.
    pub(crate) calls: u64,
    /// Calls that are out.
    pub(crate) in_flight: u64,
    /// Calls that brought a verdict.
    pub(crate) answered: u64,
    /// Calls that repeat an earlier one of their row.
    pub(crate) retries: u64,
    /// Calls that the service refused for coming too fast.
    pub(crate) throttled: u64,
    /// Calls that repeat one which may have been billed.
    pub(crate) maybe_billed_twice: u64,
    /// Calls that may have been billed although no answer came back, sent again or not.
    pub(crate) unknown_outcome: u64,
    /// Calls that were billed without a usable verdict.
    pub(crate) billed_without_verdict: u64,
    /// Answers that were paid for and may not be durable; their rows are left.
    pub(crate) lost: u64,
    /// Answers in the ledger that were damaged, and asked for again.
    pub(crate) damaged_answers: u64,
    /// Answers in the ledger that are dated in the future, and asked for again.
    pub(crate) future_answers: u64,
    /// Answers whose transaction id a different user's answer had before.
    pub(crate) repeated_transactions: u64,
    /// Times that a new API key was read from its file.
    pub(crate) keys_renewed: u64,
    /// The pause that is on or was last.
    pub(crate) pause: Option<(Duration, Pause)>,
    /// Time in pauses so far, without a pause that is still on.
    pub(crate) paused: Duration,
    /// How fast calls may go.
    pub(crate) pace: Option<Pace>,
    /// When calls were made.
    pub(crate) timeline: Timeline,
    /// That the service is down, if it is.
    pub(crate) outage: Option<Outage>,
    /// How often it was down.
    pub(crate) outages: u64,
    /// How long it was down in all, without an outage that is still on.
    pub(crate) down: Duration,
    /// How long it was waited for when it was not down, but failed over the rows that were left.
    pub(crate) waited_in_vain: Duration,
    /// Why the run stopped early.
    pub(crate) cancelled: Option<CancelReason>,
    /// SIGTERM or SIGHUP came: whoever sent it does not wait for long.
    pub(crate) terminated: bool,
    /// When the first row was resolved.
    pub(crate) first_resolved: Option<Duration>,
    /// When the last event was.
    pub(crate) at: Duration,
    /// Latency of calls that brought an answer, in microseconds.
    latency: Option<Histogram<u32>>,
}

/// A time in which the service is taken to be down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Outage {
    /// When it began.
    pub(crate) since: Duration,
    /// When the next single call may go.
    pub(crate) next: Duration,
}

/// Latencies above an hour are counted as an hour: no timeout is that long.
const HIGHEST_LATENCY: u64 = 3_600_000_000;

impl Default for Stats {
    fn default() -> Self {
        // Two significant figures are what a person reads; three would cost 16 times the memory.
        let latency = Histogram::new_with_bounds(1, HIGHEST_LATENCY, 2).ok();
        Self {
            read: 0,
            input_ended: false,
            admitted: 0,
            approved: 0,
            reviewed: 0,
            blocked: 0,
            failed: BTreeMap::new(),
            paid: 0,
            known: 0,
            duplicates: 0,
            drift: Drift::default(),
            left: 0,
            written: 0,
            position: 0,
            output_failed: false,
            calls: 0,
            in_flight: 0,
            answered: 0,
            retries: 0,
            throttled: 0,
            maybe_billed_twice: 0,
            unknown_outcome: 0,
            billed_without_verdict: 0,
            lost: 0,
            damaged_answers: 0,
            future_answers: 0,
            repeated_transactions: 0,
            keys_renewed: 0,
            pause: None,
            paused: Duration::ZERO,
            pace: None,
            timeline: Timeline::default(),
            outage: None,
            outages: 0,
            waited_in_vain: Duration::ZERO,
            down: Duration::ZERO,
            cancelled: None,
            terminated: false,
            first_resolved: None,
            at: Duration::ZERO,
            latency,
        }
    }
}

impl Stats {
    /// Counts one event.
    pub(crate) fn apply(&mut self, at: Duration, event: &Event) {
        self.at = self.at.max(at);
        match event {
            Event::RowsRead { rows, position } => {
                self.read += rows;
                self.position = *position;
            }
            Event::InputEnded => self.input_ended = true,
            Event::RowAdmitted(_) => self.admitted += 1,
            Event::AttemptBegan { again, .. } => {
                self.calls += 1;
                self.timeline.note(at);
                self.in_flight += 1;
                self.retries += u64::from(again.is_some());
                self.maybe_billed_twice += u64::from(*again == Some(Again::OutcomeUnknown));
            }
            Event::AttemptAnswered { latency, .. } => {
                self.in_flight = self.in_flight.saturating_sub(1);
                self.answered += 1;
                if let Some(histogram) = &mut self.latency {
                    histogram.saturating_record(
                        u64::try_from(latency.as_micros()).unwrap_or(HIGHEST_LATENCY),
                    );
                }
            }
            Event::AttemptFailed { billing, .. } => {
                self.in_flight = self.in_flight.saturating_sub(1);
                match billing {
                    Billing::Unlikely => {}
                    Billing::Unknown => self.unknown_outcome += 1,
                    Billing::Billed => self.billed_without_verdict += 1,
                }
            }
            Event::Throttled { pause, .. } => {
                self.in_flight = self.in_flight.saturating_sub(1);
                self.throttled += 1;
                if let Some(pause) = pause {
                    self.paused = self.time_paused(at);
                    self.pause = Some((at, *pause));
                }
            }
            Event::AnswerLost(_) => self.lost += 1,
            Event::TransactionRepeated { .. } => self.repeated_transactions += 1,
            Event::ServiceDown { lasted, next, .. } => {
                self.outages += u64::from(self.outage.is_none());
                self.outage = Some(Outage {
                    since: at.saturating_sub(*lasted),
                    next: at + *next,
                });
            }
            Event::ServiceUp { lasted } => {
                self.outage = None;
                self.down += *lasted;
            }
            Event::OutageDismissed { lasted } => {
                self.outage = None;
                self.outages = self.outages.saturating_sub(1);
                self.waited_in_vain += *lasted;
            }
            Event::PaceChanged(pace) => self.pace = Some(*pace),
            Event::KeyRenewed => self.keys_renewed += 1,
            Event::ManyRefused { .. } | Event::FieldsAbsent { .. } => {}
            Event::AnswerUnusable { why, .. } => match why {
                Unusable::Damaged => self.damaged_answers += 1,
                Unusable::FromTheFuture => self.future_answers += 1,
            },
            Event::AttemptAbandoned(_) => {
                self.in_flight = self.in_flight.saturating_sub(1);
                self.unknown_outcome += 1;
            }
            Event::RowResolved {
                resolution, origin, ..
            } => {
                self.first_resolved.get_or_insert(at);
                self.resolve(*resolution, *origin);
            }
            Event::RowLeft(_) => self.left += 1,
            Event::RowsWritten { rows } => self.written += rows,
            Event::DecisionsCompared(drift) => self.drift.add(drift),
            Event::OutputFailed => self.output_failed = true,
            Event::DrainBegan { reason, .. } => {
                self.terminated |= reason.hurries();
            }
            Event::CancelBegan(reason) => {
                self.terminated |= reason.hurries();
                // A bug of ours outranks whatever came first: nothing else may hide it.
                if self.cancelled.is_none() || *reason == CancelReason::Internal {
                    self.cancelled = Some(*reason);
                }
            }
        }
    }

    fn resolve(&mut self, resolution: Resolution, origin: Origin) {
        let scored = u64::from(matches!(resolution, Resolution::Scored(_)));
        match origin {
            Origin::Called => self.paid += scored,
            Origin::Ledger => self.known += scored,
            Origin::Duplicate => self.duplicates += scored,
        }
        match resolution {
            Resolution::Scored(Decision::Approve) => self.approved += 1,
            Resolution::Scored(Decision::Review) => self.reviewed += 1,
            Resolution::Scored(Decision::Block) => self.blocked += 1,
            Resolution::Failed(reason) => *self.failed.entry(reason).or_default() += 1,
        }
    }

    /// Rows with a decision.
    #[must_use]
    pub(crate) const fn scored(&self) -> u64 {
        self.approved + self.reviewed + self.blocked
    }

    /// Rows without a verdict.
    #[must_use]
    pub(crate) fn failures(&self) -> u64 {
        self.failed.values().sum()
    }

    /// Rows without a verdict that a call was made for. Equal ones share it.
    #[must_use]
    pub(crate) fn failed_calls(&self) -> u64 {
        let by_call = |reason: &Reason| reason.is_of_call();
        let failed = self.failed.iter().filter(|(reason, _)| by_call(reason));
        failed.map(|(_, rows)| rows).sum()
    }

    /// Rows that are done, either way.
    #[must_use]
    pub(crate) fn resolved(&self) -> u64 {
        self.scored() + self.failures()
    }

    /// Time in pauses up to `now`.
    #[must_use]
    pub(crate) fn time_paused(&self, now: Duration) -> Duration {
        let current = self.pause.map_or(Duration::ZERO, |(began, pause)| {
            now.saturating_sub(began).min(pause.length)
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

    /// How much of the current pause is left at `now`.
    #[must_use]
    pub(crate) fn pause_left(&self, now: Duration) -> Option<(Duration, Pause)> {
        let (began, pause) = self.pause?;
        let left = (began + pause.length).saturating_sub(now);
        (!left.is_zero()).then_some((left, pause))
    }

    /// The latency that this share of the answered calls did not exceed; `None` before the first.
    #[must_use]
    pub(crate) fn latency(&self, quantile: f64) -> Option<Duration> {
        let latency = self
            .latency
            .as_ref()
            .filter(|latency| !latency.is_empty())?;
        Some(Duration::from_micros(latency.value_at_quantile(quantile)))
    }

    /// How the run ended, for the exit code.
    #[must_use]
    pub(crate) fn exit(&self) -> Exit {
        match self.cancelled {
            None if self.failed.is_empty() => Exit::Complete,
            None => Exit::SomeFailed,
            Some(CancelReason::Interrupted) => Exit::Interrupted(Signal::Interrupt),
            Some(CancelReason::Terminated) => Exit::Interrupted(Signal::Terminate),
            Some(CancelReason::HungUp) => Exit::Interrupted(Signal::HangUp),
            Some(CancelReason::Refused) => Exit::Refused,
            Some(CancelReason::Input) => Exit::Usage,
            Some(
                CancelReason::Unavailable
                | CancelReason::InputChanged
                | CancelReason::Ledger
                | CancelReason::NoVerdicts
                | CancelReason::MaxCalls
                | CancelReason::MaxFailures
                | CancelReason::Output
                | CancelReason::OutputClosed,
            ) => Exit::Stopped,
            Some(CancelReason::Internal) => Exit::Internal,
        }
    }

    /// The law of the house: every row that was read is accounted for.
    ///
    /// # Errors
    /// The numbers that do not add up: a bug, not a circumstance.
    pub(crate) fn check_invariants(&self) -> Result<(), String> {
        let resolved = self.resolved();
        let whole = self.cancelled.is_none();
        let broken = self.admitted != resolved + self.left
            || self.written > resolved
            || (self.written != resolved && !self.output_failed)
            || self.read < self.admitted
            || (whole && (self.read != self.admitted || self.left != 0 || !self.input_ended))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::RowNumber;

    fn told(events: &[Event]) -> Stats {
        let mut stats = Stats::default();
        for (second, event) in (0..).zip(events) {
            stats.apply(Duration::from_secs(second), event);
        }
        stats
    }

    #[test]
    fn a_lost_row_breaks_the_law() {
        let row = RowNumber::FIRST;
        let mut events = vec![
            Event::RowsRead {
                rows: 1,
                position: 9,
            },
            Event::RowAdmitted(row),
            Event::RowResolved {
                row,
                resolution: Resolution::Failed(Reason::InvalidIp),
                origin: Origin::Called,
            },
            Event::InputEnded,
        ];
        assert!(
            told(&events).check_invariants().is_err(),
            "resolved but not written"
        );
        events.push(Event::RowsWritten { rows: 1 });
        assert_eq!(told(&events).check_invariants(), Ok(()));
        events.push(Event::RowsRead {
            rows: 1,
            position: 9,
        });
        assert!(
            told(&events).check_invariants().is_err(),
            "read but not admitted"
        );
        events.push(Event::CancelBegan(CancelReason::Interrupted));
        assert_eq!(
            told(&events).check_invariants(),
            Ok(()),
            "a stopped run may leave rows"
        );
    }

    #[test]
    fn rows_with_a_verdict_are_paid_known_or_equal_to_another_and_failed_rows_are_none_of_these() {
        let resolved = |resolution, origin| Event::RowResolved {
            row: RowNumber::FIRST,
            resolution,
            origin,
        };
        let (scored, failed) = (
            Resolution::Scored(Decision::Approve),
            Resolution::Failed(Reason::Refused),
        );
        let origins = [Origin::Called, Origin::Ledger, Origin::Duplicate];
        let events = origins.map(|origin| [resolved(scored, origin), resolved(failed, origin)]);
        let stats = told(events.as_flattened());
        assert_eq!((stats.paid, stats.known, stats.duplicates), (1, 1, 1));
        assert_eq!((stats.scored(), stats.failures()), (3, 3));
    }

    #[test]
    fn pauses_that_overlap_are_counted_once() {
        let pause = |length| Event::Throttled {
            row: RowNumber::FIRST,
            pause: Some(Pause {
                length: Duration::from_secs(length),
                asked: None,
            }),
        };
        // Begun at 0 for 10 s, lengthened at 1 to end at 31, read at 100.
        let stats = told(&[pause(10), pause(30)]);
        assert_eq!(
            stats.time_paused(Duration::from_secs(100)),
            Duration::from_secs(31)
        );
        assert_eq!(
            stats
                .pause_left(Duration::from_secs(11))
                .map(|(left, _)| left.as_secs()),
            Some(20)
        );
    }
}
