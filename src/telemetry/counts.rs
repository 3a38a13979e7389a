//! The only counters in the program, and what follows from them.
//!
//! [`Counts::apply`] is the only place that counts; replaying the events gives the same numbers. Progress lines, the summary,
//! metrics, the exit code and the report of a run all read this one type, and its names are the keys that programs read. What
//! is behind `serde(skip)` is the state of a run that lasts.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::event::{Again, CancelReason, Event, FailureClass, InputEnd, Origin, PassedOver};
use super::pace::{Pace, Pause};
use crate::analysis::CountedRows;
use crate::base::error::Exit;
use crate::base::money::{Money, Tariff};
use crate::base::numbers::Tolerance;
use crate::base::numbers::{rounded, seconds};
use crate::drift::{DecisionCounts, Drift};
use crate::row::RowNumber;
use crate::verdict::{Reason, Resolution};

/// Everything that was counted of a run.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Counts {
    /// Why the run stopped early.
    #[serde(rename = "stopped")]
    pub(crate) cancelled: Option<CancelReason>,
    /// Time since the start.
    #[serde(rename = "elapsed_seconds", with = "seconds")]
    pub(crate) elapsed: Duration,
    /// Average speed; `None` if no row is done.
    pub(crate) rows_per_second: Option<f64>,
    /// Rows by how far they are.
    pub(crate) rows: RowTotals,
    /// Of the rows with a verdict, those whose answer was in the ledger.
    pub(crate) known: u64,
    /// Of the rows with a verdict, those that reused the answer of an identical row.
    pub(crate) duplicates: u64,
    /// Rows that were read and are asked for without a phone number or an email address that is invalid.
    pub(crate) dropped: u64,
    /// Rows by decision.
    pub(crate) decisions: DecisionCounts,
    /// Rows with a verdict and no decision, as their level is in no list.
    pub(crate) undecided: CountedRows,
    /// Earlier decisions compared with those of this run; `None` if there were none.
    pub(crate) drift: Option<Drift>,
    /// Rows without a verdict.
    pub(crate) failed: Failed,
    /// Calls by what became of them.
    pub(crate) calls: Calls,
    /// What was spent and saved, if the user gave a price.
    pub(crate) cost: Option<Cost>,
    /// Answers in the ledger that were damaged; their rows are sent again.
    pub(crate) ledger_answers_damaged: u64,
    /// Rows that are sent again as their answers are older than the run asks for.
    pub(crate) ledger_answers_too_old: u64,
    /// Answers that were used and are so old that people should know.
    pub(crate) ledger_answers_aged: u64,
    /// Rows that are sent again as they have failed before.
    pub(crate) ledger_failures_retried: u64,
    /// How often a new API key was read from its file.
    pub(crate) keys_renewed: u64,
    /// Time spent in pauses, and in apparent outages that were then put down to the rows; while a run lasts, without the
    /// current one.
    #[serde(rename = "paused_seconds", with = "seconds")]
    pub(crate) paused: Duration,
    /// How often the service was down.
    pub(crate) outages: u64,
    /// How long the service was down; while a run lasts, without an outage that lasts.
    #[serde(rename = "down_seconds", with = "seconds")]
    pub(crate) down: Duration,
    /// How fast calls may go, and the limits of the service that were found.
    pub(crate) pace: Option<Pace>,
    /// Of the failed rows, those that failed since this start of the run.
    #[serde(skip)]
    pub(crate) newly_failed: BTreeMap<Reason, u64>,
    /// When the oldest of the aged answers arrived, in milliseconds since 1970.
    #[serde(skip)]
    pub(crate) oldest_answer: Option<i64>,
    /// What was read, once no more rows come.
    #[serde(skip)]
    pub(crate) input_end: Option<InputEnd>,
    /// Bytes of the source that were read for these rows; of several files, those of all files before are included.
    #[serde(skip)]
    pub(crate) position: u64,
    /// The number of the file whose rows come, of several; 0 for a run of one file.
    #[serde(skip)]
    pub(crate) file: u64,
    /// Bytes of the files before it.
    #[serde(skip)]
    before: u64,
    /// Files that an earlier run had finished, and in which some rows have no verdict.
    #[serde(skip)]
    pub(crate) skipped_with_rejects: u64,
    /// Why a file could not be used, or not to its end, while the run continued: the reason with the highest exit code.
    #[serde(skip)]
    pub(crate) file_failed: Option<CancelReason>,
    /// Whether the writer failed.
    #[serde(skip)]
    pub(crate) output_failed: bool,
    /// The current or latest pause, and when it started.
    #[serde(skip)]
    pause: Option<(Duration, Pause)>,
    /// The outage that lasts, if the service is down.
    #[serde(skip)]
    pub(crate) outage: Option<OngoingOutage>,
    /// Rows that wait because another run on the same ledger asks about the same users.
    #[serde(skip)]
    pub(crate) taken: u64,
    /// SIGTERM or SIGHUP came: the sender does not wait for long.
    #[serde(skip)]
    pub(crate) terminated: bool,
    /// Where the rows start that say something about the speed, and how many rows and calls were before: at the first one,
    /// and later at the first one after a call had started, as rows from the ledger fly by.
    #[serde(skip)]
    pub(crate) speed_from: Option<(Duration, u64, u64)>,
}

