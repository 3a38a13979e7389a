//! The rows between reading and writing: the window that keeps them in input order and within bounds, what each one needs next,
//! and what follows when its request is claimed or has a result. Nothing here waits.
//!
//! Requests are claimed before they are called for, as several runs may share a ledger. Their rows are in the window already,
//! so that equal rows wait for the same answer. A request is claimed at most some milliseconds before its call: other runs cannot
//! ask for a claimed request, and after a kill it may have been billed.

use std::collections::VecDeque;
use std::mem;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::after_call::RowCall;
use super::call::ScoredRow;
use super::state::{Engine, POLL_INTERVAL, no_call_left};
use super::stop::Stop;
use crate::ledger::{
    ByRequest, ClaimResult, Claimed, KnownResult, LeaseGeneration, LookupResult, RequestKey,
    Unanswered, Urgency,
};
use crate::row::RowNumber;
use crate::row_state::{Row, RowBatch, RowState};
use crate::telemetry::event::{Event, Origin};
use crate::verdict::{Reason, Verdict};

/// At most this many new requests per claim batch. Repeated claims may double it.
const MAX_CLAIM_BATCH: usize = 256;
/// Over how long calls are counted, to tell how many start while requests are being claimed. Calls that wait for a slow service
/// start together, and are spread over this time.
const COUNT_INTERVAL: Duration = Duration::from_millis(100);
/// The longest time that claiming takes: claims wait for answers, and for the disk.
const CLAIMING_MS: usize = 10;
/// Rows that are handed to the writer together: each hand-over may wake its thread, which costs more than a row.
const WRITE_ROWS: usize = 256;
/// The longest that a finished row waits for others. Far below what a person or a pipe would notice.
const WRITE_DELAY: Duration = Duration::from_millis(5);

/// The limits of the window between reading and writing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WindowSize {
    /// Rows. Many more than the concurrency, so that a row in back-off does not hold up those behind it.
    pub(crate) rows: usize,
    /// Bytes of rows and their requests.
    pub(crate) bytes: usize,
}

/// The rows that are between reading and writing.
pub(super) struct Rows<'a, S> {
    engine: &'a Engine<S>,
    pub(super) window: RowWindow,
    /// Requests that are out, each with the rows that wait for the same answer.
    out: ByRequest<Vec<RowNumber>>,
    /// Rows that wait for their calls: first with claimed requests, then with requests that are being claimed, then with requests
    /// that are claimed next.
    calls: VecDeque<RowCall>,
    /// How many of them are claimed; the first is called for next.
    claimed: usize,
    /// How many are being claimed.
    claiming: usize,
    /// Rows whose requests another run calls for, each with the time to ask again; the first is due first.
    taken: VecDeque<(Instant, RowCall)>,
    /// How many of these rows were reported last.
    reported: usize,
    /// Whether other runs ask for the same: the last claims found requests that these have paid for, or call for.
    has_others: bool,
    /// How many calls have started since this time.
    started: (usize, Instant),
    /// How many start while requests are being claimed.
    soon: usize,
    /// The clock as of the last wait: reading it for each event would cost more than counting the event.
    pub(super) time: Instant,
    /// Blank lines after the last row that was read.
    pub(super) trailer: Bytes,
}

impl<'a, S> Rows<'a, S> {
    /// No rows yet.
    pub(super) fn new(engine: &'a Engine<S>, size: WindowSize) -> Self {
        let time = Instant::now();
        Self {
            engine,
            window: RowWindow::new(size, time),
            out: ByRequest::default(),
            calls: VecDeque::new(),
            claimed: 0,
            claiming: 0,
            taken: VecDeque::new(),
            reported: 0,
            has_others: false,
            started: (0, time),
            soon: 0,
            time,
            trailer: Bytes::new(),
        }
    }

    /// Whether more rows should be read.
    pub(super) fn wants_rows(&self) -> bool {
        !self.window.has_waiting() && self.window.has_room()
    }

