//! The only counters in the program.
//!
//! [`Stats::apply`] is the only place that counts. Bar, log, summary and exit code all read the statistics; replaying
//! the events gives the same numbers. What follows from the counts is in [`totals`](super::totals).

use std::collections::BTreeMap;
use std::time::Duration;

use super::event::{Again, CancelReason, Event, FailureClass, InputEnd, Origin, PassedOver};
use super::latency::Latencies;
use super::pace::{Pace, Pause};
use super::timeline::Timeline;
use crate::analysis::UnknownLevels;
use crate::drift::Drift;
use crate::verdict::{Decision, Reason, Resolution};

/// Everything that was counted of a run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stats {
    /// Rows that the reader handed on.
    pub(crate) read: u64,
    /// What was read, once no more rows come.
    pub(crate) input_end: Option<InputEnd>,
    /// Rows that entered the window.
    pub(crate) admitted: u64,
    /// Rows to approve.
    pub(crate) approved: u64,
    /// Rows to review.
    pub(crate) reviewed: u64,
    /// Rows that were read and are sent without a phone number or an email address that is invalid.
    pub(crate) dropped: u64,
    /// Rows to block.
    pub(crate) blocked: u64,
    /// Rows with a verdict and no decision, as their level is in no list.
    pub(crate) undecided: u64,
    /// The levels of those that are written.
    pub(crate) unknown_levels: UnknownLevels,
    /// Rows without a verdict, by reason.
    pub(crate) failed: BTreeMap<Reason, u64>,
    /// Of these, the rows that failed since this start of the run.
    pub(crate) newly_failed: BTreeMap<Reason, u64>,
    /// Of the rows with a verdict, those with a call of their own.
    pub(crate) paid: u64,
    /// Of the rows with a verdict, those whose answer was in the ledger.
    pub(crate) known: u64,
    /// Of the rows with a verdict, those that reused the answer of an identical row.
    pub(crate) duplicates: u64,
    /// Earlier decisions compared with those of this run.
    pub(crate) drift: Drift,
    /// Admitted rows that were left for a later run.
    pub(crate) left: u64,
    /// Rows in the output.
    pub(crate) written: u64,
    /// Bytes of the source that were read for these rows; of several files, those of all files before are included.
    pub(crate) position: u64,
    /// The number of the file whose rows come, of several; 0 for a run of one file.
    pub(crate) file: u64,
    /// Bytes of the files before it.
    pub(crate) before: u64,
    /// Files that an earlier run had finished.
    pub(crate) skipped: u64,
    /// Those of them in which some rows have no verdict.
    pub(crate) skipped_with_rejects: u64,
    /// Why a file could not be used, or not to its end, while the run continued: the reason with the highest exit code.
    pub(crate) file_failed: Option<CancelReason>,
    /// Whether the writer failed.
    pub(crate) output_failed: bool,
    /// Calls that were sent.
    pub(crate) calls: u64,
    /// Calls that are in flight.
    pub(crate) in_flight: u64,
    /// Calls that brought a verdict.
    pub(crate) answered: u64,
    /// Calls that retry a failed one of the same row.
    pub(crate) retries: u64,
    /// Calls to which the service answered by asking for fewer calls.
    pub(crate) throttled: u64,
    /// Calls that were answered with a bare 503.
    pub(crate) busy: u64,
    /// Calls that retry one that may have been billed.
    pub(crate) resent: u64,
    /// Rows that another run was about to ask about, or had asked about without an answer: they may be billed twice as well.
    pub(crate) taken_over: u64,
    /// Calls of the run's earlier starts.
    pub(crate) calls_before: u64,
    /// Calls of earlier starts, which were killed, whose answers are lost: so many at most.
    pub(crate) lost_calls: u64,
    /// Calls that may have been billed although no answer came back, retried or not.
    pub(crate) unknown_outcome: u64,
    /// Calls that the service failed, perhaps after its work was done.
    pub(crate) unclear: u64,
    /// Calls that were billed without a usable verdict.
    pub(crate) billed_without_verdict: u64,
    /// Paid answers that may not be on disk; their rows are left for a later run.
    pub(crate) lost: u64,
    /// Answers in the ledger that were damaged; their rows are sent again.
    pub(crate) damaged_answers: u64,
    /// Rows that are sent again as their answers are older than the run asks for.
    pub(crate) too_old_answers: u64,
    /// Rows that are sent again as they have failed before.
    pub(crate) retried_failures: u64,
    /// Answers that were used and are so old that people should know.
    pub(crate) aged_answers: u64,
    /// When the oldest of them arrived, in milliseconds since 1970.
    pub(crate) oldest_answer: Option<i64>,
    /// Answers with the transaction id of a different user's earlier answer.
    pub(crate) repeated_transactions: u64,
    /// How often a new API key was read from its file.
    pub(crate) keys_renewed: u64,
    /// The current or latest pause, and when it started.
    pub(crate) pause: Option<(Duration, Pause)>,
    /// Time spent in the pauses before that one.
    pub(crate) paused: Duration,
    /// How fast calls may go.
    pub(crate) pace: Option<Pace>,
    /// When calls were made.
    pub(crate) timeline: Timeline,
    /// The outage that lasts, if the service is down.
    pub(crate) outage: Option<OngoingOutage>,
    /// How often the service was down.
    pub(crate) outages: u64,
    /// How long the service was down in total, without an outage that lasts.
    pub(crate) down: Duration,
    /// Rows that wait because another run on the same ledger asks about the same users.
    pub(crate) taken: u64,
    /// Time spent in apparent outages that were then put down to the rows.
    pub(crate) dismissed_outages: Duration,
    /// Why the run stopped early.
    pub(crate) cancelled: Option<CancelReason>,
    /// SIGTERM or SIGHUP came: the sender does not wait for long.
    pub(crate) terminated: bool,
    /// When the first row was resolved.
    pub(crate) first_resolved: Option<Duration>,
    /// When the first row was resolved after a call had started, and how many were before.
    pub(crate) first_called: Option<(Duration, u64)>,
    /// When the last event was.
    pub(crate) at: Duration,
    /// How long answered calls took.
    pub(super) latencies: Latencies,
}

