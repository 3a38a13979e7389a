//! Rows on their way: before the window, in it, and ready to be written.
//!
//! This decides whether a row costs a call. It does not if it has no valid request, if the ledger knows the answer, or if an
//! equal request is out already. Nothing here waits.

use std::collections::HashMap;
use std::mem;

use bytes::Bytes;
use tokio::time::Instant;

use super::pending_row::{PendingRow, Request};
use super::window::{Admitted, RowWindow, WindowSize};
use crate::ledger::RequestKey;
use crate::output::DoneRow;
use crate::row::RowNumber;
use crate::scorer::{RowCall, RowOutcome, Scorer, Stop};
use crate::telemetry::event::{Event, Origin};
use crate::verdict::Verdict;

/// The time between two waits, within which nothing elsewhere can have changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Moment(u64);

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
    scorer: &'a Scorer<S>,
    window: RowWindow,
    /// Requests that are out, each with the rows that wait for the same answer.
    out: HashMap<RequestKey, Vec<RowNumber>>,
    /// When the ledger was asked again about the row that is admitted next.
    rechecked: Option<Moment>,
    now: Moment,
    /// The clock as of `now`: reading it for each event would cost more than counting the event.
    time: Instant,
    trailer: Bytes,
}

impl<'a, S> Rows<'a, S> {
    /// No rows yet.
    pub(super) fn new(scorer: &'a Scorer<S>, size: WindowSize) -> Self {
        let time = Instant::now();
        Self {
            scorer,
            window: RowWindow::new(size, time),
            out: HashMap::new(),
            rechecked: None,
            now: Moment::default(),
            time,
            trailer: Bytes::new(),
        }
    }

    /// Notes that time has passed in a wait: other runs may have written to the ledger meanwhile.
    pub(super) fn time_passed(&mut self) {
        self.now.0 += 1;
        self.time = Instant::now();
    }

    /// Whether more rows should be read.
    pub(super) fn wants_rows(&self) -> bool {
        !self.has_waiting() && self.window.has_room()
    }

    /// Whether a row waits to be admitted.
    pub(super) fn has_waiting(&self) -> bool {
        self.window.has_waiting()
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
                    let Some(known) = request.found.known else {
                        continue;
                    };
                    let verdict = self.scorer.known(known);
                    let has_failed = matches!(verdict, Verdict::Failed(_));
                    self.settle(number, Some(verdict), origin);
                    if has_failed {
                        self.scorer.check_failures()?;
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

    /// Whether the next row needs a call and there is room for it, once those that need none are admitted.
    pub(super) fn needs_call(&self) -> bool {
        self.window.has_waiting() && self.window.has_room()
    }

    /// Admits the next row that needs a call, for which there is a permit; `None` if no row needs one any more.
    ///
    /// # Errors
    /// The run must stop, as for [`Self::admit_without_call`].
    pub(super) fn next_call(&mut self) -> Result<Option<RowCall>, Stop> {
        // The row may have waited for its permit since it was looked up: another run may have called for it meanwhile.
        if self.rechecked != Some(self.now) && self.scorer.shares_ledger() {
            self.rechecked = None;
        }
        self.admit_without_call()?;
        if !self.needs_call() {
            return Ok(None);
        }
        let Some(admitted) = self.admit() else {
            return Ok(None);
        };
        let (row, Ok(request)) = (admitted.number, admitted.request) else {
            return Ok(None);
        };
        let Request { body, key, found } = request;
        if let Some(key) = key {
            self.out.insert(key, Vec::new());
            self.window.set_key(row, key);
        }
        Ok(Some(RowCall {
            row,
            body,
            key,
            expired: found.expired,
        }))
    }

    /// What the next row needs, if there is one. The ledger is asked again once: an answer may have come since the row
    /// was read.
    fn next_needs(&mut self) -> Result<Option<Needs>, Stop> {
        let Some(next) = self.window.next_request() else {
            return Ok(None);
        };
        let needs = match next {
            Err(_) => Needs::Nothing(Origin::Called),
            Ok(request) if request.found.known.is_some() => Needs::Nothing(Origin::Ledger),
            Ok(Request { key: None, .. }) => Needs::Call,
            Ok(Request {
                body,
                key: Some(key),
                found,
            }) => {
                if self.out.contains_key(key) {
                    Needs::SameAnswer
                } else if self.rechecked.is_some() {
                    Needs::Call
                } else {
                    self.rechecked = Some(self.now);
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
        self.rechecked = None;
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
        let key = self.window.take_key(row);
        let same = key.and_then(|key| self.out.remove(&key));
        for same in same.unwrap_or_default() {
            self.settle(same, verdict.clone(), Origin::Duplicate);
        }
        self.settle(row, verdict, Origin::Called);
        match stop {
            Some(stop) => Err(stop),
            None if has_failed => self.scorer.check_failures(),
            None => Ok(()),
        }
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

    /// When what is ready must be written, however little it is.
    pub(super) const fn write_at(&self) -> Instant {
        self.window.write_at()
    }

    /// Whether anything is ready to be written.
    pub(super) const fn has_ready(&self) -> bool {
        self.window.has_ready()
    }

    /// Notes that what is ready has waited long enough for more.
    pub(super) const fn set_overdue(&mut self) {
        self.window.set_overdue();
    }

    /// Whether what is ready should be written now.
    pub(super) const fn should_write(&self) -> bool {
        self.window.should_write()
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

    fn emit(&self, event: Event) {
        self.scorer.events().emit_at(self.time, event);
    }
}