    /// Takes rows that were read.
    pub(super) fn receive(&mut self, batch: RowBatch) {
        self.emit(Event::RowsRead {
            rows: batch.rows.len() as u64,
            position: batch.position,
            dropped: batch.noticed.dropped,
        });
        self.window.rows.extend(batch.rows);
        self.trailer = batch.trailer;
    }

    /// Admits rows that cost no call, up to the first one that does.
    ///
    /// # Errors
    /// The run must stop: too many rows have failed, or the ledger cannot be read.
    pub(super) fn admit_without_call(&mut self) -> Result<(), Stop> {
        while self.window.has_room() && self.next_needs_no_call() {
            match self.admit() {
                Some((row, RowState::Invalid(failure))) => {
                    self.finish(row, Some(Verdict::Failed(failure)), Origin::Called);
                    self.engine.check_failures()?;
                }
                Some((row, passed @ RowState::Passed)) => {
                    if let Some(state) = self.window.state(row) {
                        *state = passed;
                    }
                    self.emit(Event::RowPassed(row));
                    self.window.advance(self.time);
                }
                Some((row, RowState::Waiting { key, found, .. })) => {
                    let origin = self.engine.origin(&found);
                    match found.result {
                        Some(result) => self.finish_stored(row, Vec::new(), result, origin)?,
                        // It waits for the answer to an equal request that is out.
                        None => self.out.entry(key).or_default().push(row),
                    }
                }
                _ => return Ok(()),
            }
        }
        Ok(())
    }

    /// Whether a row waits for its call, admitted or not.
    pub(super) fn has_uncalled(&self) -> bool {
        self.window.has_waiting() || !(self.calls.is_empty() && self.taken.is_empty())
    }

    /// Whether a claimed row waits for its call.
    pub(super) const fn may_call(&self) -> bool {
        self.claimed > 0
    }

    /// The row whose call is next.
    pub(super) fn next_call(&mut self) -> Option<RowCall> {
        self.claimed = self.claimed.checked_sub(1)?;
        self.started.0 += 1;
        self.calls.pop_front()
    }

    /// How many requests should be claimed.
    fn claims_ahead(&mut self) -> usize {
        // No calls are left: all that wait may have results in the ledger by now.
        if self.engine.state.borrow().is_limited {
            return MAX_CLAIM_BATCH;
        }
        let (calls, since) = self.started;
        let lasted = self.time.saturating_duration_since(since);
        if lasted >= COUNT_INTERVAL {
            let lasted = usize::try_from(lasted.as_millis()).unwrap_or(usize::MAX);
            self.soon = calls * CLAIMING_MS / lasted;
            self.started = (0, self.time);
        }
        self.engine.gate.calls_ahead(self.soon).min(MAX_CLAIM_BATCH)
    }

    /// When to look up again a request that another run calls for, unless requests are being claimed.
    pub(super) fn ask_again_at(&self) -> Option<Instant> {
        let first = self.taken.front().map(|(at, _)| *at);
        first.filter(|_| self.claiming == 0)
    }

    /// Admits the next row, which needs a call, if there is one and room for it.
    fn admit_call(&mut self) -> Option<RowCall> {
        if !self.window.has_room() {
            return None;
        }
        let (row, RowState::Waiting { body, key, .. }) = self.admit()? else {
            return None;
        };
        self.out.insert(key, Vec::new());
        if let Some(RowState::Out { key: is_out, old }) = self.window.state(row) {
            *is_out = Some(key);
            if old.is_none()
                && let Some(new) = &mut self.engine.state.borrow_mut().new_to_come
            {
                *new = new.saturating_sub(1);
            }
        }
        Some(RowCall {
            row,
            body,
            key,
            taken_over: false,
            lease: LeaseGeneration::default(),
        })
    }

