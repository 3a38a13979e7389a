//! Takes the events of all stages: counts them, then shows them to the observers, in the same order for all.
//!
//! [`Counts::apply`] is the only place that counts; replaying the events gives the same numbers.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

use super::counts::{Calls, Counts, OngoingOutage};
use super::event::{CancelReason, Event, FailureClass, Origin, PassedOver, RetryCause};
use crate::base::money::Money;
use crate::base::threads::lock;
use crate::row::RowNumber;
use crate::verdict::{Decision, Reason, Resolution};

/// Watches a run. It is called under a lock from every thread of the run, so it must be quick and must not block.
pub(crate) trait Observer: Send {
    /// An event happened, `at` after the start of the run. `counts` include it already.
    fn observe(&mut self, at: Duration, event: &Event, counts: &Counts);
}

/// The stages' handle to the hub. Clones share it.
#[derive(Clone)]
pub(crate) struct Events {
    started: Instant,
    recorder: Arc<Mutex<Recorder>>,
}

/// Counts every event and shows it to the observers.
#[derive(Default)]
struct Recorder {
    counts: Counts,
    observers: Vec<Box<dyn Observer>>,
}

impl Events {
    /// The events of a run that starts now.
    pub(crate) fn new() -> Self {
        Self {
            started: Instant::now(),
            recorder: Arc::default(),
        }
    }

    /// From now on, this observer sees all events as well.
    pub(crate) fn add_observer(&self, observer: impl Observer + 'static) {
        lock(&self.recorder).observers.push(Box::new(observer));
    }

    /// Records that `event` happened now.
    pub(crate) fn emit(&self, event: Event) {
        self.emit_at(Instant::now(), event);
    }

    /// Records that `event` happened at `when`, for callers that have just read the clock. Events stay in the order of
    /// the calls, but their times may step back a little.
    #[allow(clippy::needless_pass_by_value, reason = "an event is recorded once")]
    pub(crate) fn emit_at(&self, when: Instant, event: Event) {
        let at = when.saturating_duration_since(self.started);
        let mut recorder = lock(&self.recorder);
        let Recorder { counts, observers } = &mut *recorder;
        counts.apply(at, &event);
        for observer in observers {
            observer.observe(at, &event, counts);
        }
    }

    /// Time since the run began.
    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Reads the counts.
    pub(crate) fn with_counts<T>(&self, read: impl FnOnce(&Counts) -> T) -> T {
        read(&lock(&self.recorder).counts)
    }
}

