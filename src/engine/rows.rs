//! The rows that are between reading and writing: what each one needs next, and what follows when its request is claimed,
//! answered or known. Nothing here waits.

use std::mem;

use bytes::Bytes;
use tokio::time::Instant;

use super::claims::Claims;
use super::parts::Engine;
use super::row_call::{RowCall, RowOutcome};
use super::stop::Stop;
use super::window::{RowWindow, WindowSize};
use crate::ledger::{
    ByRequest, ClaimResult, Claimed, KnownOutcome, LookupResult, RequestKey, Urgency,
};
use crate::row::RowNumber;
use crate::row_state::{Row, RowBatch, RowState};
use crate::telemetry::event::{Event, Origin};
use crate::verdict::Verdict;

/// The rows that are between reading and writing.
pub(super) struct Rows<'a, S> {
    engine: &'a Engine<S>,
    pub(super) window: RowWindow,
    /// Requests that are out, each with the rows that wait for the same answer.
    out: ByRequest<Vec<RowNumber>>,
    /// Rows that need a call, on their way to it.
    pub(super) claims: Claims,
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
            claims: Claims::new(),
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
            dropped: batch.dropped,
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
                    self.settle(row, Some(Verdict::Failed(failure)), Origin::Called);
                    self.engine.check_failures()?;
                }
                Some((row, RowState::Waiting { key, found, .. })) => match found.known {
                    Some(known) => {
                        self.settle_known(row, Vec::new(), (known, found.from.origin()))?;
                    }
                    // It waits for the answer to an equal request that is out.
                    None => self.out.entry(key).or_default().push(row),
                },
                _ => return Ok(()),
            }
        }
        Ok(())
    }

    /// Whether a row waits for its call, admitted or not.
    pub(super) fn has_uncalled(&self) -> bool {
        self.window.has_waiting() || !self.claims.is_empty()
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
        if let Some(RowState::Out { key: is_out, .. }) = self.window.state(row) {
            *is_out = Some(key);
        }
        Some(RowCall {
            row,
            body,
            key,
            taken_over: false,
        })
    }

    /// Whether there is a next row that breaks a rule, whose verdict is known, or whose request is out.
    fn next_needs_no_call(&self) -> bool {
        match self.window.next_state() {
            None => false,
            Some(RowState::Waiting { key, found, .. }) => {
                found.known.is_some() || self.out.contains_key(key)
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

    /// Notes whether rows that are claimed may still be called for.
    pub(super) fn look_at_lease(&mut self) {
        if let Some(worker) = self.claims.next_worker() {
            self.claims.set_holding(self.engine.ledger.holding(worker));
        }
    }

    /// The requests to claim now, if there are any, and none is being claimed. Rows that need no call are admitted with
    /// them.
    ///
    /// # Errors
    /// The run must stop: too many rows have failed, or the ledger cannot be read.
    pub(super) fn next_claims(&mut self) -> Result<Option<(Vec<RequestKey>, Urgency)>, Stop> {
        let ahead = self.engine.gate.calls_ahead();
        let has_room = self.gather_calls(ahead)?;
        if !self.claims.may_claim(ahead, self.time) {
            return Ok(None);
        }
        let urgency = self.claims.urgency(has_room);
        let claimed = self.claims.start(self.time);
        let requests: Vec<_> = claimed.iter().map(|call| call.key).collect();
        Ok((!requests.is_empty()).then_some((requests, urgency)))
    }

    /// Admits rows for the next claims, also while others are being claimed: rows behind them may need no call. Whether
    /// there is room for more.
    fn gather_calls(&mut self, ahead: usize) -> Result<bool, Stop> {
        while self.claims.room(ahead) > 0 {
            self.admit_without_call()?;
            let Some(call) = self.admit_call() else {
                return Ok(true);
            };
            self.claims.gather(call);
        }
        Ok(false)
    }

    /// What was claimed has come back.
    ///
    /// # Errors
    /// The run must stop: too many rows have failed.
    pub(super) fn claimed(&mut self, claimed: Claimed) -> Result<(), Stop> {
        let Claimed { worker, results } = claimed;
        self.look_at_lease();
        let mut known = Vec::new();
        for (mut call, result) in self.claims.take_out().into_iter().zip(results) {
            match result {
                ClaimResult::Ours { taken_over } => {
                    // It may have been claimed before, and not called for.
                    call.taken_over |= taken_over;
                    self.claims.add_ready(call, worker);
                }
                ClaimResult::Taken => self.claims.add_taken(call, self.time),
                ClaimResult::Known(found) => known.push((call.row, found)),
            }
        }
        if let Some(taken) = self.claims.new_taken() {
            self.emit(Event::RowsTaken { rows: taken as u64 });
        }
        for (row, found) in known {
            self.report(row, &found);
            if let Some(RowState::Out { old, .. }) = self.window.state(row) {
                *old = found.old;
            }
            if let Some(known) = found.known {
                let same = self.take_same(row);
                self.settle_known(row, same, (known, found.from.origin()))?;
            }
        }
        Ok(())
    }

    /// A row was scored; rows that wait for the same answer get the same verdict.
    ///
    /// # Errors
    /// The run must stop.
    pub(super) fn resolve(&mut self, outcome: RowOutcome) -> Result<(), Stop> {
        let RowOutcome { row, verdict, stop } = outcome;
        let has_failed = matches!(verdict, Some(Verdict::Failed(_)));
        for same in self.take_same(row) {
            self.settle(same, verdict.clone(), Origin::Duplicate);
        }
        self.settle(row, verdict, Origin::Called);
        match stop {
            Some(stop) => Err(stop),
            None if has_failed => self.engine.check_failures(),
            None => Ok(()),
        }
    }

    /// The ledger knows what has become of a row's request, and so of those that wait for the `same` answer.
    fn settle_known(
        &mut self,
        row: RowNumber,
        same: Vec<RowNumber>,
        (known, origin): (KnownOutcome, Origin),
    ) -> Result<(), Stop> {
        let verdict = self.engine.known(known);
        let has_failed = matches!(verdict, Verdict::Failed(_));
        for same in same {
            self.settle(same, Some(verdict.clone()), origin);
        }
        self.settle(row, Some(verdict), origin);
        if has_failed {
            self.engine.check_failures()?;
        }
        Ok(())
    }

    /// Takes the rows that wait for the same answer as a row whose request is out.
    fn take_same(&mut self, row: RowNumber) -> Vec<RowNumber> {
        let key = match self.window.state(row) {
            Some(RowState::Out { key, .. }) => key.take(),
            _ => None,
        };
        key.and_then(|key| self.out.remove(&key))
            .unwrap_or_default()
    }

    /// A row gets its verdict, or is left for a later run.
    fn settle(&mut self, row: RowNumber, verdict: Option<Verdict>, origin: Origin) {
        let settled = match &verdict {
            Some(verdict) => Event::RowResolved {
                row,
                resolution: verdict.outline(),
                origin,
            },
            None => Event::RowLeft(row),
        };
        if self.window.settle(row, verdict) {
            self.emit(settled);
        }
        self.window.advance(self.time);
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