/// An outage that lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OngoingOutage {
    /// When it started.
    pub(crate) since: Duration,
    /// When the next single call may be made.
    pub(crate) next: Duration,
}

impl Stats {
    /// Counts one event.
    pub(crate) fn apply(&mut self, at: Duration, event: &Event) {
        self.at = self.at.max(at);
        match event {
            Event::RowsRead {
                rows,
                position,
                dropped,
            } => {
                self.read += rows;
                self.dropped += dropped;
                self.position = self.before + *position;
            }
            Event::FileStarted { file, before } => self.file_started(*file, *before),
            Event::FileSkipped { has_rejects } => {
                self.skipped += 1;
                self.skipped_with_rejects += u64::from(*has_rejects);
            }
            Event::EarlierStarts { calls, lost } => {
                self.calls_before = *calls;
                self.lost_calls = *lost;
            }
            Event::FileFailed(reason) => self.file_failed(*reason),
            Event::InputEnded(end) => self.input_end = Some(*end),
            Event::RowAdmitted(_) => self.admitted += 1,
            Event::RowsTaken { rows } => self.taken = *rows,
            Event::AttemptBegan { again, .. } => self.call_began(at, *again),
            Event::AttemptAnswered(call) => {
                self.call_ended();
                self.answered += 1;
                self.latencies.record(call.latency);
            }
            Event::AttemptFailed { call, class, .. } => self.call_failed(call.status, *class),
            Event::AttemptAbandoned { .. } => self.call_failed(None, FailureClass::OutcomeUnknown),
            Event::Throttled { .. } => self.call_throttled(),
            Event::CallsPaused(pause) => self.calls_paused(at, *pause),
            Event::AnswerLost(_) => self.lost += 1,
            Event::TransactionRepeated { .. } => self.repeated_transactions += 1,
            Event::ServiceDown { lasted, next, .. } => self.service_down(at, *lasted, *next),
            Event::ServiceUp { lasted } => self.service_up(*lasted),
            Event::OutageDismissed { lasted } => self.outage_dismissed(*lasted),
            Event::PaceChanged(change) => self.pace = Some(change.pace),
            Event::KeyRenewed => self.keys_renewed += 1,
            Event::ManyRefused { .. }
            | Event::ScoreBelowZero { .. }
            | Event::FieldsAbsent { .. } => {}
            Event::AgedAnswerUsed { at } => {
                self.aged_answers += 1;
                self.oldest_answer = Some(self.oldest_answer.map_or(*at, |oldest| oldest.min(*at)));
            }
            Event::AnswerPassedOver { why, .. } => self.passed_over(*why),
            Event::RowResolved {
                resolution, origin, ..
            } => self.row_resolved(at, *resolution, *origin),
            Event::RowLeft(_) => self.left += 1,
            Event::RowsWritten { rows } => self.written += rows,
            Event::DecisionsCompared(drift) => self.drift.add(drift),
            Event::LevelsUnknown(levels) => self.unknown_levels.add(levels),
            Event::OutputFailed => self.output_failed = true,
            Event::DrainBegan { reason, .. } => self.terminated |= reason.hurries(),
            Event::CancelBegan(reason) => self.stopping(*reason),
        }
    }

