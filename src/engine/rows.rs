//! The rows that are between reading and writing: what each one needs next, and what follows when its request is claimed,
//! answered or known. Nothing here waits.
//!
//! Requests are claimed before they are called for, as several runs may share a ledger. Their rows are in the window already,
//! so that equal rows wait for the same answer. What will be called for within some milliseconds is claimed, and no more: other
//! runs cannot ask what is claimed, and after a kill it may have been billed.

use std::collections::VecDeque;
use std::mem;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::parts::{Engine, RowCall, ScoredRow, no_call_left};
use super::stop::Stop;
use super::window::{RowWindow, WindowSize};
use crate::ledger::{
    ByRequest, ClaimResult, Claimed, KnownResult, LeaseGeneration, LookupResult, RequestKey,
    Unanswered, Urgency,
};
use crate::row::RowNumber;
use crate::row_state::{Row, RowBatch, RowState};
use crate::telemetry::event::{Event, Origin};
use crate::verdict::{Reason, Resolution, Verdict};

/// At most this many new requests per claim batch. Repeated claims may double it.
const MAX_CLAIM_BATCH: usize = 256;
/// Requests that have failed and are remembered, until all are forgotten: more of them are an outage, and hardly any has an equal
/// row soon after it.
const MAX_FAILED: usize = 4_096;
/// Over how long calls are counted, to tell how many start while requests are being claimed. Calls that wait for a slow service
/// start together, and are spread over this time.
const COUNTED: Duration = Duration::from_millis(100);
/// The most that claiming takes: claims wait for answers, and for the disk.
const CLAIMING_MS: usize = 10;
/// How long after another run's claim was seen it is asked again what has become of it.
const ASKED_AGAIN: Duration = Duration::from_millis(500);

/// The rows that are between reading and writing.
pub(super) struct Rows<'a, S> {
    engine: &'a Engine<S>,
    pub(super) window: RowWindow,
    /// Requests that are out, each with the rows that wait for the same answer.
    out: ByRequest<Vec<RowNumber>>,
    /// Rows whose calls have failed: if an equal row's call brings a verdict before they are written, it is theirs as well.
    failed: ByRequest<Vec<RowNumber>>,
    /// Rows that wait for their calls: those whose requests are claimed, then those whose requests are being claimed, then those
    /// whose requests are claimed next.
    calls: VecDeque<RowCall>,
    /// How many of them are claimed; the first is called for next.
    claimed: usize,
    /// How many are being claimed.
    claiming: usize,
    /// Rows whose requests another run calls for, each with the time to ask again; the first is due first.
    taken: VecDeque<(Instant, RowCall)>,
    /// Whether other runs ask for the same: the last claims found what these have paid for, or call for.
    has_others: bool,
    /// How many of those were reported last.
    reported: usize,
    /// How many calls have started since then.
    started: (usize, Instant),
    /// How many start while requests are being claimed.
    soon: usize,
    /// The clock as of the last wait: reading it for each event would cost more than counting the event.
    pub(super) time: Instant,
    trailer: Bytes,
}

