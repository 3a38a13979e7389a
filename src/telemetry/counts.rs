//! The only counters in the program, and the numbers derived from them: the money spent, how the run ended, and whether every
//! row is accounted for.
//!
//! [`Events`] takes the events of all stages, counts them in [`Counts`], and shows them to the observers, in the same order for
//! all. Progress lines, the summary, metrics, the exit code and the report of a run all read this one type, and its names are
//! the keys that programs read. Counting the events of a log again gives the same numbers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::event::{CancelReason, Event, FailureClass, InputEnd, Origin, PassedOver, RetryCause};
use super::pace::{Pace, Pause};
use crate::analysis::{CountedRows, DecisionCounts, Drift};
use crate::base::error::Exit;
use crate::base::money::{Money, Tariff};
use crate::base::numbers::{Tolerance, rounded, seconds};
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

    /// Records that `event` happened at `when`, for callers that have just read the clock. Events stay in the order in which
    /// they are emitted, but their times may step back a little.
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

/// Everything that was counted of a run.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Counts {
    /// Why the run stopped early.
    #[serde(rename = "stopped")]
    pub(crate) cancelled: Option<CancelReason>,
    /// The limit of the user's own that left no call, so that the run finished without calls.
    pub(crate) limited: Option<CancelReason>,
    /// Time since the start.
    #[serde(rename = "elapsed_seconds", with = "seconds")]
    pub(crate) elapsed: Duration,
    /// Average speed; `None` if no row is done.
    pub(crate) rows_per_second: Option<f64>,
    /// Rows by how far they are.
    pub(crate) rows: RowTotals,
    /// Rows with a verdict whose answer was in the ledger.
    pub(crate) known: u64,
    /// Rows with a verdict that reused the answer of an identical row.
    pub(crate) duplicates: u64,
    /// Rows that were read and are sent without an invalid phone number or email address.
    pub(crate) dropped: u64,
    /// Rows by decision.
    pub(crate) decisions: DecisionCounts,
    /// Rows with a verdict and no decision, as their level is in no list.
    pub(crate) undecided: CountedRows,
    /// Earlier decisions compared with those of this run; `None` if there were none.
    pub(crate) drift: Option<Drift>,
    /// Rows without a verdict.
    pub(crate) failed: FailedRows,
    /// Rows that passed without a call, as `--only` does not choose them.
    pub(crate) passed: u64,
    /// Calls by result.
    pub(crate) calls: Calls,
    /// The money spent and the cost of the verdicts, if the user gave a price.
    pub(crate) cost: Option<Cost>,
    /// Answers in the ledger that were damaged; their rows are sent again.
    pub(crate) ledger_answers_damaged: u64,
    /// Rows that are sent again as their answers are older than the run asks for.
    pub(crate) ledger_answers_too_old: u64,
    /// Answers that were used although they are older than 30 days.
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
    /// How fast calls may start, and the limits of the service that were found.
    pub(crate) pace: Option<Pace>,
    /// The state that is not in the JSON.
    #[serde(skip)]
    pub(crate) state: RunState,
}