    /// Whether there is a next row and it passes without a call, breaks a rule, has a verdict in the ledger, or shares a request
    /// that is out.
    fn next_needs_no_call(&self) -> bool {
        let next = self.window.rows.get(self.window.admitted);
        next.is_some_and(|row| match &row.state {
            RowState::Waiting { key, found, .. } => {
                found.result.is_some() || self.out.contains_key(key)
            }
            _ => true,
        })
    }

    /// Admits the next row to the window. Returns its number and the state that it had.
    fn admit(&mut self) -> Option<(RowNumber, RowState)> {
        let window = &mut self.window;
        let next = window.rows.get_mut(window.admitted)?;
        let old = match &mut next.state {
            RowState::Waiting { found, .. } => found.old.take(),
            _ => None,
        };
        let state = mem::replace(&mut next.state, RowState::Out { key: None, old });
        let row = next.number;
        window.bytes += bytes_of(next);
        window.admitted += 1;
        self.emit(Event::RowAdmitted(row));
        if let RowState::Waiting { found, .. } = &state {
            self.report(row, found);
        }
        Some((row, state))
    }

    /// Reports if the ledger's entry for a row is not used, or is old.
    fn report(&self, row: RowNumber, found: &LookupResult) {
        if let Some(why) = found.passed_over {
            self.emit(Event::AnswerPassedOver { row, why });
        }
        if let Some(at) = found.aged {
            self.emit(Event::AgedAnswerUsed { at });
        }
    }

    /// If the claims of rows have ended before their calls, these are claimed again, after the others.
    pub(super) fn check_lease(&mut self) {
        if let Some(next) = self.calls.front().filter(|_| self.claimed > 0)
            && !self.engine.ledger.holds(next.lease)
        {
            self.calls.rotate_left(self.claimed);
            self.claimed = 0;
        }
    }

    /// The requests to look up now, and how many of them to claim at most. `None` while others are being claimed, and until half
    /// of the claimed ones have been called for, unless some must be claimed again: few large batches cost less than many small
    /// ones. Rows that need no call are admitted with them. If other runs ask for the same, more requests are looked up.
    ///
    /// # Errors
    /// The run must stop: too many rows have failed, or the ledger cannot be read.
    pub(super) fn next_claims(
        &mut self,
    ) -> Result<Option<(Vec<RequestKey>, usize, Urgency)>, Stop> {
        let ahead = self.claims_ahead();
        let has_room = self.gather_calls(if self.has_others {
            MAX_CLAIM_BATCH
        } else {
            ahead
        })?;
        let now = self.time;
        let is_due = |(at, _): &(Instant, RowCall)| *at <= now;
        let is_again = self.taken.front().is_some_and(is_due);
        if self.claiming > 0 || !is_again && self.claimed > ahead / 2 {
            return Ok(None);
        }
        // While claimed requests wait for their calls, answers come, with which claims are stored at no extra cost. If none is
        // left and there was room for more rows than have been read, more follow soon.
        let urgency = match (self.claimed, has_room) {
            (1.., _) => Urgency::WithAnswers,
            (0, true) => Urgency::Soon,
            (0, false) => Urgency::Now,
        };
        let first = self.taken.iter().take(MAX_CLAIM_BATCH);
        let due = first.take_while(|it| is_due(it)).count();
        for (_, call) in self.taken.drain(..due) {
            self.calls.insert(self.claimed, call);
        }
        let unclaimed = self.calls.iter().skip(self.claimed);
        let requests: Vec<_> = unclaimed.map(|call| call.key).collect();
        self.claiming = requests.len();
        let most = ahead.saturating_sub(self.claimed);
        Ok((!requests.is_empty()).then_some((requests, most, urgency)))
    }

    /// Admits rows for the next claims, up to `ahead` of them, also while others are being claimed: rows behind them may
    /// need no call. Whether there is room for more.
    fn gather_calls(&mut self, ahead: usize) -> Result<bool, Stop> {
        while self.calls.len() < ahead {
            self.admit_without_call()?;
            let Some(call) = self.admit_call() else {
                return Ok(true);
            };
            self.calls.push_back(call);
        }
        Ok(false)
    }