/// Rows by how far they are.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct RowTotals {
    /// Rows that the reader handed on.
    pub(crate) read: u64,
    /// Rows that are done, with a verdict or without.
    pub(crate) resolved: u64,
    /// Rows in the output.
    pub(crate) written: u64,
    /// Rows that were read and are not done.
    pub(crate) left: u64,
    /// Rows that entered the window.
    #[serde(skip)]
    pub(crate) admitted: u64,
    /// Of these, rows that were left for a later run.
    #[serde(skip)]
    pub(crate) unfinished: u64,
}

/// What became of some of a run's rows, such as those of one of its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub(crate) struct RowCounts {
    /// Rows that are done, with a verdict or without.
    pub(crate) resolved: u64,
    /// Rows by decision.
    #[serde(flatten)]
    pub(crate) decisions: DecisionCounts,
    /// Rows with a verdict and no decision.
    pub(crate) undecided: u64,
    /// Rows without a verdict.
    pub(crate) failed: u64,
}

impl RowCounts {
    /// Of the rows since `earlier`.
    pub(crate) const fn since(self, earlier: Self) -> Self {
        Self {
            resolved: self.resolved - earlier.resolved,
            decisions: self.decisions.since(earlier.decisions),
            undecided: self.undecided - earlier.undecided,
            failed: self.failed - earlier.failed,
        }
    }
}

/// Rows without a verdict.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Failed {
    /// How many.
    pub(crate) rows: u64,
    /// Why.
    pub(crate) reasons: BTreeMap<Reason, u64>,
}

/// Calls by what became of them.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Calls {
    /// Calls of this start.
    pub(crate) sent: u64,
    /// Calls of the run's earlier starts.
    pub(crate) sent_before: u64,
    /// Calls that are in flight.
    pub(crate) in_flight: u64,
    /// Calls that brought a verdict.
    pub(crate) answered: u64,
    /// Calls that retry a failed one of the same row.
    pub(crate) retries: u64,
    /// Calls to which the service answered by asking for fewer calls.
    pub(crate) throttled: u64,
    /// Calls that may have been billed although no answer came back, retried or not.
    pub(crate) unknown_outcome: u64,
    /// Calls that the service failed, perhaps after its work was done.
    pub(crate) unclear: u64,
    /// Calls that were billed without a usable verdict.
    pub(crate) billed_without_verdict: u64,
    /// Paid answers that may not be on disk; their rows are left for a later run.
    pub(crate) lost: u64,
    /// Calls that retry one that may have been billed.
    pub(crate) resent: u64,
    /// Rows that another run was about to ask about, or had asked about without an answer.
    pub(crate) taken_over: u64,
    /// Calls of earlier starts, which were killed, whose answers are lost: so many at most.
    pub(crate) lost_in_kills: u64,
    /// Rows that may be billed twice: those of the three numbers before, as far as this start has sent any.
    pub(crate) maybe_billed_twice: u64,
    /// Answers with the transaction id of a different user's earlier answer.
    pub(crate) repeated_transaction_ids: u64,
}