/// The state of a run that is not in the JSON.
#[derive(Debug, Clone, Default)]
pub(crate) struct RunState {
    /// Rows that failed since this start of the run, by reason.
    pub(crate) newly_failed: BTreeMap<Reason, u64>,
    /// When the oldest of the aged answers arrived, in milliseconds since 1970.
    pub(crate) oldest_answer: Option<i64>,
    /// Verdicts that a call of this start brought.
    scored_now: u64,
    /// The cost of the other answers that were used, each counted once.
    paid_earlier: Money,
    /// How many of these have no price.
    unpriced: u64,
    /// How the input ended, once it has.
    pub(crate) input_end: Option<InputEnd>,
    /// Bytes of the source that were read for these rows; of several files, those of all files before are included.
    pub(crate) position: u64,
    /// The number of the file that is being read, of several; 0 for a run of one file.
    pub(crate) file: u64,
    /// Bytes of the files before it.
    before: u64,
    /// Files that an earlier run had finished, and in which some rows have no verdict.
    pub(crate) skipped_with_rejects: u64,
    /// Why a file could not be used, or not to its end, while the run continued: the reason with the highest exit code.
    pub(crate) file_failed: Option<CancelReason>,
    /// Whether the writer failed.
    pub(crate) output_failed: bool,
    /// The current or latest pause, and when it started.
    pause: Option<(Duration, Pause)>,
    /// The host whose answer led to it, and its status.
    pub(crate) paused_by: Box<str>,
    /// When the first call was sent.
    first_call: Option<Duration>,
    /// The outage that lasts, if the service is down.
    pub(crate) outage: Option<OngoingOutage>,
    /// Rows that wait because another run on the same ledger asks about the same users.
    pub(crate) taken: u64,
    /// SIGTERM or SIGHUP came: the process may soon be killed.
    pub(crate) terminated: bool,
    /// From when on rows count for the speed, and how many rows and calls came before: first from the first row, then from the
    /// first row after a call had started, because rows from the ledger fly by.
    pub(crate) speed_from: Option<(Duration, u64, u64)>,
}

/// Rows by how far they are.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct RowTotals {
    /// Rows that the reader handed on.
    pub(crate) read: u64,
    /// Rows that are done: with a verdict, without one, or passed.
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

/// The rows of a run, or of one of its files, by result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub(crate) struct RowCounts {
    /// Rows that are done: with a verdict, without one, or passed.
    pub(crate) resolved: u64,
    /// Rows by decision.
    #[serde(flatten)]
    pub(crate) decisions: DecisionCounts,
    /// Rows with a verdict and no decision.
    pub(crate) undecided: u64,
    /// Rows without a verdict.
    pub(crate) failed: u64,
    /// Rows that passed without a call.
    pub(crate) passed: u64,
}

impl RowCounts {
    /// Of the rows since `earlier`.
    pub(crate) const fn since(self, earlier: Self) -> Self {
        Self {
            resolved: self.resolved - earlier.resolved,
            decisions: self.decisions.since(earlier.decisions),
            undecided: self.undecided - earlier.undecided,
            failed: self.failed - earlier.failed,
            passed: self.passed - earlier.passed,
        }
    }
}

/// Rows without a verdict.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct FailedRows {
    /// How many.
    pub(crate) rows: u64,
    /// Why.
    pub(crate) reasons: BTreeMap<Reason, u64>,
}

/// Calls by result.
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
    /// Rows that an earlier start or another run had claimed, and left without an answer when it was killed.
    pub(crate) taken_over: u64,
    /// Rows that may be billed twice: those of the two numbers before.
    pub(crate) maybe_billed_twice: u64,
    /// Answers with the transaction id of a different user's earlier answer.
    pub(crate) repeated_transaction_ids: u64,
}

/// The money that a run has spent, and the cost of its verdicts.
///
/// Only the service knows its bill. *Spent* are the calls that it answered with success, with a usable verdict or not: all
/// of these are billed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Cost {
    /// What a call costs.
    #[serde(flatten)]
    pub(crate) tariff: Tariff,
    /// By this start, at this price.
    pub(crate) spent: Money,
    /// The cost of the verdicts in the output, each at the price that its run gave. Rows with equal requests share one.
    pub(crate) verdicts: Money,
    /// How many of their answers no run gave a price for.
    pub(crate) unpriced: u64,
}

/// What a budget leaves and what counts against it, in calls or in money.
#[derive(Debug)]
pub(crate) struct BudgetNumbers {
    /// Whose calls it counts, as a word: those of the `run`, or of all runs in a `day` or `month`.
    pub(crate) per: &'static str,
    /// Whether the numbers are money, and not calls.
    pub(crate) is_money: bool,
    /// What it leaves.
    pub(crate) left: f64,
    /// What counts against it.
    pub(crate) used: f64,
}

