//! Rows on their way: waiting for the window, in it, ready to be written.
//!
//! Here it is decided whether a row costs a call: not when it can ask nothing, when the ledger knows the answer, or
//! when an equal request is out already. Nothing here waits.

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;
use tokio::time::Instant;

use super::{Stop, WRITE_DELAY, WRITE_ROWS, Window};
use crate::ledger::{AnsweredIn, KnownOutcome, LedgerWriter, LookupResult, RequestKey};
use crate::output::Finished;
use crate::row::{Row, RowNumber};
use crate::scorer::{Fate, Scorer};
use crate::telemetry::event::{CancelReason, Event, Origin};
use crate::verdict::{Failure, Score, Verdict};

/// Some rows in order, with what is asked about each.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// The rows.
    pub rows: Vec<Ask>,
    /// How many bytes of the source are used up with them; for progress by bytes.
    pub(crate) position: u64,
    /// Blank lines after the last row; empty but in the last batch.
    pub trailer: Bytes,
}

/// A row and what is asked about it, or why nothing can be.
#[derive(Debug)]
pub(crate) struct Ask {
    /// The row.
    pub(crate) row: Row,
    /// The request, or the rule that the row breaks.
    pub(crate) request: Result<Request, Failure>,
}

/// What is asked about a user.
#[derive(Debug)]
pub(crate) struct Request {
    /// What is sent.
    pub(crate) body: Bytes,
    /// Names the request: rows with the same key are asked once. `None` where each is asked and nothing is kept.
    pub(crate) key: Option<RequestKey>,
    /// What the ledger had when the row was read.
    pub(crate) found: LookupResult,
}

/// A row whose call begins.
pub(super) struct Start {
    pub(super) number: RowNumber,
    pub(super) body: Bytes,
    pub(super) key: Option<RequestKey>,
}

/// A row before the window.
struct Waiting {
    row: Row,
    request: Result<Request, Failure>,
    /// Where an answer that was found comes from.
    origin: Origin,
    /// When the ledger was asked again, as the row's turn came.
    looked: Option<Moment>,
}

/// Between two of these nobody waits for anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Moment(u64);

/// What a row at the window's door needs.
enum Needs {
    Call,
    /// Nothing: its fate is known.
    Nothing,
    /// The answer to an equal request that is out.
    SameAnswer,
}

pub(super) struct Rows<'a, S> {
    window: Window,
    scorer: &'a Scorer<S>,
    /// Read but not admitted.
    waiting: VecDeque<Waiting>,
    /// Admitted, in input order; the first has the number `first`.
    admitted: VecDeque<Slot>,
    first: RowNumber,
    /// Requests that are out, with the rows that wait for the same answer.
    asking: HashMap<RequestKey, Vec<RowNumber>>,
    /// Of what is admitted or ready.
    bytes: usize,
    ready: Vec<Finished>,
    ready_bytes: usize,
    now: Moment,
    /// The clock, as it was then: to read it for each event would cost more than to count it.
    time: Instant,
    write_at: Instant,
    overdue: bool,
    trailer: Bytes,
    /// Why the run must stop, found while rows were admitted or settled.
    stop: Option<Stop>,
}

struct Slot {
    row: Row,
    /// What it counts for in the window.
    bytes: usize,
    /// What is out for it.
    key: Option<RequestKey>,
    /// How the user was judged before this run.
    old: Option<Score>,
    state: State,
}

enum State {
    Scoring,
    Resolved(Verdict),
    Left,
}

impl<'a, S> Rows<'a, S> {
    pub(super) fn new(window: Window, scorer: &'a Scorer<S>) -> Self {
        Self {
            window,
            scorer,
            waiting: VecDeque::new(),
            admitted: VecDeque::new(),
            first: RowNumber::FIRST,
            asking: HashMap::new(),
            bytes: 0,
            ready: Vec::new(),
            ready_bytes: 0,
            now: Moment::default(),
            time: Instant::now(),
            write_at: Instant::now(),
            overdue: false,
            trailer: Bytes::new(),
            stop: None,
        }
    }

    fn window_has_room(&self) -> bool {
        self.admitted.len() + self.ready.len() < self.window.rows && self.bytes < self.window.bytes
    }

    pub(super) fn wants_rows(&self) -> bool {
        self.waiting.is_empty() && self.window_has_room()
    }

    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(super) fn receive(&mut self, batch: Batch) {
        self.time_passed();
        self.emit(Event::RowsRead {
            rows: batch.rows.len() as u64,
            position: batch.position,
        });
        let waiting = batch.rows.into_iter().map(|Ask { row, request }| Waiting {
            row,
            request,
            origin: Origin::Ledger,
            looked: None,
        });
        self.waiting.extend(waiting);
        self.trailer = batch.trailer;
    }