/// What a run has spent and saved, by the price of a call that the user gave.
///
/// Only the service knows its bill. *Spent* are the calls that it answered with success, with a usable verdict or not: all
/// of these are billed. *At most* are also the calls that may have been billed: without an answer, failed by the service for
/// no clear reason, still out, or lost when an earlier start was killed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Cost {
    /// Of a call.
    pub(crate) price: Money,
    /// Which is only shown.
    pub(crate) currency: Option<String>,
    /// By this start.
    pub(crate) spent: Money,
    /// By this start, at most.
    pub(crate) spent_at_most: Money,
    /// By this start and the earlier ones of the same run, if all their calls were billed.
    pub(crate) all_starts_at_most: Money,
    /// For rows whose answer was in the ledger.
    pub(crate) paid_earlier: Money,
    /// For rows that repeat another one.
    pub(crate) saved: Money,
}

/// An outage that lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OngoingOutage {
    /// When it started.
    pub(crate) since: Duration,
    /// When the next single call may be made.
    pub(crate) next: Duration,
}

impl Counts {
    /// Of a run that could not start.
    pub(crate) fn not_started() -> Self {
        Self {
            cancelled: Some(CancelReason::NotStarted),
            ..Self::default()
        }
    }

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
                self.dropped += dropped;
                self.rows.left += rows;
                self.position = self.before + *position;
            }
            Event::FileStarted { file, before } => self.file_started(*file, *before),
            Event::FileSkipped { has_rejects } => {
                self.skipped_with_rejects += u64::from(*has_rejects);
            }
            Event::EarlierStarts { calls, lost } => {
                self.calls.sent_before = *calls;
                self.calls.lost_in_kills = *lost;
            }
            Event::FileFailed(reason) => self.file_failed(*reason),
            Event::InputEnded(end) => self.input_end = Some(*end),
            Event::RowAdmitted(_) => self.rows.admitted += 1,
            Event::RowsTaken { rows } => self.taken = *rows,
            Event::AttemptBegan { again, .. } => self.calls.began(*again),
            Event::AttemptAnswered(_) => {
                self.calls.ended();
                self.calls.answered += 1;
            }
            Event::AttemptFailed { class, .. } => self.calls.failed(*class),
            Event::AttemptAbandoned { .. } => self.calls.failed(FailureClass::OutcomeUnknown),
            Event::Throttled { .. } => {
                self.calls.ended();
                self.calls.throttled += 1;
            }
            Event::CallsPaused(pause) => {
                self.paused = self.time_paused(at);
                self.pause = Some((at, *pause));
            }
            Event::AnswerLost(_) => self.calls.lost += 1,
            Event::TransactionRepeated { .. } => self.calls.repeated_transaction_ids += 1,
            Event::ServiceDown { lasted, next, .. } => self.service_down(at, *lasted, *next),
            Event::ServiceUp { lasted } => {
                self.outage = None;
                self.down += *lasted;
            }
            Event::OutageDismissed { lasted } => {
                self.outage = None;
                self.outages = self.outages.saturating_sub(1);
                self.paused += *lasted;
            }
            Event::PaceChanged(change) => self.pace = Some(change.pace.rounded()),
            Event::KeyRenewed => self.keys_renewed += 1,
            Event::DecisionsCompared(drift) if drift.compared > 0 => {
                self.drift.get_or_insert_default().add(drift);
            }
            Event::ManyRefused { .. }
            | Event::ScoreBelowZero { .. }
            | Event::FieldsAbsent { .. }
            | Event::DecisionsCompared(_) => {}
            Event::AgedAnswerUsed { at } => {
                self.ledger_answers_aged += 1;
                self.oldest_answer = Some(self.oldest_answer.map_or(*at, |oldest| oldest.min(*at)));
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
            Event::RowLeft(_) => self.rows.unfinished += 1,
            Event::RowsWritten { rows } => self.rows.written += rows,
            Event::OutputFailed => self.output_failed = true,
            Event::DrainBegan { reason, .. } => self.terminated |= reason.hurries(),
            Event::CancelBegan(reason) => self.stopping(*reason),
        }
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

    fn service_down(&mut self, at: Duration, lasted: Duration, next: Duration) {
        self.outages += u64::from(self.outage.is_none());
        self.outage = Some(OngoingOutage {
            since: at.saturating_sub(lasted),
            next: at + next,
        });
    }

    fn row_resolved(
        &mut self,
        at: Duration,
        row: RowNumber,
        resolution: Resolution,
        origin: Origin,
    ) {
        let (resolved, sent) = (self.rows.resolved, self.calls.sent);
        if !matches!(self.speed_from, Some((_, _, before)) if before > 0 || sent == 0) {
            self.speed_from = Some((at, resolved, sent));
        }
        self.rows.resolved += 1;
        self.rows.left = self.rows.left.saturating_sub(1);
        let scored = u64::from(matches!(resolution, Resolution::Scored(_)));
        match origin {
            Origin::Called => {}
            Origin::Ledger => self.known += scored,
            Origin::Duplicate => self.duplicates += scored,
        }
        match resolution {
            Resolution::Scored(decision) => {
                self.decisions.count(decision);
                if decision.is_none() {
                    self.undecided.count(row);
                }
            }
            Resolution::Failed(reason) => {
                self.failed.rows += 1;
                *self.failed.reasons.entry(reason).or_default() += 1;
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

    /// The counts as they are shown after this time: with what follows from them, and with pauses and outages up to then.
    pub(crate) fn as_of(&self, now: Duration, tariff: Option<&Tariff>) -> Self {
        let (seconds, resolved) = (now.as_secs_f64(), self.rows.resolved);
        #[allow(clippy::cast_precision_loss, reason = "shown with three digits")]
        let speed = (seconds > 0.0 && resolved > 0).then(|| resolved as f64 / seconds);
        let of_outage = { self.outage }.map(|outage| now.saturating_sub(outage.since));
        Self {
            elapsed: now,
            rows_per_second: speed.map(rounded),
            cost: tariff.map(|tariff| Cost::of(self, tariff)),
            paused: self.time_paused(now),
            pause: None,
            down: self.down + of_outage.unwrap_or_default(),
            outage: None,
            ..self.clone()
        }
    }

    /// Rows with a verdict.
    pub(crate) const fn scored(&self) -> u64 {
        self.decisions.rows()
    }

    /// What became of all rows up to now.
    pub(crate) const fn of_rows(&self) -> RowCounts {
        RowCounts {
            resolved: self.rows.resolved,
            decisions: self.decisions,
            undecided: self.undecided.rows,
            failed: self.failed.rows,
        }
    }

    /// Time spent in pauses up to `now`.
    fn time_paused(&self, now: Duration) -> Duration {
        let current = self.pause.map_or(Duration::ZERO, |(started, pause)| {
            now.saturating_sub(started).min(pause.length)
        });
        self.paused + current
    }

    /// How much of the current pause is left at `now`, and the pause itself.
    pub(crate) fn pause_left(&self, now: Duration) -> Option<(Duration, Pause)> {
        let (started, pause) = self.pause?;
        let left = (started + pause.length).saturating_sub(now);
        (!left.is_zero()).then_some((left, pause))
    }

    /// Whether the output has all rows that it is to have: neither was the run stopped, nor did its input break.
    pub(crate) const fn has_all_rows(&self) -> bool {
        self.cancelled.is_none() && !matches!(self.input_end, Some(InputEnd::Broken))
    }

    /// Whether the output has every row that the run was to take, also if the run was stopped after the last one.
    pub(crate) const fn all_rows_are_written(&self) -> bool {
        matches!(self.input_end, Some(InputEnd::Whole | InputEnd::Part))
            && self.rows.unfinished == 0
            && self.rows.written == self.rows.resolved
    }

    /// Whether the run has reached the end of its input, apart from files that it could not use.
    pub(crate) const fn has_all_usable_rows(&self) -> bool {
        self.cancelled.is_none() && !matches!(self.input_end, Some(InputEnd::Part))
    }

    /// How the run ended, for the exit code, unless failures are accepted.
    pub(crate) fn exit(&self) -> Exit {
        let all_decided = self.failed.rows == 0 && self.undecided.rows == 0;
        match self.cancelled.or(self.file_failed) {
            None if all_decided && self.skipped_are_decided() => Exit::Complete,
            None => Exit::SomeFailed,
            Some(reason) => reason.exit(),
        }
    }

    /// What `--accept-failures` accepts of the run, so that it ends with exit code 0: `None` if it was stopped, no row failed,
    /// or more rows failed.
    ///
    /// Rows without a decision are never accepted: it is a list of levels that lacks one, and not the rows. Nor are those of
    /// files that an earlier run has finished: nobody has counted them.
    pub(crate) fn accepted(&self, most: Option<Tolerance>) -> Option<Tolerance> {
        let has_failed = self.exit() == Exit::SomeFailed
            && self.undecided.rows == 0
            && self.skipped_are_decided();
        most.filter(|most| has_failed && most.covers(self.failed.rows, self.rows.resolved))
    }

    /// How the process exits, if so many rows may fail.
    pub(crate) fn exit_accepting(&self, most: Option<Tolerance>) -> Exit {
        { self.accepted(most) }.map_or_else(|| self.exit(), |_| Exit::Complete)
    }

    /// Whether every row has a verdict and a decision in the files that an earlier run has finished.
    pub(crate) const fn skipped_are_decided(&self) -> bool {
        self.skipped_with_rejects == 0
    }

    /// Checks that every row that was read is accounted for.
    ///
    /// # Errors
    /// The numbers that do not add up, which is always a bug.
    pub(crate) fn check_invariants(&self) -> Result<(), String> {
        let rows = &self.rows;
        let resolved = self.scored() + self.failed.rows;
        let is_whole =
            rows.read == rows.admitted && rows.unfinished == 0 && self.input_end.is_some();
        let adds_up = resolved == rows.resolved
            && rows.admitted == resolved + rows.unfinished
            && rows.written <= resolved
            && (rows.written == resolved || self.output_failed)
            && rows.read >= rows.admitted
            && (is_whole || self.cancelled.is_some())
            && self.calls.in_flight == 0;
        if adds_up {
            return Ok(());
        }
        Err(format!(
            "rows do not add up: {} read, {} admitted, {resolved} resolved, {} left, {} written, {} calls in flight",
            rows.read, rows.admitted, rows.unfinished, rows.written, self.calls.in_flight
        ))
    }
}

impl Calls {
    fn began(&mut self, again: Option<Again>) {
        self.sent += 1;
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
        self.maybe_billed_twice = self.resent + self.taken_over + self.repeats_of_killed_starts();
    }

    const fn ended(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    fn failed(&mut self, class: FailureClass) {
        self.ended();
        match class {
            FailureClass::NotProcessed | FailureClass::RowRefused | FailureClass::RunRefused => {}
            FailureClass::OutcomeUnknown => self.unknown_outcome += 1,
            FailureClass::Unclear => self.unclear += 1,
            FailureClass::Useless => self.billed_without_verdict += 1,
        }
    }

    /// Rows that an earlier start may have asked about when it was killed, at most: it cannot be told which they are.
    pub(crate) fn repeats_of_killed_starts(&self) -> u64 {
        self.lost_in_kills.min(self.sent)
    }

    /// Calls of all starts of the run.
    pub(crate) const fn of_all_starts(&self) -> u64 {
        self.sent_before + self.sent
    }

    /// Calls that the service answered with success, and so billed.
    pub(crate) const fn billed(&self) -> u64 {
        self.answered + self.billed_without_verdict
    }

    /// Further calls that the service may have billed, or may still bill, with those of an earlier start that was killed and
    /// counted none.
    pub(crate) fn maybe_billed(&self) -> u64 {
        self.unknown_outcome + self.unclear + self.in_flight + self.repeats_of_killed_starts()
    }
}

impl Cost {
    fn of(counts: &Counts, tariff: &Tariff) -> Self {
        let (price, calls) = (tariff.price, &counts.calls);
        Self {
            price: price.of(1),
            currency: { tariff.currency.as_ref() }.map(|currency| currency.as_str().to_owned()),
            spent: price.of(calls.billed()),
            spent_at_most: price.of(calls.billed() + calls.maybe_billed()),
            all_starts_at_most: price.of(calls.of_all_starts()),
            paid_earlier: price.of(counts.known),
            saved: price.of(counts.duplicates),
        }
    }

    /// The amount with the currency, if it has one: `1,234.50 EUR`.
    pub(crate) fn shown(&self, amount: Money) -> String {
        match &self.currency {
            Some(currency) => format!("{amount} {currency}"),
            None => amount.to_string(),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::verdict::Decision;

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
        let origins = [Origin::Called, Origin::Ledger, Origin::Duplicate];
        let events = origins.map(|origin| [resolved(scored, origin), resolved(failed, origin)]);
        let counts = replay(events.as_flattened());
        assert_eq!((counts.known, counts.duplicates), (1, 1));
        assert_eq!((counts.scored(), counts.failed.rows), (3, 3));
        assert_eq!(counts.newly_failed, [(Reason::Refused, 2)].into());
    }

    #[test]
    fn rows_from_the_ledger_before_the_first_call_are_told_apart() {
        let of = |origin| resolved(Resolution::Scored(None), origin);
        let mut events = vec![of(Origin::Ledger), of(Origin::Ledger)];
        let from = |events: &[Event]| replay(events).speed_from;
        assert_eq!(from(&events), Some((Duration::ZERO, 0, 0)));
        let call = Event::AttemptBegan {
            row: ROW,
            again: None,
        };
        events.extend([call, of(Origin::Called), of(Origin::Ledger)]);
        assert_eq!(from(&events), Some((Duration::from_secs(3), 2, 1)));
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
        let counts = replay(&[pause(10), pause(30)]);
        let paused = counts.as_of(Duration::from_secs(100), None).paused;
        assert_eq!(paused, Duration::from_secs(31));
        let left = counts.pause_left(Duration::from_secs(11));
        assert_eq!(left.map(|(left, _)| left.as_secs()), Some(20));
    }

    #[test]
    fn calls_that_may_have_been_billed_are_not_called_spent_and_not_kept_quiet() {
        let mut counts = Counts::default();
        let calls = &mut counts.calls;
        (calls.answered, calls.billed_without_verdict) = (2_990, 10);
        (calls.unknown_outcome, calls.unclear) = (2, 1);
        // The rest was not processed.
        (calls.sent, calls.throttled, calls.sent_before) = (4_000, 50, 500);
        (counts.known, counts.duplicates) = (900, 100);
        let tariff = Tariff {
            price: "0.004".parse().unwrap(),
            currency: "EUR".parse().ok(),
        };
        let cost = Cost::of(&counts, &tariff);
        let json = r#"{"price":0.004,"currency":"EUR","spent":12.0,"spent_at_most":12.012,"all_starts_at_most":18.0,"paid_earlier":3.6,"saved":0.4}"#;
        assert_eq!(serde_json::to_string(&cost).unwrap(), json);
        let read: Cost = serde_json::from_str(json).unwrap();
        assert_eq!(read.shown(read.spent_at_most), "12.012 EUR");
    }
}
