//! The window: the rows between reading and writing, in input order and within bounds.
//!
//! Rows that were read but not admitted wait behind it in the same queue. Decisions and events are left to `rows`.

use std::collections::VecDeque;
use std::mem;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use crate::ledger::{LookupResult, RequestKey};
use crate::output::DoneRow;
use crate::row::{Row, RowNumber};
use crate::verdict::{Failure, Score, Verdict};

/// How much may be between reading and writing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WindowSize {
    /// Rows. Many more than the concurrency, so that a row in back-off does not hold up those behind it.
    pub(crate) rows: usize,
    /// Bytes of rows and their requests.
    pub(crate) bytes: usize,
}

/// A row between the input and the output.
#[derive(Debug)]
pub(crate) struct PendingRow {
    pub(super) row: Row,
    /// The bytes that it counts for in the window, once it is in it.
    bytes: usize,
    state: RowState,
}

/// The request for a row.
#[derive(Debug)]
pub(crate) struct Request {
    /// What is sent.
    pub(crate) body: Bytes,
    /// Names the request: rows with the same key share one call. `None` where each row has its own and nothing is kept.
    pub(crate) key: Option<RequestKey>,
    /// What the ledger had when the row was read.
    pub(crate) found: LookupResult,
}

/// How far a row has come.
#[derive(Debug)]
enum RowState {
    /// It waits before the window, with its request or the rule that it breaks.
    Waiting(Result<Request, Failure>),
    /// It is in the window and has no verdict yet.
    Scoring {
        /// Its request that is out, if equal rows may wait for the same answer.
        key: Option<RequestKey>,
        /// How the user was judged before this run.
        old: Option<Score>,
    },
    /// It has its verdict.
    Resolved {
        /// The verdict.
        verdict: Verdict,
        /// How the user was judged before this run.
        old: Option<Score>,
    },
    /// It is left for a later run.
    Left,
}

impl PendingRow {
    /// A row with its request, or with the rule that it breaks.
    #[must_use]
    pub(crate) const fn new(row: Row, request: Result<Request, Failure>) -> Self {
        Self {
            row,
            bytes: 0,
            state: RowState::Waiting(request),
        }
    }
}

/// Rows that are handed to the writer together: each hand-over may wake its thread, which costs more than a row.
const WRITE_ROWS: usize = 256;
/// The longest that a finished row waits for others. Far below what a person or a pipe would notice.
const WRITE_DELAY: Duration = Duration::from_millis(5);

/// Rows between reading and writing.
pub(super) struct RowWindow {
    size: WindowSize,
    /// In input order: first those in the window, then those that wait for it. The first has the number `first`, or a
    /// higher one if rows before it were not selected.
    rows: VecDeque<PendingRow>,
    first: RowNumber,
    /// How many of `rows` are in the window.
    admitted: usize,
    /// Of what is in the window or ready.
    bytes: usize,
    /// Ready to be written.
    ready: Vec<DoneRow>,
    ready_bytes: usize,
    write_at: Instant,
    is_overdue: bool,
}

/// A row that was just admitted.
pub(super) struct Admitted {
    pub(super) number: RowNumber,
    /// Its request, or the rule that it breaks.
    pub(super) request: Result<Request, Failure>,
}