    /// Lets rows through that cost no call; whether the next one waits for a permit.
    pub(super) fn wants_permit(&mut self) -> bool {
        while self.stop.is_none() && self.window_has_room() {
            let Some(next) = self.waiting.front_mut() else {
                return false;
            };
            let needs = match next.needs(&self.asking, self.scorer.keeper.as_ref(), self.now) {
                Ok(Needs::Call) => return true,
                Ok(needs) => needs,
                Err(error) => {
                    self.stop = Some(Stop {
                        reason: CancelReason::Ledger,
                        error: Some(error),
                    });
                    return false;
                }
            };
            let Some((number, origin, request)) = self.admit() else {
                return false;
            };
            match (needs, request) {
                (_, Err(failure)) => {
                    self.settle(number, Some(Verdict::Failed(failure)), Origin::Called);
                }
                (Needs::SameAnswer, Ok(Request { key: Some(key), .. })) => {
                    self.asking.entry(key).or_default().push(number);
                }
                (_, Ok(Request { found, .. })) => {
                    let verdict = found.known.map(|known| match known {
                        KnownOutcome::Answer(answer) => {
                            self.scorer.fuse.borrow_mut().worked_before();
                            let decision = self.scorer.policy.decide(&answer.score);
                            Verdict::Scored(answer, decision)
                        }
                        KnownOutcome::Failure(failure) => Verdict::Failed(failure),
                    });
                    if verdict.is_some() {
                        self.settle(number, verdict, origin);
                    }
                }
            }
        }
        false
    }

    /// Something was waited for, and others may have been at the ledger meanwhile.
    pub(super) fn time_passed(&mut self) {
        self.now.0 += 1;
        self.time = Instant::now();
    }

    /// As [`Self::wants_permit`] for a row whose permit is in hand now: it may have waited for that since it was looked up.
    pub(super) fn still_wants_permit(&mut self) -> bool {
        let shared = self
            .scorer
            .keeper
            .as_ref()
            .is_some_and(LedgerWriter::is_shared);
        if let (true, Some(next)) = (shared, self.waiting.front_mut()) {
            next.looked = next.looked.filter(|looked| *looked == self.now);
        }
        self.wants_permit()
    }

    /// Admits the row that waits for a permit.
    pub(super) fn start(&mut self) -> Option<Start> {
        let (number, _, request) = self.admit()?;
        let Request { body, key, .. } = request.ok()?;
        if let (Some(key), Some(slot)) = (key, self.admitted.back_mut()) {
            self.asking.insert(key, Vec::new());
            slot.key = Some(key);
        }
        Some(Start { number, body, key })
    }

    fn admit(&mut self) -> Option<(RowNumber, Origin, Result<Request, Failure>)> {
        let Waiting {
            row,
            mut request,
            origin,
            ..
        } = self.waiting.pop_front()?;
        let number = row.number;
        self.emit(Event::RowAdmitted(number));
        let body = request.as_ref().map_or(0, |request| request.body.len());
        let bytes = row.raw.len() + body;
        self.bytes += bytes;
        let old = match &mut request {
            Ok(request) => {
                if let Some(why) = request.found.unusable {
                    self.emit(Event::AnswerUnusable { row: number, why });
                }
                request.found.old.take()
            }
            Err(_) => None,
        };
        self.admitted.push_back(Slot {
            row,
            bytes,
            key: None,
            old,
            state: State::Scoring,
        });
        Some((number, origin, request))
    }

    pub(super) fn resolve(&mut self, number: RowNumber, fate: Fate) -> Option<Stop> {
        let key = self.slot(number).and_then(|slot| slot.key.take());
        let same = key.and_then(|key| self.asking.remove(&key));
        for number in same.unwrap_or_default() {
            self.settle(number, fate.verdict.clone(), Origin::Duplicate);
        }
        self.settle(number, fate.verdict, Origin::Called);
        fate.stop.map(|(reason, error)| Stop {
            reason,
            error: Some(error),
        })
    }

    fn slot(&mut self, number: RowNumber) -> Option<&mut Slot> {
        let place = number.get().checked_sub(self.first.get())?;
        self.admitted.get_mut(usize::try_from(place).ok()?)
    }

