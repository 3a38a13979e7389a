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
use crate::ledger::{ByRequest, KnownOutcome, RequestKey};
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
    /// Whether the ledger was asked again about the row that is admitted next.
    rechecked: bool,
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
            claims: { scorer.shares_ledger() }.then(Claims::new),
            rechecked: false,
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
            let Some(needs) = self.next_needs()? else {
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
                        let known = (request.key, known, origin);
                        self.settle_known(number, Vec::new(), known)?;
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

    /// What the next row needs, if there is one. The ledger is asked again once: an answer may have come since the row
    /// was read.
    fn next_needs(&mut self) -> Result<Option<Needs>, Stop> {
        let Some(next) = self.window.next_request() else {
            return Ok(None);
        };
        let needs = match next {
            Err(_) => Needs::Nothing(Origin::Called),
            Ok(request) if request.found.known.is_some() => {
                Needs::Nothing(request.answered_in.origin())
            }
            Ok(Request { key: None, .. }) => Needs::Call,
            Ok(Request {
                body,
                key: Some(key),
                found,
                ..
            }) => {
                if self.out.contains_key(key) {
                    Needs::SameAnswer
                } else if self.rechecked {
                    Needs::Call
                } else {
                    self.rechecked = true;
                    match self.scorer.look_again(key, body)? {
                        Some((later, origin)) => {
                            *found = later;
                            Needs::Nothing(origin)
                        }
                        None => Needs::Call,
                    }
                }
            }
        };
        Ok(Some(needs))
    }

    fn admit(&mut self) -> Option<Admitted> {
        let admitted = self.window.admit()?;
        self.rechecked = false;
        let row = admitted.number;
        self.emit(Event::RowAdmitted(row));
        let found = admitted.request.as_ref().map(|request| &request.found);
        if let Some(why) = found.ok().and_then(|found| found.unusable) {
            self.emit(Event::AnswerUnusable { row, why });
        }
        Some(admitted)
    }

    /// A row was scored; rows that wait for the same answer get the same verdict.
    ///
    /// # Errors
    /// The run must stop.
    pub(super) fn resolve(&mut self, outcome: RowOutcome) -> Result<(), Stop> {
        let RowOutcome { row, verdict, stop } = outcome;
        let has_failed = matches!(verdict, Some(Verdict::Failed(_)));
        let (_, same) = self.take_same(row);
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
        (key, known, mut origin): (Option<RequestKey>, KnownOutcome, Origin),
    ) -> Result<(), Stop> {
        let verdict = self.scorer.known(known);
        let has_failed = matches!(verdict, Verdict::Failed(_));
        if has_failed && key.is_some_and(|key| self.scorer.failed_before(&key)) {
            origin = Origin::Ledger;
        }
        for same in same {
            self.settle(same, Some(verdict.clone()), origin);
        }
        self.settle(row, Some(verdict), origin);
        if has_failed {
            self.scorer.check_failures()?;
        }
        Ok(())
    }

    /// Takes the request that is out for a row, with the rows that wait for the same answer.
    pub(super) fn take_same(&mut self, row: RowNumber) -> (Option<RequestKey>, Vec<RowNumber>) {
        let key = self.window.take_key(row);
        let same = key.and_then(|key| self.out.remove(&key));
        (key, same.unwrap_or_default())
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