    const fn passed_over(&mut self, why: PassedOver) {
        match why {
            PassedOver::Damaged => self.damaged_answers += 1,
            PassedOver::TooOld => self.too_old_answers += 1,
            PassedOver::Failed => self.retried_failures += 1,
        }
    }

    fn service_up(&mut self, lasted: Duration) {
        self.outage = None;
        self.down += lasted;
    }

    fn outage_dismissed(&mut self, lasted: Duration) {
        self.outage = None;
        self.outages = self.outages.saturating_sub(1);
        self.dismissed_outages += lasted;
    }

    const fn file_started(&mut self, file: u64, before: u64) {
        self.file = file;
        self.before = before;
        self.position = before;
        self.input_end = None;
    }

    fn file_failed(&mut self, reason: CancelReason) {
        let reasons = [self.file_failed, Some(reason)].into_iter().flatten();
        self.file_failed = reasons.max_by_key(|reason| reason.exit().code());
    }

    fn call_began(&mut self, at: Duration, again: Option<Again>) {
        self.calls += 1;
        self.timeline.record(at);
        self.in_flight += 1;
        match again {
            None => {}
            Some(Again::Failed) => self.retries += 1,
            Some(Again::OutcomeUnknown) => {
                self.retries += 1;
                self.resent += 1;
            }
            Some(Again::TakenOver) => self.taken_over += 1,
        }
    }

    /// Rows that may be billed twice.
    pub(crate) const fn maybe_billed_twice(&self) -> u64 {
        self.resent + self.taken_over + self.asked_by_killed_run()
    }

    /// Rows that an earlier run may have asked about when it was killed, at most: it cannot be told which they are.
    pub(crate) const fn asked_by_killed_run(&self) -> u64 {
        if self.lost_calls < self.calls {
            self.lost_calls
        } else {
            self.calls
        }
    }