impl Counts {
    /// Counts one event.
    #[allow(clippy::too_many_lines, reason = "a few words for each event")]
    pub(crate) fn apply(&mut self, at: Duration, event: &Event) {
        match event {
            Event::RowsRead {
                rows,
                position,
                dropped,
            } => {
                self.rows.read += rows;
                self.rows.left += rows;
                self.dropped += dropped;
                self.state.position = self.state.before + *position;
            }
            Event::FileStarted { file, before } => {
                (self.state.file, self.state.before, self.state.position) =
                    (*file, *before, *before);
                self.state.input_end = None;
            }
            Event::FileSkipped { has_rejects } => {
                self.state.skipped_with_rejects += u64::from(*has_rejects);
            }
            Event::EarlierStarts { calls } => self.calls.sent_before = *calls,
            Event::FileFailed(reason) => {
                let reasons = self.state.file_failed.into_iter().chain([*reason]);
                self.state.file_failed = reasons.max_by_key(|reason| reason.exit().code());
            }
            Event::InputEnded(end) => self.state.input_end = Some(*end),
            Event::RowAdmitted(_) => self.rows.admitted += 1,
            Event::RowsTaken { rows } => self.state.taken = *rows,
            Event::AttemptBegan { again, .. } => {
                self.state.first_call.get_or_insert(at);
                self.calls.began(*again);
            }
            Event::AttemptAnswered(_) => {
                self.calls.in_flight = self.calls.in_flight.saturating_sub(1);
                self.calls.answered += 1;
            }
            Event::AttemptFailed { class, call, .. } => {
                self.calls.failed(*class);
                // Proxies answer so to calls beyond a limit, and also while the service is down.
                let is_bare_503 = call.status == Some(503) && self.state.outage.is_none();
                self.calls.throttled += u64::from(is_bare_503);
            }
            Event::AttemptAbandoned { .. } => self.calls.failed(FailureClass::OutcomeUnknown),
            Event::Throttled { .. } => {
                self.calls.in_flight = self.calls.in_flight.saturating_sub(1);
                self.calls.throttled += 1;
            }
            Event::CallsPaused { pause, by } => {
                self.paused = self.time_paused(at);
                self.state.pause = Some((at, *pause));
                self.state.paused_by.clone_from(by);
            }
            Event::AnswerLost(_) => self.calls.lost += 1,
            Event::TransactionRepeated { .. } => self.calls.repeated_transaction_ids += 1,
            Event::ServiceDown {
                lasted,
                next,
                why,
                patience,
                ..
            } => {
                self.outages += u64::from(self.state.outage.is_none());
                self.state.outage = Some(OngoingOutage {
                    since: at.saturating_sub(*lasted),
                    next: at + *next,
                    why: why.clone(),
                    gives_up: at + *patience,
                });
            }
            Event::ServiceUp { lasted } => {
                self.state.outage = None;
                self.down += *lasted;
            }
            Event::OutageDismissed { lasted } => {
                self.state.outage = None;
                self.outages = self.outages.saturating_sub(1);
                self.paused += *lasted;
            }
            Event::PaceChanged(change) => self.pace = Some(change.pace.rounded()),
            Event::KeyRenewed => self.keys_renewed += 1,
            Event::DecisionsCompared(drift) => self.drift.get_or_insert_default().add(drift),
            Event::AgedAnswerUsed { at } => self.aged(*at),
            Event::LimitReached(reason) => self.limited = Some(*reason),
            Event::OldAnswerUsed { at } => {
                // It was to be sent again.
                self.ledger_answers_too_old = self.ledger_answers_too_old.saturating_sub(1);
                self.aged(*at);
            }
            Event::AnswerPassedOver { why, .. } => match why {
                PassedOver::Damaged => self.ledger_answers_damaged += 1,
                PassedOver::TooOld => self.ledger_answers_too_old += 1,
                PassedOver::Failed => self.ledger_failures_retried += 1,
            },
            Event::RowResolved {
                row,
                resolution,
                origin,
            } => self.row_resolved(at, *row, *resolution, *origin),
            Event::RowPassed(_) => {
                self.rows.resolved += 1;
                self.rows.left = self.rows.left.saturating_sub(1);
                self.passed += 1;
            }
            Event::RowLeft(_) => self.rows.unfinished += 1,
            Event::RowsWritten { rows } => self.rows.written += rows,
            Event::OutputFailed => self.state.output_failed = true,
            Event::DrainBegan { reason, .. } => self.state.terminated |= reason.is_urgent(),
            Event::CancelBegan(reason) => {
                self.state.terminated |= reason.is_urgent();
                // A bug in rescore outranks any earlier reason: nothing may hide it.
                if self.cancelled.is_none() || *reason == CancelReason::Internal {
                    self.cancelled = Some(*reason);
                }
            }
            Event::ScoreBelowZero { .. } | Event::FieldsAbsent { .. } => {}
        }
    }

    fn row_resolved(
        &mut self,
        at: Duration,
        row: RowNumber,
        resolution: Resolution,
        origin: Origin,
    ) {
        let (resolved, sent) = (self.rows.resolved, self.calls.sent);
        if !matches!(self.state.speed_from, Some((_, _, before)) if before > 0 || sent == 0) {
            self.state.speed_from = Some((at, resolved, sent));
        }
        self.rows.resolved += 1;
        self.rows.left = self.rows.left.saturating_sub(1);
        match resolution {
            Resolution::Scored(decision) => self.row_scored(row, decision, origin),
            Resolution::Failed(reason) => {
                self.failed.rows += 1;
                *self.failed.reasons.entry(reason).or_default() += 1;
                // What no call was left for says nothing of the service or the row.
                if !matches!(origin, Origin::Ledger(_)) && reason != Reason::Limit {
                    *self.state.newly_failed.entry(reason).or_default() += 1;
                }
            }
        }
    }

    fn aged(&mut self, at: i64) {
        self.ledger_answers_aged += 1;
        let oldest = self.state.oldest_answer.into_iter().chain([at]).min();
        self.state.oldest_answer = oldest;
    }

    fn row_scored(&mut self, row: RowNumber, decision: Option<Decision>, origin: Origin) {
        match origin {
            Origin::Called => self.state.scored_now += 1,
            Origin::Ledger(price) => {
                self.known += 1;
                self.state.unpriced += u64::from(price == Some(Money::default()));
                self.state.paid_earlier.billionths += price.unwrap_or_default().billionths;
            }
            Origin::Duplicate => self.duplicates += 1,
        }
        self.decisions.count(decision);
        if decision.is_none() {
            self.undecided.count(row);
        }
    }
}

impl Calls {
    fn began(&mut self, again: Option<RetryCause>) {
        self.sent += 1;
        self.in_flight += 1;
        match again {
            None => {}
            Some(RetryCause::Failed) => self.retries += 1,
            Some(RetryCause::OutcomeUnknown) => {
                self.retries += 1;
                self.resent += 1;
            }
            Some(RetryCause::TakenOver) => self.taken_over += 1,
        }
        self.maybe_billed_twice = self.resent + self.taken_over;
    }