/// An outage that lasts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OngoingOutage {
    /// When it started.
    pub(crate) since: Duration,
    /// When the next probe may be sent.
    pub(crate) next: Duration,
    /// The host, and why its last call failed.
    pub(crate) why: Box<str>,
    /// When the run gives up.
    pub(crate) gives_up: Duration,
}

impl Counts {
    /// Of a run that could not start.
    pub(crate) fn not_started() -> Self {
        Self {
            cancelled: Some(CancelReason::NotStarted),
            ..Self::default()
        }
    }

    /// The counts to display after this time: with the numbers derived from them, and with pauses and outages up to then.
    pub(crate) fn as_of(&self, now: Duration, tariff: Option<&Tariff>) -> Self {
        let (seconds, resolved) = (now.as_secs_f64(), self.rows.resolved);
        let speed = (seconds > 0.0 && resolved > 0).then(|| resolved as f64 / seconds);
        let outage = self.state.outage.as_ref();
        let of_outage = outage.map(|outage| now.saturating_sub(outage.since));
        Self {
            elapsed: now,
            rows_per_second: speed.map(rounded),
            cost: tariff.map(|tariff| Cost::of(self, tariff)),
            paused: self.time_paused(now),
            down: self.down + of_outage.unwrap_or_default(),
            ..self.clone()
        }
    }

    /// Rows with a verdict.
    pub(crate) const fn scored(&self) -> u64 {
        self.decisions.rows()
    }

    /// Rows that `--only` chose and that are done.
    pub(crate) const fn chosen(&self) -> u64 {
        self.scored() + self.failed.rows
    }

    /// All rows up to now, by result.
    pub(crate) const fn of_rows(&self) -> RowCounts {
        RowCounts {
            resolved: self.rows.resolved,
            decisions: self.decisions,
            undecided: self.undecided.rows,
            failed: self.failed.rows,
            passed: self.passed,
        }
    }

    /// Time spent in pauses up to `now`.
    fn time_paused(&self, now: Duration) -> Duration {
        let current = self.state.pause.map_or(Duration::ZERO, |(started, pause)| {
            now.saturating_sub(started).min(pause.length)
        });
        self.paused + current
    }

    /// How much of the current pause is left at `now`, and the pause itself.
    pub(crate) fn pause_left(&self, now: Duration) -> Option<(Duration, Pause)> {
        let (started, pause) = self.state.pause?;
        let left = (started + pause.length).saturating_sub(now);
        (!left.is_zero()).then_some((left, pause))
    }

    /// For how long the first calls have been out, if none has ended.
    pub(crate) fn first_call_waits(&self, now: Duration) -> Option<Duration> {
        let began = self.state.first_call?;
        (self.calls.sent == self.calls.in_flight).then(|| now.saturating_sub(began))
    }

    /// Whether all rows that have come are done, and more may come.
    pub(crate) const fn waits_for_input(&self) -> bool {
        let all_are_done = self.rows.read > 0 && self.rows.read == self.rows.resolved;
        all_are_done && self.state.input_end.is_none()
    }

    /// Whether the output has all rows: the run was not stopped, and its input did not break.
    pub(crate) const fn has_all_rows(&self) -> bool {
        self.cancelled.is_none() && !matches!(self.state.input_end, Some(InputEnd::Broken))
    }

    /// Whether the output has every row that the run was to take, also if the run was stopped after the last one.
    pub(crate) const fn all_rows_are_written(&self) -> bool {
        matches!(self.state.input_end, Some(InputEnd::Whole | InputEnd::Part))
            && self.rows.unfinished == 0
            && self.rows.written == self.rows.resolved
    }

    /// How the run ended, for the exit code, unless failures are accepted.
    pub(crate) fn exit(&self) -> Exit {
        match self.cancelled.or(self.state.file_failed) {
            Some(reason) => reason.exit(),
            None if self.limited.is_some() => Exit::Limited,
            None if self.failed.rows + self.never_accepted() == 0 => Exit::Complete,
            None => Exit::SomeFailed,
        }
    }