    /// Requests have been claimed.
    ///
    /// # Errors
    /// The run must stop: too many rows have failed.
    pub(super) fn claimed(&mut self, claimed: Claimed) -> Result<(), Stop> {
        let Claimed { lease, results } = claimed;
        self.check_lease();
        let (mut stored, mut free) = (Vec::new(), Vec::new());
        self.has_others = false;
        // Requests that are claimed now follow those that were claimed before.
        self.calls.rotate_left(self.claimed);
        self.claiming = 0;
        for result in results {
            let Some(mut call) = self.calls.pop_front() else {
                break;
            };
            match result {
                ClaimResult::Granted { taken_over } => {
                    // It may have been claimed before, without a call.
                    call.taken_over |= taken_over;
                    call.lease = lease;
                    self.calls.push_back(call);
                    self.claimed += 1;
                }
                ClaimResult::Taken => {
                    self.has_others = true;
                    self.taken.push_back((self.time + POLL_INTERVAL, call));
                }
                ClaimResult::Stored(found) => {
                    self.has_others |= !found.is_of_this_start;
                    stored.push((call.row, found));
                }
                ClaimResult::Free => free.push(call),
            }
        }
        self.calls.rotate_right(self.claimed);
        for call in free.into_iter().rev() {
            self.calls.insert(self.claimed, call);
        }
        let taken = self.taken.len();
        if self.reported != taken {
            self.reported = taken;
            self.emit(Event::RowsTaken { rows: taken as u64 });
        }
        for (row, found) in stored {
            self.report(row, &found);
            let origin = self.engine.origin(&found);
            if let Some(RowState::Out { old, .. }) = self.window.state(row) {
                *old = found.old;
            }
            if let Some(result) = found.result {
                let same = self.take_same(row);
                self.finish_stored(row, same, result, origin)?;
            }
        }
        Ok(())
    }

    /// A row was scored; rows that wait for the same answer get the same verdict.
    ///
    /// # Errors
    /// The run must stop.
    pub(super) fn scored(&mut self, scored: ScoredRow) -> Result<(), Stop> {
        let ScoredRow { row, verdict, stop } = scored;
        if matches!(&verdict, Some(Verdict::Failed(failure)) if failure.reason == Reason::Limit) {
            return self.finish_uncalled(row);
        }
        let has_failed = matches!(verdict, Some(Verdict::Failed(_)));
        for same in self.take_same(row) {
            self.finish(same, verdict.clone(), Origin::Duplicate);
        }
        self.finish(row, verdict, Origin::Called);
        match stop {
            Some(stop) => Err(stop),
            None if has_failed => self.engine.check_failures(),
            None => Ok(()),
        }
    }

    /// Claimed rows for which no call is left get their old answer, or fail.
    ///
    /// # Errors
    /// The run must stop.
    pub(super) fn finish_without_calls(&mut self) -> Result<(), Stop> {
        if !self.engine.is_short_of_calls() {
            return Ok(());
        }
        while let Some(next) = self.calls.front().filter(|_| self.claimed > 0) {
            let (row, key) = (next.row, next.key);
            let has_old =
                matches!(self.window.state(row), Some(RowState::Out { old, .. }) if old.is_some());
            if !self.engine.saves_call(has_old, self.out.len()) {
                break;
            }
            self.calls.pop_front();
            self.claimed -= 1;
            self.engine.ledger.end_call(key, Unanswered::NotMade);
            self.finish_uncalled(row)?;
        }
        Ok(())
    }

