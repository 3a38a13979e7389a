//! The rows that are between reading and writing: what each one needs next, and what follows when its request is claimed,
//! answered or known. Nothing here waits.

use std::mem;

use bytes::Bytes;
use tokio::time::Instant;

use super::claims::Claims;
use super::parts::Engine;
use super::row_call::{Claim, RowCall, RowOutcome};
use super::stop::Stop;
use super::window::{Admitted, PendingRow, Request, RowWindow, WindowSize};
use crate::ledger::{
    ByRequest, ClaimResult, Claimed, KnownOutcome, LookupResult, RequestKey, Urgency,
};
use crate::output::DoneRow;
use crate::row::RowNumber;
use crate::telemetry::event::{Event, Origin};
use crate::verdict::Verdict;

/// What the next row needs.
enum Needs {
    /// A call.
    Call,
    /// Nothing: its verdict is known from here.
    Nothing(Origin),
    /// The answer to an equal request that is out.
    SameAnswer,
}

/// The rows that are between reading and writing.
pub(super) struct Rows<'a, S> {
    engine: &'a Engine<S>,
    pub(super) window: RowWindow,
    /// Requests that are out, each with the rows that wait for the same answer.
    out: ByRequest<Vec<RowNumber>>,
    /// Rows that need a call, on their way to it; `None` where nothing is kept.
    pub(super) claims: Option<Claims>,
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
            claims: engine.ledger.is_some().then(Claims::new),
            time,
            trailer: Bytes::new(),
        }
    }

    /// Whether more rows should be read.
    pub(super) fn wants_rows(&self) -> bool {
        !self.window.has_waiting() && self.window.has_room()
    }

    /// Takes rows that were read.
    pub(super) fn receive(&mut self, rows: Vec<PendingRow>, position: u64, trailer: Bytes) {
        self.emit(Event::RowsRead {
            rows: rows.len() as u64,
            position,
        });
        self.window.receive(rows);
        self.trailer = trailer;
    }

    /// Admits rows that cost no call, up to the first one that does.
    ///
    /// # Errors
    /// The run must stop: too many rows have failed, or the ledger cannot be read.
    pub(super) fn admit_without_call(&mut self) -> Result<(), Stop> {
        while self.window.has_room() {
            let Some(needs) = self.next_needs() else {
                return Ok(());
            };
            if matches!(needs, Needs::Call) {
                return Ok(());
            }
            let Some(Admitted { number, request }) = self.admit() else {
                return Ok(());
            };
            match (needs, request) {
                (_, Err(failure)) => {
                    self.settle(number, Some(Verdict::Failed(failure)), Origin::Called);
                    self.engine.check_failures()?;
                }
                (Needs::Nothing(origin), Ok(request)) => {
                    if let Some(known) = request.found.known {
                        self.settle_known(number, Vec::new(), (known, origin))?;
                    }
                }
                (_, Ok(request)) => {
                    if let Some(key) = request.key {
                        self.out.entry(key).or_default().push(number);
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether a row waits for its call, admitted or not.
    pub(super) fn has_uncalled(&self) -> bool {
        self.window.has_waiting() || { self.claims.as_ref() }
            .is_some_and(|claims| !claims.is_empty())
    }

    /// Whether the next row can be called for once there is a permit, when those that need no call are admitted.
    pub(super) fn needs_call(&self) -> bool {
        match &self.claims {
            Some(claims) => claims.may_call(),
            None => self.may_admit(),
        }
    }

    fn may_admit(&self) -> bool {
        self.window.has_waiting() && self.window.has_room()
    }

    /// The next row that needs a call, for which there is a permit; `None` if no row needs one any more.
    ///
    /// # Errors
    /// The run must stop, as for [`Self::admit_without_call`].
    pub(super) fn next_call(&mut self) -> Result<Option<RowCall>, Stop> {
        if let Some(claims) = &mut self.claims {
            return Ok(claims.next());
        }
        self.admit_without_call()?;
        Ok(self.admit_call())
    }

    /// Admits the next row, which needs a call, if there is one and room for it.
    fn admit_call(&mut self) -> Option<RowCall> {
        if !self.may_admit() {
            return None;
        }
        let admitted = self.admit()?;
        let (row, Ok(request)) = (admitted.number, admitted.request) else {
            return None;
        };
        let Request { body, key, .. } = request;
        if let Some(key) = key {
            self.out.insert(key, Vec::new());
            self.window.set_key(row, key);
        }
        Some(RowCall {
            row,
            body,
            key,
            claim: None,
        })
    }

    /// What the next row needs, if there is one.
    fn next_needs(&mut self) -> Option<Needs> {
        Some(match self.window.next_request()? {
            Err(_) => Needs::Nothing(Origin::Called),
            Ok(request) if request.found.known.is_some() => {
                Needs::Nothing(request.found.from.origin())
            }
            Ok(request) if request.key.is_some_and(|key| self.out.contains_key(&key)) => {
                Needs::SameAnswer
            }
            Ok(_) => Needs::Call,
        })
    }

    fn admit(&mut self) -> Option<Admitted> {
        let admitted = self.window.admit()?;
        let row = admitted.number;
        self.emit(Event::RowAdmitted(row));
        if let Ok(request) = &admitted.request {
            self.report(row, &request.found);
        }
        Some(admitted)
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
        if let Some(claims) = &mut self.claims
            && let Some(worker) = claims.next_worker()
        {
            claims.set_holding(self.engine.holding(worker));
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
        let Some(claims) = &mut self.claims else {
            return Ok(None);
        };
        if !claims.may_claim(ahead, self.time) {
            return Ok(None);
        }
        let urgency = claims.urgency(has_room);
        let requests: Vec<_> = { claims.start(self.time).iter() }
            .filter_map(|call| call.key)
            .collect();
        Ok((!requests.is_empty()).then_some((requests, urgency)))
    }

    /// Admits rows for the next claims, also while others are being claimed: rows behind them may need no call. Whether
    /// there is room for more.
    fn gather_calls(&mut self, ahead: usize) -> Result<bool, Stop> {
        while { self.claims.as_ref() }.is_some_and(|claims| claims.room(ahead) > 0) {
            self.admit_without_call()?;
            let (Some(call), Some(claims)) = (self.admit_call(), &mut self.claims) else {
                return Ok(true);
            };
            claims.gather(call);
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
        let Some(claims) = &mut self.claims else {
            return Ok(());
        };
        let mut known = Vec::new();
        for (mut call, result) in claims.take_out().into_iter().zip(results) {
            match result {
                ClaimResult::Ours { taken_over } => {
                    // It may have been claimed before, and not called for.
                    let taken_over = taken_over || call.claim.is_some_and(|it| it.taken_over);
                    call.claim = Some(Claim { worker, taken_over });
                    claims.add_ready(call);
                }
                ClaimResult::Taken => claims.add_taken(call, self.time),
                ClaimResult::Known(found) => known.push((call.row, found)),
            }
        }
        if let Some(taken) = claims.new_taken() {
            self.emit(Event::RowsTaken { rows: taken as u64 });
        }
        for (row, found) in known {
            self.report(row, &found);
            self.window.set_old(row, found.old);
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
        let key = self.window.take_key(row);
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
    pub(super) fn take_rest(&mut self) -> (Vec<DoneRow>, Bytes) {
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