    const fn call_ended(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    fn call_failed(&mut self, status: Option<u16>, class: FailureClass) {
        self.busy += u64::from(status == Some(503));
        self.call_ended();
        match class {
            FailureClass::NotProcessed | FailureClass::RowRefused | FailureClass::RunRefused => {}
            FailureClass::OutcomeUnknown => self.unknown_outcome += 1,
            FailureClass::Unclear => self.unclear += 1,
            FailureClass::Useless => self.billed_without_verdict += 1,
        }
    }

    const fn call_throttled(&mut self) {
        self.call_ended();
        self.throttled += 1;
    }

    fn calls_paused(&mut self, at: Duration, pause: Pause) {
        self.paused = self.time_paused(at);
        self.pause = Some((at, pause));
    }

    fn service_down(&mut self, at: Duration, lasted: Duration, next: Duration) {
        self.outages += u64::from(self.outage.is_none());
        self.outage = Some(OngoingOutage {
            since: at.saturating_sub(lasted),
            next: at + next,
        });
    }

    fn row_resolved(&mut self, at: Duration, resolution: Resolution, origin: Origin) {
        self.first_resolved.get_or_insert(at);
        if self.calls > 0 && self.first_called.is_none() {
            self.first_called = Some((at, self.resolved()));
        }
        let scored = u64::from(matches!(resolution, Resolution::Scored(_)));
        match origin {
            Origin::Called => self.paid += scored,
            Origin::Ledger => self.known += scored,
            Origin::Duplicate => self.duplicates += scored,
        }
        match resolution {
            Resolution::Scored(Some(Decision::Approve)) => self.approved += 1,
            Resolution::Scored(Some(Decision::Review)) => self.reviewed += 1,
            Resolution::Scored(Some(Decision::Block)) => self.blocked += 1,
            Resolution::Scored(None) => self.undecided += 1,
            Resolution::Failed(reason) => {
                *self.failed.entry(reason).or_default() += 1;
                if origin != Origin::Ledger {
                    *self.newly_failed.entry(reason).or_default() += 1;
                }
            }
        }
    }

    fn stopping(&mut self, reason: CancelReason) {
        self.terminated |= reason.hurries();
        // A bug in rescore outranks any earlier reason: nothing may hide it.
        if self.cancelled.is_none() || reason == CancelReason::Internal {
            self.cancelled = Some(reason);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::RowNumber;

    fn replay(events: &[Event]) -> Stats {
        let mut stats = Stats::default();
        for (second, event) in (0..).zip(events) {
            stats.apply(Duration::from_secs(second), event);
        }
        stats
    }

    #[test]
    fn a_lost_row_breaks_the_invariants() {
        let row = RowNumber::FIRST;
        let mut events = vec![
            Event::RowsRead {
                rows: 1,
                position: 9,
                dropped: 0,
            },
            Event::RowAdmitted(row),
            Event::RowResolved {
                row,
                resolution: Resolution::Failed(Reason::InvalidIp),
                origin: Origin::Called,
            },
            Event::InputEnded(InputEnd::Whole),
        ];
        assert!(
            replay(&events).check_invariants().is_err(),
            "resolved but not written"
        );
        events.push(Event::RowsWritten { rows: 1 });
        assert_eq!(replay(&events).check_invariants(), Ok(()));
        events.push(Event::RowsRead {
            rows: 1,
            position: 9,
            dropped: 0,
        });
        assert!(
            replay(&events).check_invariants().is_err(),
            "read but not admitted"
        );
        events.push(Event::CancelBegan(CancelReason::Interrupted));
        assert_eq!(
            replay(&events).check_invariants(),
            Ok(()),
            "a stopped run may leave rows"
        );
    }

    #[test]
    fn only_rows_with_a_verdict_count_as_paid_known_or_duplicate() {
        let resolved = |resolution, origin| Event::RowResolved {
            row: RowNumber::FIRST,
            resolution,
            origin,
        };
        let (scored, failed) = (
            Resolution::Scored(Some(Decision::Approve)),
            Resolution::Failed(Reason::Refused),
        );
        let origins = [Origin::Called, Origin::Ledger, Origin::Duplicate];
        let events = origins.map(|origin| [resolved(scored, origin), resolved(failed, origin)]);
        let stats = replay(events.as_flattened());
        assert_eq!((stats.paid, stats.known, stats.duplicates), (1, 1, 1));
        assert_eq!((stats.scored(), stats.failures()), (3, 3));
        assert_eq!(stats.newly_failed, [(Reason::Refused, 2)].into());
    }

    #[test]
    fn rows_from_the_ledger_before_the_first_call_are_told_apart() {
        let row = RowNumber::FIRST;
        let resolved = |origin| Event::RowResolved {
            row,
            resolution: Resolution::Scored(None),
            origin,
        };
        let mut events = vec![resolved(Origin::Ledger), resolved(Origin::Ledger)];
        assert_eq!(replay(&events).first_called, None);
        let call = Event::AttemptBegan { row, again: None };
        events.extend([call, resolved(Origin::Called), resolved(Origin::Ledger)]);
        let stats = replay(&events);
        assert_eq!(stats.first_resolved, Some(Duration::ZERO));
        assert_eq!(stats.first_called, Some((Duration::from_secs(3), 2)));
    }

    #[test]
    fn pauses_that_overlap_are_counted_once() {
        let pause = |length| {
            Event::CallsPaused(Pause {
                length: Duration::from_secs(length),
                asked: None,
            })
        };
        // Starts at 0 for 10 s, is extended at 1 s until 31 s, and is read at 100 s.
        let stats = replay(&[pause(10), pause(30)]);
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