impl RowWindow {
    /// An empty window.
    pub(super) fn new(size: WindowSize, now: Instant) -> Self {
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
    pub(super) fn has_room(&self) -> bool {
        self.admitted + self.ready.len() < self.size.rows && self.bytes < self.size.bytes
    }

    /// Whether a row waits to be admitted.
    pub(super) fn has_waiting(&self) -> bool {
        self.admitted < self.rows.len()
    }

    /// Takes rows that were read.
    pub(super) fn receive(&mut self, rows: Vec<PendingRow>) {
        self.rows.extend(rows);
    }

    /// The request of the row that is admitted next, or the rule that it breaks.
    pub(super) fn next_request(&mut self) -> Option<&mut Result<Request, Failure>> {
        match &mut self.rows.get_mut(self.admitted)?.state {
            RowState::Waiting(request) => Some(request),
            _ => None,
        }
    }

    /// Admits the next row.
    pub(super) fn admit(&mut self) -> Option<Admitted> {
        let next = self.rows.get_mut(self.admitted)?;
        let scoring = RowState::Scoring {
            key: None,
            old: None,
        };
        let RowState::Waiting(mut request) = mem::replace(&mut next.state, scoring) else {
            return None;
        };
        next.bytes = next.row.raw.len();
        if let Ok(request) = &mut request {
            next.bytes += request.body.len();
            next.state = RowState::Scoring {
                key: None,
                old: request.found.old.take(),
            };
        }
        self.bytes += next.bytes;
        self.admitted += 1;
        let number = next.row.number;
        Some(Admitted { number, request })
    }

    /// Notes the request that is out for a row in the window.
    pub(super) fn set_key(&mut self, number: RowNumber, new: RequestKey) {
        if let Some(RowState::Scoring { key, .. }) = self.state(number) {
            *key = Some(new);
        }
    }

    /// Notes how the user of a row in the window was judged before this run.
    pub(super) fn set_old(&mut self, number: RowNumber, new: Option<Score>) {
        if let Some(RowState::Scoring { old, .. }) = self.state(number) {
            *old = new;
        }
    }

    /// Takes back the request that is out for a row.
    pub(super) fn take_key(&mut self, number: RowNumber) -> Option<RequestKey> {
        match self.state(number)? {
            RowState::Scoring { key, .. } => key.take(),
            _ => None,
        }
    }

    fn state(&mut self, number: RowNumber) -> Option<&mut RowState> {
        self.row(number).map(|row| &mut row.state)
    }

    fn row(&mut self, number: RowNumber) -> Option<&mut PendingRow> {
        let index = usize::try_from(number.get().checked_sub(self.first.get())?).ok()?;
        let is_there = |row: &PendingRow| row.row.number == number;
        let index = if self.rows.get(index).is_some_and(is_there) {
            index
        } else {
            // Rows before it were not selected.
            let by_number = |row: &PendingRow| row.row.number;
            self.rows.binary_search_by_key(&number, by_number).ok()?
        };
        if index >= self.admitted {
            return None;
        }
        self.rows.get_mut(index)
    }

    /// A row in the window gets its verdict, or is left for a later run. Whether there is such a row.
    pub(super) fn settle(&mut self, number: RowNumber, verdict: Option<Verdict>) -> bool {
        let Some(row) = self.row(number) else {
            return false;
        };
        row.state = match (verdict, &mut row.state) {
            (Some(verdict), RowState::Scoring { old, .. }) => {
                let old = old.take();
                RowState::Resolved { verdict, old }
            }
            (Some(verdict), _) => RowState::Resolved { verdict, old: None },
            (None, _) => RowState::Left,
        };
        if let RowState::Resolved { verdict, .. } = &row.state {
            // What was captured of an answer can be larger than the row.
            let more = verdict.bytes();
            row.bytes += more;
            self.bytes += more;
        }
        true
    }

    /// The rows in the window that have no verdict yet are left for a later run. Returns their numbers.
    pub(super) fn leave_unresolved(&mut self) -> Vec<RowNumber> {
        let mut left = Vec::new();
        for row in self.rows.iter_mut().take(self.admitted) {
            if matches!(row.state, RowState::Scoring { .. }) {
                row.state = RowState::Left;
                left.push(row.row.number);
            }
        }
        left
    }

    /// Makes finished rows at the window's front ready to be written, up to one hand-over's worth: behind a row that was
    /// waited for there can be a hundred thousand, which would need twice their memory.
    pub(super) fn advance(&mut self, now: Instant) {
        self.advance_up_to(WRITE_ROWS, now);
    }

    fn advance_up_to(&mut self, most: usize, now: Instant) {
        let is_done = |row: &PendingRow| !matches!(row.state, RowState::Scoring { .. });
        while self.ready.len() < most && self.admitted > 0 && self.rows.front().is_some_and(is_done)
        {
            let Some(row) = self.rows.pop_front() else {
                return;
            };
            self.admitted -= 1;
            self.first = row.row.number.next();
            if let RowState::Resolved { verdict, old } = row.state {
                if self.ready.is_empty() {
                    self.write_at = now + WRITE_DELAY;
                }
                self.ready_bytes += row.bytes;
                self.ready.push(DoneRow {
                    row: row.row,
                    verdict,
                    old,
                });
            } else {
                self.bytes -= row.bytes;
            }
        }
    }

    /// When what is ready must be written, however little it is.
    pub(super) const fn write_at(&self) -> Instant {
        self.write_at
    }

    /// Whether anything is ready to be written.
    pub(super) const fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Notes that what is ready has waited long enough for more.
    pub(super) const fn set_overdue(&mut self) {
        self.is_overdue = true;
    }

    /// Whether what is ready should be written now.
    pub(super) const fn should_write(&self) -> bool {
        self.ready.len() >= WRITE_ROWS || (self.is_overdue && self.has_ready())
    }

    /// Takes what is ready to be written.
    pub(super) fn take_ready(&mut self, now: Instant) -> Vec<DoneRow> {
        self.is_overdue = false;
        self.bytes -= mem::take(&mut self.ready_bytes);
        let ready = mem::take(&mut self.ready);
        self.advance(now);
        ready
    }

    /// Takes all that is resolved and not yet written.
    pub(super) fn take_rest(&mut self, now: Instant) -> Vec<DoneRow> {
        self.advance_up_to(usize::MAX, now);
        self.take_ready(now)
    }
}
