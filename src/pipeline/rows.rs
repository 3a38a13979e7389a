//! Rows on their way: before the window, in it, and ready to be written.
//!
//! This decides whether a row costs a call. It does not if it has no valid request, if the ledger knows the answer, or if an
//! equal request is out already. Nothing here waits.

use std::mem;

use bytes::Bytes;
use tokio::time::Instant;

use super::claims::Claims;
use super::pending_row::{PendingRow, Request};
use super::window::{Admitted, RowWindow, WindowSize};
use crate::ledger::{ByRequest, KnownOutcome, LookupResult};
use crate::output::DoneRow;
use crate::row::RowNumber;
use crate::scorer::{RowCall, RowOutcome, Scorer, Stop};
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
    pub(super) scorer: &'a Scorer<S>,
    pub(super) window: RowWindow,
    /// Requests that are out, each with the rows that wait for the same answer.
    out: ByRequest<Vec<RowNumber>>,
    /// Rows that need a call, on their way to it; `None` where no other run writes to the ledger.
    pub(super) claims: Option<Claims>,
    /// The clock as of the last wait: reading it for each event would cost more than counting the event.
    pub(super) time: Instant,
    trailer: Bytes,
}

impl<'a, S> Rows<'a, S> {
    /// No rows yet.
    pub(super) fn new(scorer: &'a Scorer<S>, size: WindowSize) -> Self {
        let time = Instant::now();
        Self {
            scorer,
            window: RowWindow::new(size, time),
            out: ByRequest::default(),
            claims: { scorer.has_ledger() }.then(Claims::new),
            time,
            trailer: Bytes::new(),
        }
    }

    /// Notes that time has passed in a wait.
    pub(super) fn time_passed(&mut self) {
        self.time = Instant::now();
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
                    self.scorer.check_failures()?;
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
    pub(super) fn admit_call(&mut self) -> Option<RowCall> {
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
        let found = admitted.request.as_ref().map(|request| &request.found);
        if let Ok(found) = found {
            self.report(row, found);
        }
        Some(admitted)
    }

    /// Reports what is special about what the ledger has for a row.
    pub(super) fn report(&self, row: RowNumber, found: &LookupResult) {
        if let Some(why) = found.passed_over {
            self.emit(Event::AnswerPassedOver { row, why });
        }
        if let Some(at) = found.aged {
            self.emit(Event::AgedAnswerUsed { at });
        }
    }

    /// A row was scored; rows that wait for the same answer get the same verdict.
    ///
    /// # Errors
    /// The run must stop.
    pub(super) fn resolve(&mut self, outcome: RowOutcome) -> Result<(), Stop> {
        let RowOutcome { row, verdict, stop } = outcome;
        let has_failed = matches!(verdict, Some(Verdict::Failed(_)));
        let same = self.take_same(row);
        for same in same {
            self.settle(same, verdict.clone(), Origin::Duplicate);
        }
        self.settle(row, verdict, Origin::Called);
        match stop {
            Some(stop) => Err(stop),
            None if has_failed => self.scorer.check_failures(),
            None => Ok(()),
        }
    }

    /// The ledger knows what has become of a row's request, and so of those that wait for the `same` answer.
    ///
    /// # Errors
    /// The run must stop: too many rows have failed.
    pub(super) fn settle_known(
        &mut self,
        row: RowNumber,
        same: Vec<RowNumber>,
        (known, origin): (KnownOutcome, Origin),
    ) -> Result<(), Stop> {
        let verdict = self.scorer.known(known);
        let has_failed = matches!(verdict, Verdict::Failed(_));
        for same in same {
            self.settle(same, Some(verdict.clone()), origin);
        }
        self.settle(row, Some(verdict), origin);
        if has_failed {
            self.scorer.check_failures()?;
        }
        Ok(())
    }

    /// Takes the rows that wait for the same answer as a row whose request is out.
    pub(super) fn take_same(&mut self, row: RowNumber) -> Vec<RowNumber> {
        let key = self.window.take_key(row);
        key.and_then(|key| self.out.remove(&key))
            .unwrap_or_default()
    }

    /// A row gets its verdict, or is left for a later run.
    pub(super) fn settle(&mut self, row: RowNumber, verdict: Option<Verdict>, origin: Origin) {
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

    /// Takes what is ready to be written.
    pub(super) fn take_ready(&mut self) -> Vec<DoneRow> {
        self.window.take_ready(self.time)
    }

    /// Takes all that is resolved and not yet written. Rows that are still without a verdict are left for a later run.
    pub(super) fn take_rest(&mut self) -> Vec<DoneRow> {
        self.time_passed();
        for row in self.window.leave_unresolved() {
            self.emit(Event::RowLeft(row));
        }
        self.window.take_rest(self.time)
    }

    /// Takes the blank lines after the last row.
    pub(super) fn take_trailer(&mut self) -> Bytes {
        mem::take(&mut self.trailer)
    }

    pub(super) fn emit(&self, event: Event) {
        self.scorer.events().emit_at(self.time, event);
    }
}