    /// No call is left for a row: it gets the answer that is too old, or none, and so do rows that wait for the same answer.
    fn finish_uncalled(&mut self, row: RowNumber) -> Result<(), Stop> {
        let same = self.take_same(row);
        let old = match self.window.state(row) {
            Some(RowState::Out { old, .. }) => old.take(),
            _ => None,
        };
        let Some(old) = old else {
            for row in same.into_iter().chain([row]) {
                self.finish(row, Some(no_call_left()), Origin::Called);
            }
            return Ok(());
        };
        for _ in 0..=same.len() {
            self.emit(Event::OldAnswerUsed { at: old.at });
        }
        let origin = self.engine.paid_earlier(old.payment);
        self.finish_stored(row, same, KnownResult::Answer(old.answer), origin)
    }

    /// The ledger has the result of a row's request, and so of rows that wait for the `same` answer.
    fn finish_stored(
        &mut self,
        row: RowNumber,
        same: Vec<RowNumber>,
        result: KnownResult,
        origin: Origin,
    ) -> Result<(), Stop> {
        let verdict = self.engine.stored(result);
        let has_failed = matches!(verdict, Verdict::Failed(_));
        let of_same = match origin {
            Origin::Ledger(_) => Origin::Ledger(None),
            origin => origin,
        };
        for same in same {
            self.finish(same, Some(verdict.clone()), of_same);
        }
        self.finish(row, Some(verdict), origin);
        if has_failed {
            self.engine.check_failures()?;
        }
        Ok(())
    }

    /// Takes the rows that wait for the same answer as a row that is out.
    fn take_same(&mut self, row: RowNumber) -> Vec<RowNumber> {
        let key = match self.window.state(row) {
            Some(RowState::Out { key, .. }) => key.take(),
            _ => None,
        };
        let same = key.and_then(|key| self.out.remove(&key));
        same.unwrap_or_default()
    }

    /// A row gets its verdict, or is left for a later run.
    fn finish(&mut self, row: RowNumber, verdict: Option<Verdict>, origin: Origin) {
        let event = match &verdict {
            Some(verdict) => Event::RowResolved {
                row,
                resolution: verdict.outline(),
                origin,
            },
            None => Event::RowLeft(row),
        };
        if self.window.set_verdict(row, verdict) {
            self.emit(event);
        }
        self.window.advance(self.time);
    }

    /// Takes the rows that are ready to be written.
    pub(super) fn take_ready(&mut self) -> Vec<Row> {
        self.window.take_ready(self.time)
    }

    /// Takes all rows that are resolved and not yet written. Rows that still lack a verdict are left for a later run.
    pub(super) fn take_rest(&mut self) -> Vec<Row> {
        self.time = Instant::now();
        let window = &mut self.window;
        for row in window.rows.iter_mut().take(window.admitted) {
            if matches!(row.state, RowState::Out { .. }) {
                row.state = RowState::Left;
                let event = Event::RowLeft(row.number);
                self.engine.events.emit_at(self.time, event);
            }
        }
        self.window.advance_up_to(usize::MAX, self.time);
        self.take_ready()
    }

    fn emit(&self, event: Event) {
        self.engine.events.emit_at(self.time, event);
    }
}

/// The rows of the window, and those that were read and wait for it.
pub(super) struct RowWindow {
    size: WindowSize,
    /// In input order: first those in the window, then those that wait for it. The first has the number `first`, or a
    /// higher one if rows before it were not selected.
    rows: VecDeque<Row>,
    first: RowNumber,
    /// How many of `rows` are in the window.
    admitted: usize,
    /// The bytes of the rows that are in the window or ready.
    bytes: usize,
    /// Rows that are ready to be written.
    ready: Vec<Row>,
    ready_bytes: usize,
    /// When the ready rows must be written, however few they are.
    write_at: Instant,
    /// The ready rows have waited long enough for more.
    pub(super) is_overdue: bool,
}

/// The bytes that a row takes. Its request is about as long as the row itself, and the captured fields of an answer can be
/// longer.
fn bytes_of(row: &Row) -> usize {
    let verdict = match &row.state {
        RowState::Done { verdict, .. } => verdict.bytes(),
        _ => 0,
    };
    2 * row.raw.bytes.len() + verdict
}