impl<'a, S> Rows<'a, S> {
    /// No rows yet.
    pub(super) fn new(engine: &'a Engine<S>, size: WindowSize) -> Self {
        let time = Instant::now();
        Self {
            engine,
            window: RowWindow::new(size, time),
            out: ByRequest::default(),
            failed: ByRequest::default(),
            calls: VecDeque::new(),
            claimed: 0,
            claiming: 0,
            taken: VecDeque::new(),
            has_others: false,
            reported: 0,
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
        self.window.receive(batch.rows);
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
                Some((row, RowState::Passed)) => self.pass(row),
                Some((row, RowState::Waiting { key, found, .. })) => {
                    let origin = self.engine.origin(&found);
                    match found.result {
                        Some(known) => {
                            self.finish_known(row, Vec::new(), (known, origin))?;
                        }
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
        // That is another look whether something is known by now.
        if self.engine.is_limited() {
            return MAX_CLAIM_BATCH;
        }
        let (calls, since) = self.started;
        let lasted = self.time.saturating_duration_since(since);
        if lasted >= COUNTED {
            let lasted = usize::try_from(lasted.as_millis()).unwrap_or(usize::MAX);
            self.soon = calls * CLAIMING_MS / lasted;
            self.started = (0, self.time);
        }
        self.engine.gate.calls_ahead(self.soon).min(MAX_CLAIM_BATCH)
    }

    /// When to ask again about a request that another run calls for, unless requests are being claimed.
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
            if old.is_none() {
                self.engine.new_request();
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

    /// Whether there is a next row that is not asked for, breaks a rule, whose verdict is known, or whose request is out.
    fn next_needs_no_call(&self) -> bool {
        match self.window.next_state() {
            None => false,
            Some(RowState::Waiting { key, found, .. }) => {
                found.result.is_some() || self.out.contains_key(key)
            }
            Some(_) => true,
        }
    }

    fn admit(&mut self) -> Option<(RowNumber, RowState)> {
        let (row, state) = self.window.admit()?;
        self.emit(Event::RowAdmitted(row));
        if let RowState::Waiting { found, .. } = &state {
            self.report(row, found);
        }
        Some((row, state))
    }

    /// Reports what is special about what the ledger has for a row.
    fn report(&self, row: RowNumber, found: &LookupResult) {
        if let Some(why) = found.passed_over {
            self.emit(Event::AnswerPassedOver { row, why });
        }
        if let Some(at) = found.aged {
            self.emit(Event::AgedAnswerUsed { at });
        }
    }

    /// Rows whose claims have ended before their calls are claimed again, after the others.
    pub(super) fn look_at_lease(&mut self) {
        if let Some(next) = self.calls.front().filter(|_| self.claimed > 0)
            && !self.engine.ledger.holds(next.lease)
        {
            self.calls.rotate_left(self.claimed);
            self.claimed = 0;
        }
    }

    /// The requests to look up now, and how many of them to claim at most. `None` while others are being claimed, and until half of
    /// the claimed ones have been called for, unless some must be claimed again: few large batches cost less than many small ones.
    /// Rows that need no call are admitted with them. Where other runs ask for the same, more requests are looked up.
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
        // While there are claimed ones to call for, answers come, with which claims are stored at no extra cost. Where none is
        // left and there was room for more rows than have been read, more follow soon.
        let urgency = match (self.claimed, has_room) {
            (1.., _) => Urgency::WithAnswers,
            (0, true) => Urgency::Soon,
            (0, false) => Urgency::Now,
        };
        let due = { self.taken.iter().take(MAX_CLAIM_BATCH) }
            .take_while(|it| is_due(it))
            .count();
        for (_, call) in self.taken.drain(..due) {
            self.calls.insert(self.claimed, call);
        }
        let requests: Vec<_> = { self.calls.iter().skip(self.claimed) }
            .map(|call| call.key)
            .collect();
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

    /// What was claimed has come back.
    ///
    /// # Errors
    /// The run must stop: too many rows have failed.
    pub(super) fn claimed(&mut self, claimed: Claimed) -> Result<(), Stop> {
        let Claimed { lease, results } = claimed;
        self.look_at_lease();
        let (mut known, mut free) = (Vec::new(), Vec::new());
        self.has_others = false;
        // What is granted now follows what was claimed before.
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
                    self.taken.push_back((self.time + ASKED_AGAIN, call));
                }
                ClaimResult::Stored(found) => {
                    self.has_others |= !found.is_of_this_start;
                    known.push((call.row, found));
                }
                ClaimResult::Free => free.push(call),
            }
        }
        self.calls.rotate_right(self.claimed);
        for call in free.into_iter().rev() {
            self.calls.insert(self.claimed, call);
        }
        let taken = self.taken.len();
        if mem::replace(&mut self.reported, taken) != taken {
            self.emit(Event::RowsTaken { rows: taken as u64 });
        }
        for (row, found) in known {
            self.report(row, &found);
            let origin = self.engine.origin(&found);
            if let Some(RowState::Out { old, .. }) = self.window.state(row) {
                *old = found.old;
            }
            if let Some(known) = found.result {
                let (_, same) = self.take_same(row);
                self.finish_known(row, same, (known, origin))?;
            }
        }
        Ok(())
    }

    /// A row was scored; rows that wait for the same answer get the same verdict.
    ///
    /// # Errors
    /// The run must stop.
    pub(super) fn resolve(&mut self, outcome: ScoredRow) -> Result<(), Stop> {
        let ScoredRow { row, verdict, stop } = outcome;
        if matches!(&verdict, Some(Verdict::Failed(failure)) if failure.reason == Reason::Limit) {
            return self.finish_uncalled(row);
        }
        let has_failed = matches!(verdict, Some(Verdict::Failed(_)));
        let (key, same) = self.take_same(row);
        match (key, &verdict) {
            (Some(key), Some(Verdict::Failed(_))) => {
                if self.failed.len() >= MAX_FAILED {
                    self.failed.clear();
                }
                let rows = self.failed.entry(key).or_default();
                rows.extend(same.iter().copied().chain([row]));
            }
            (Some(key), Some(verdict)) => self.replace_failures(key, verdict),
            _ => {}
        }
        for same in same {
            self.finish(same, verdict.clone(), Origin::Duplicate);
        }
        self.finish(row, verdict, Origin::Called);
        match stop {
            Some(stop) => Err(stop),
            None if has_failed => self.engine.check_failures(),
            None => Ok(()),
        }
    }

    /// Rows that have failed with this request, and are not written yet, get the verdict that an equal row has now.
    fn replace_failures(&mut self, key: RequestKey, verdict: &Verdict) {
        let Some(rows) = self.failed.remove(&key) else {
            return;
        };
        for row in rows {
            let reason = match self.window.state(row) {
                Some(RowState::Done {
                    verdict: Verdict::Failed(failure),
                    ..
                }) => failure.reason,
                _ => continue,
            };
            if let Resolution::Scored(decision) = verdict.outline()
                && self.window.set_verdict(row, Some(verdict.clone()))
            {
                self.emit(Event::FailureReplaced {
                    row,
                    reason,
                    decision,
                });
            }
        }
    }

    /// Rows that are claimed, and for which no call is left, get what is known of them.
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

    /// No call is left for a row: it gets the answer that is too old, or none, and so do those that wait for the same answer.
    fn finish_uncalled(&mut self, row: RowNumber) -> Result<(), Stop> {
        let (_, same) = self.take_same(row);
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
        self.finish_known(row, same, (KnownResult::Answer(old.answer), origin))
    }

    /// The ledger knows what has become of a row's request, and so of those that wait for the `same` answer.
    fn finish_known(
        &mut self,
        row: RowNumber,
        same: Vec<RowNumber>,
        (known, origin): (KnownResult, Origin),
    ) -> Result<(), Stop> {
        let verdict = self.engine.known(known);
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

    /// Takes the request of a row that is out, and the rows that wait for the same answer.
    fn take_same(&mut self, row: RowNumber) -> (Option<RequestKey>, Vec<RowNumber>) {
        let key = match self.window.state(row) {
            Some(RowState::Out { key, .. }) => key.take(),
            _ => None,
        };
        let same = key.and_then(|key| self.out.remove(&key));
        (key, same.unwrap_or_default())
    }

    /// A row that is not asked for is ready to be written as it is.
    fn pass(&mut self, row: RowNumber) {
        if let Some(state) = self.window.state(row) {
            *state = RowState::Passed;
            self.emit(Event::RowPassed(row));
        }
        self.window.advance(self.time);
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

    /// Takes what is ready to be written.
    pub(super) fn take_ready(&mut self) -> Vec<Row> {
        self.window.take_ready(self.time)
    }

    /// Takes all that is resolved and not yet written, and the blank lines after the last row. Rows that are still without a
    /// verdict are left for a later run.
    pub(super) fn take_rest(&mut self) -> (Vec<Row>, Bytes) {
        self.time = Instant::now();
        for row in self.window.leave_unresolved() {
            self.emit(Event::RowLeft(row));
        }
        let rows = self.window.take_rest(self.time);
        (rows, mem::take(&mut self.trailer))
    }

    fn emit(&self, event: Event) {
        self.engine.events.emit_at(self.time, event);
    }
}