    const fn failed(&mut self, class: FailureClass) {
        self.in_flight = self.in_flight.saturating_sub(1);
        match class {
            FailureClass::NotProcessed | FailureClass::RowRefused | FailureClass::RunRefused => {}
            FailureClass::OutcomeUnknown => self.unknown_outcome += 1,
            FailureClass::Unclear => self.unclear += 1,
            FailureClass::Useless => self.billed_without_verdict += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::event::{CallEnd, InputEnd, Next};
    use crate::telemetry::pace::Pause;

    const ROW: RowNumber = RowNumber::FIRST;

    fn replay(events: &[Event]) -> Counts {
        let mut counts = Counts::default();
        for (second, event) in (0..).zip(events) {
            counts.apply(Duration::from_secs(second), event);
        }
        counts
    }

    fn resolved(resolution: Resolution, origin: Origin) -> Event {
        Event::RowResolved {
            row: ROW,
            resolution,
            origin,
        }
    }

    #[test]
    fn a_lost_row_breaks_the_invariants() {
        let mut events = vec![
            Event::RowsRead {
                rows: 1,
                position: 9,
                dropped: 0,
            },
            Event::RowAdmitted(ROW),
            resolved(Resolution::Failed(Reason::InvalidIp), Origin::Called),
            Event::InputEnded(InputEnd::Whole),
        ];
        let check = |events: &[Event]| replay(events).check_invariants();
        assert!(check(&events).is_err(), "resolved but not written");
        events.push(Event::RowsWritten { rows: 1 });
        assert_eq!(check(&events), Ok(()));
        events.push(Event::RowsRead {
            rows: 1,
            position: 9,
            dropped: 0,
        });
        assert!(check(&events).is_err(), "read but not admitted");
        events.push(Event::CancelBegan(CancelReason::Interrupted));
        assert_eq!(check(&events), Ok(()), "a stopped run may leave rows");
    }

    #[test]
    fn only_rows_with_a_verdict_count_as_known_or_duplicate() {
        let scored = Resolution::Scored(Some(Decision::Approve));
        let failed = Resolution::Failed(Reason::Refused);
        let origins = [Origin::Called, Origin::Ledger(None), Origin::Duplicate];
        let events = origins.map(|origin| [resolved(scored, origin), resolved(failed, origin)]);
        let counts = replay(events.as_flattened());
        assert_eq!((counts.known, counts.duplicates), (1, 1));
        assert_eq!((counts.scored(), counts.failed.rows), (3, 3));
        assert_eq!(counts.state.newly_failed, [(Reason::Refused, 2)].into());
    }

    #[test]
    fn a_bare_503_counts_as_throttled_unless_the_service_is_down() {
        let call = CallEnd {
            row: ROW,
            attempt: 1,
            status: Some(503),
            latency: Duration::ZERO,
        };
        let failed = Event::AttemptFailed {
            call,
            reason: Reason::ServerError,
            class: FailureClass::Unclear,
            next: Next::Again(Duration::ZERO),
        };
        let down = Event::ServiceDown {
            row: ROW,
            lasted: Duration::ZERO,
            next: Duration::ZERO,
            why: "".into(),
            patience: Duration::ZERO,
        };
        let counts = replay(&[failed.clone(), down, failed]);
        assert_eq!((counts.calls.throttled, counts.calls.unclear), (1, 2));
    }

    #[test]
    fn rows_from_the_ledger_before_the_first_call_are_told_apart() {
        let of = |origin| resolved(Resolution::Scored(None), origin);
        let mut events = vec![of(Origin::Ledger(None)), of(Origin::Ledger(None))];
        let from = |events: &[Event]| replay(events).state.speed_from;
        assert_eq!(from(&events), Some((Duration::ZERO, 0, 0)));
        let call = Event::AttemptBegan {
            row: ROW,
            again: None,
        };
        events.extend([call, of(Origin::Called), of(Origin::Ledger(None))]);
        assert_eq!(from(&events), Some((Duration::from_secs(3), 2, 1)));
    }

    #[test]
    fn pauses_that_overlap_are_counted_once() {
        let pause = |length| Event::CallsPaused {
            pause: Pause {
                length: Duration::from_secs(length),
                asked: None,
            },
            by: "api.example (429)".into(),
        };
        // Starts at 0 for 10 s, is extended at 1 s until 31 s, and is read at 100 s.
        let counts = replay(&[pause(10), pause(30)]);
        let paused = counts.as_of(Duration::from_secs(100), None).paused;
        assert_eq!(paused, Duration::from_secs(31));
        let left = counts.pause_left(Duration::from_secs(11));
        assert_eq!(left.map(|(left, _)| left.as_secs()), Some(20));
    }
}