impl RowWindow {
    fn new(size: WindowSize, now: Instant) -> Self {
        Self {
            size,
            rows: VecDeque::new(),
            first: RowNumber::FIRST,
            admitted: 0,
            bytes: 0,
            ready: Vec::new(),
            ready_bytes: 0,
            write_at: now,
            is_overdue: false,
        }
    }

    /// Whether another row may be admitted.
    fn has_room(&self) -> bool {
        self.admitted + self.ready.len() < self.size.rows && self.bytes < self.size.bytes
    }

    /// Whether a row waits to be admitted.
    fn has_waiting(&self) -> bool {
        self.admitted < self.rows.len()
    }

    /// The state of a row in the window.
    fn state(&mut self, number: RowNumber) -> Option<&mut RowState> {
        self.row(number).map(|row| &mut row.state)
    }

    fn row(&mut self, number: RowNumber) -> Option<&mut Row> {
        let index = usize::try_from(number.get().checked_sub(self.first.get())?).ok()?;
        let is_there = |row: &Row| row.number == number;
        let index = if self.rows.get(index).is_some_and(is_there) {
            index
        } else {
            // Rows before it were not selected.
            let by_number = |row: &Row| row.number;
            self.rows.binary_search_by_key(&number, by_number).ok()?
        };
        if index >= self.admitted {
            return None;
        }
        self.rows.get_mut(index)
    }

    /// Gives a row in the window its verdict, or leaves it for a later run. Returns whether the row is there.
    fn set_verdict(&mut self, number: RowNumber, verdict: Option<Verdict>) -> bool {
        let Some(row) = self.row(number) else {
            return false;
        };
        let before = bytes_of(row);
        let old = match &mut row.state {
            RowState::Out { old, .. } => old.take().map(|old| old.answer.score),
            RowState::Done { old, .. } => old.take(),
            _ => None,
        };
        row.state = match verdict {
            Some(verdict) => RowState::Done { verdict, old },
            None => RowState::Left,
        };
        let now = bytes_of(row);
        self.bytes = (self.bytes + now).saturating_sub(before);
        true
    }

    /// Makes finished rows at the window's front ready to be written, up to one hand-over's worth: behind a row that was
    /// waited for there can be a hundred thousand, which would need twice their memory.
    fn advance(&mut self, now: Instant) {
        self.advance_up_to(WRITE_ROWS, now);
    }

    fn advance_up_to(&mut self, most: usize, now: Instant) {
        let is_done = |row: &Row| !matches!(row.state, RowState::Out { .. });
        while self.ready.len() < most && self.admitted > 0 && self.rows.front().is_some_and(is_done)
        {
            let Some(row) = self.rows.pop_front() else {
                return;
            };
            self.admitted -= 1;
            self.first = row.number.next();
            if matches!(row.state, RowState::Left) {
                self.bytes -= bytes_of(&row);
                continue;
            }
            if self.ready.is_empty() {
                self.write_at = now + WRITE_DELAY;
            }
            self.ready_bytes += bytes_of(&row);
            self.ready.push(row);
        }
    }

    /// Whether the ready rows should be written now.
    pub(super) const fn should_write(&self) -> bool {
        self.ready.len() >= WRITE_ROWS || (self.is_overdue && !self.ready.is_empty())
    }

    /// When the ready rows must be written, though more may be ready by then; `None` if there are none, or now.
    pub(super) fn write_at(&self) -> Option<Instant> {
        (!self.ready.is_empty() && !self.should_write()).then_some(self.write_at)
    }

    /// Takes the ready rows.
    fn take_ready(&mut self, now: Instant) -> Vec<Row> {
        self.is_overdue = false;
        self.bytes -= mem::take(&mut self.ready_bytes);
        let ready = mem::take(&mut self.ready);
        self.advance(now);
        ready
    }
}
