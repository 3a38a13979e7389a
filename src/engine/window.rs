//! The window: the rows between reading and writing, in input order and within bounds.
//!
//! Rows that were read but not admitted wait behind it in the same queue. Decisions and events are left to `rows`.

use std::collections::VecDeque;
use std::mem;
use std::time::Duration;

use tokio::time::Instant;

use crate::row::RowNumber;
use crate::row_state::{Row, RowState};
use crate::verdict::Verdict;

/// How much may be between reading and writing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WindowSize {
    /// Rows. Many more than the concurrency, so that a row in back-off does not hold up those behind it.
    pub(crate) rows: usize,
    /// Bytes of rows and their requests.
    pub(crate) bytes: usize,
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
    rows: VecDeque<Row>,
    first: RowNumber,
    /// How many of `rows` are in the window.
    admitted: usize,
    /// Of what is in the window or ready.
    bytes: usize,
    /// Ready to be written.
    ready: Vec<Row>,
    ready_bytes: usize,
    write_at: Instant,
    is_overdue: bool,
}

/// The bytes that a row takes. Its request is about as long as the row itself, and what was captured of an answer can be
/// larger.
fn bytes_of(row: &Row) -> usize {
    let verdict = match &row.state {
        RowState::Done { verdict, .. } => verdict.bytes(),
        _ => 0,
    };
    2 * row.raw.bytes.len() + verdict
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
    pub(super) fn receive(&mut self, rows: Vec<Row>) {
        self.rows.extend(rows);
    }

    /// The state of the row that is admitted next.
    pub(super) fn next_state(&self) -> Option<&RowState> {
        Some(&self.rows.get(self.admitted)?.state)
    }

    /// Admits the next row. Returns its number and the state that it had.
    pub(super) fn admit(&mut self) -> Option<(RowNumber, RowState)> {
        let next = self.rows.get_mut(self.admitted)?;
        let old = match &mut next.state {
            RowState::Waiting { found, .. } => found.old.take(),
            _ => None,
        };
        let state = mem::replace(&mut next.state, RowState::Out { key: None, old });
        self.bytes += bytes_of(next);
        self.admitted += 1;
        Some((next.number, state))
    }

    /// The state of a row in the window.
    pub(super) fn state(&mut self, number: RowNumber) -> Option<&mut RowState> {
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

    /// A row in the window gets its verdict, or is left for a later run. Whether there is such a row.
    pub(super) fn set_verdict(&mut self, number: RowNumber, verdict: Option<Verdict>) -> bool {
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

    /// The rows in the window that have no verdict yet are left for a later run. Returns their numbers.
    pub(super) fn leave_unresolved(&mut self) -> Vec<RowNumber> {
        let mut left = Vec::new();
        for row in self.rows.iter_mut().take(self.admitted) {
            if matches!(row.state, RowState::Out { .. }) {
                row.state = RowState::Left;
                left.push(row.number);
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
    pub(super) fn take_ready(&mut self, now: Instant) -> Vec<Row> {
        self.is_overdue = false;
        self.bytes -= mem::take(&mut self.ready_bytes);
        let ready = mem::take(&mut self.ready);
        self.advance(now);
        ready
    }

    /// Takes all that is resolved and not yet written.
    pub(super) fn take_rest(&mut self, now: Instant) -> Vec<Row> {
        self.advance_up_to(usize::MAX, now);
        self.take_ready(now)
    }
}