    /// The limit of `--accept-failures`, if it turns the exit code into 0: some rows failed, but no more than that.
    pub(crate) fn accepted(&self, most: Option<Tolerance>) -> Option<Tolerance> {
        let has_failed = self.exit() == Exit::SomeFailed && self.never_accepted() == 0;
        most.filter(|most| has_failed && most.covers(self.failed.rows, self.chosen()))
    }

    /// Rows without a decision, because then a list of levels is incomplete; and files that an earlier run finished with failures,
    /// because the number of those is not known.
    const fn never_accepted(&self) -> u64 {
        self.undecided.rows + self.state.skipped_with_rejects
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
            Event::CallBegan { again, .. } => {
                self.state.first_call.get_or_insert(at);
                self.calls.began(*again);
            }
            Event::CallAnswered(_) => {
                self.calls.in_flight = self.calls.in_flight.saturating_sub(1);
                self.calls.answered += 1;
            }
            Event::CallFailed { class, call, .. } => {
                self.calls.failed(*class);
                // Proxies answer so to calls beyond a limit, and also while the service is down.
                let is_bare_503 = call.status == Some(503) && self.state.outage.is_none();
                self.calls.throttled += u64::from(is_bare_503);
            }
            Event::CallAbandoned { .. } => self.calls.failed(FailureClass::OutcomeUnknown),
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
                // A row for which no call was left says nothing about the service or the data.
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

    /// Checks that every row that was read is accounted for.
    ///
    /// # Errors
    /// The numbers that do not add up, which is always a bug.
    pub(crate) fn check_invariants(&self) -> Result<(), String> {
        let rows = &self.rows;
        let resolved = self.chosen() + self.passed;
        let is_whole =
            rows.read == rows.admitted && rows.unfinished == 0 && self.state.input_end.is_some();
        let adds_up = resolved == rows.resolved
            && rows.admitted == resolved + rows.unfinished
            && rows.written <= resolved
            && (rows.written == resolved || self.state.output_failed)
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
    /// Calls that the service answered with success, and so billed.
    pub(crate) const fn billed(&self) -> u64 {
        self.answered + self.billed_without_verdict
    }

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

impl Cost {
    fn of(counts: &Counts, tariff: &Tariff) -> Self {
        let (price, calls) = (tariff.price, &counts.calls);
        Self {
            tariff: tariff.clone(),
            spent: price.of(calls.billed()),
            verdicts: price.of(counts.state.scored_now) + counts.state.paid_earlier,
            unpriced: counts.state.unpriced,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::event::{AfterCallKind, CallEnd};

    #[test]
    fn calls_that_may_have_been_billed_are_not_called_spent() {
        let mut counts = Counts::default();
        let calls = &mut counts.calls;
        (calls.answered, calls.billed_without_verdict) = (2_990, 10);
        (calls.unknown_outcome, calls.unclear) = (2, 1);
        // The rest was not processed.
        (calls.sent, calls.throttled, calls.sent_before) = (4_000, 50, 500);
        (counts.state.scored_now, counts.state.unpriced) = (2_980, 3);
        counts.state.paid_earlier = "3.5".parse().unwrap();
        let tariff = Tariff {
            price: "0.004".parse().unwrap(),
            currency: "EUR".parse().ok(),
        };
        let cost = Cost::of(&counts, &tariff);
        let json = r#"{"price":0.004,"currency":"EUR","spent":12.0,"verdicts":15.42,"unpriced":3}"#;
        assert_eq!(serde_json::to_string(&cost).unwrap(), json);
        let read: Cost = serde_json::from_str(json).unwrap();
        assert_eq!(read.tariff.display(read.verdicts), "15.42 EUR");
    }

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
        let failed = Event::CallFailed {
            call,
            reason: Reason::ServerError,
            class: FailureClass::Unclear,
            next: AfterCallKind::Again(Duration::ZERO),
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
        let call = Event::CallBegan {
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