    fn settle(&mut self, number: RowNumber, verdict: Option<Verdict>, origin: Origin) {
        let (events, now) = (self.scorer.events.clone(), self.time);
        if let Some(slot) = self.slot(number) {
            if let Some(verdict) = verdict {
                let resolved = Event::RowResolved {
                    row: number,
                    resolution: verdict.outline(),
                    origin,
                };
                events.emit_at(now, resolved);
                // What was captured of an answer can be larger than the row.
                let more = verdict.bytes();
                slot.bytes += more;
                let failed = matches!(verdict, Verdict::Failed(_));
                slot.state = State::Resolved(verdict);
                self.bytes += more;
                if failed && self.stop.is_none() {
                    self.stop = self.too_many_failures();
                }
            } else {
                events.emit_at(now, Event::RowLeft(number));
                slot.state = State::Left;
            }
        }
        self.advance(WRITE_ROWS);
    }

    fn too_many_failures(&self) -> Option<Stop> {
        let error = self
            .scorer
            .events
            .with_stats(|stats| self.scorer.failures.used_up(stats))?;
        Some(Stop {
            reason: CancelReason::MaxFailures,
            error: Some(error),
        })
    }

    /// Moves what is done at the window's front to what is ready, up to so many rows: behind one that was waited for there
    /// can be a hundred thousand, which would need twice their memory.
    fn advance(&mut self, most: usize) {
        let is_done = |slot: &Slot| !matches!(slot.state, State::Scoring);
        while self.ready.len() < most && self.admitted.front().is_some_and(is_done) {
            let Some(slot) = self.admitted.pop_front() else {
                return;
            };
            self.first = self.first.next();
            if let State::Resolved(verdict) = slot.state {
                if self.ready.is_empty() {
                    self.write_at = self.time + WRITE_DELAY;
                }
                self.ready_bytes += slot.bytes;
                self.ready.push(Finished {
                    row: slot.row,
                    verdict,
                    old: slot.old,
                });
            } else {
                self.bytes -= slot.bytes;
            }
        }
    }

    /// When what is ready must be written, however little it is.
    pub(super) const fn write_at(&self) -> Instant {
        self.write_at
    }

    pub(super) const fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    pub(super) const fn time_is_up(&mut self) {
        self.overdue = true;
    }

    pub(super) fn should_write(&self) -> bool {
        self.ready.len() >= WRITE_ROWS || (self.overdue && !self.ready.is_empty())
    }

    pub(super) fn take_ready(&mut self) -> Vec<Finished> {
        self.overdue = false;
        self.bytes -= std::mem::take(&mut self.ready_bytes);
        let ready = std::mem::take(&mut self.ready);
        self.advance(WRITE_ROWS);
        ready
    }

    pub(super) fn take_trailer(&mut self) -> Bytes {
        std::mem::take(&mut self.trailer)
    }

    pub(super) const fn take_stop(&mut self) -> Option<Stop> {
        self.stop.take()
    }

    /// Everything that is resolved but not yet written; rows that are still without a verdict are left.
    pub(super) fn finish(&mut self) -> Vec<Finished> {
        self.time_passed();
        for slot in &mut self.admitted {
            if matches!(slot.state, State::Scoring) {
                let left = Event::RowLeft(slot.row.number);
                self.scorer.events.emit_at(self.time, left);
                slot.state = State::Left;
            }
        }
        self.advance(usize::MAX);
        self.take_ready()
    }

    fn emit(&self, event: Event) {
        self.scorer.events.emit_at(self.time, event);
    }
}

impl Waiting {
    /// What the row needs now. The ledger is asked again once: an answer may have come since the row was read.
    fn needs(
        &mut self,
        asking: &HashMap<RequestKey, Vec<RowNumber>>,
        keeper: Option<&LedgerWriter>,
        now: Moment,
    ) -> crate::base::error::Result<Needs> {
        let Ok(request) = &mut self.request else {
            return Ok(Needs::Nothing);
        };
        if request.found.known.is_some() {
            return Ok(Needs::Nothing);
        }
        let Some(key) = request.key else {
            return Ok(Needs::Call);
        };
        if asking.contains_key(&key) {
            return Ok(Needs::SameAnswer);
        }
        let is_new = self.looked.is_none();
        self.looked.get_or_insert(now);
        if is_new
            && let Some(keeper) = keeper
            && let Some((found, answered_in)) = keeper.look_again(&key, &request.body)?
        {
            request.found = found;
            self.origin = match answered_in {
                AnsweredIn::ThisRun => Origin::Duplicate,
                AnsweredIn::OtherRun => Origin::Ledger,
            };
            return Ok(Needs::Nothing);
        }
        Ok(Needs::Call)
    }
}
