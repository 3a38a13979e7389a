//! The rows of a program and their order: rows that were refused and have waited queue with the next new row, as they do at
//! the program's gate.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::time::Duration;

use crate::pace::retry::{CallCounts, RowRefusals};

/// The number of a row, from 0.
pub(super) type Row = u32;

/// Rows without end.
pub(super) struct Rows {
    next: Row,
    waiting: BinaryHeap<Reverse<(Duration, Row)>>,
    /// The rows that ask next; `None` is the next new row, which is in it once.
    line: VecDeque<Option<Row>>,
    refused: HashMap<Row, RowRefusals>,
    /// All calls.
    counts: CallCounts,
}

impl Rows {
    pub(super) fn new() -> Self {
        Self {
            next: 0,
            waiting: BinaryHeap::new(),
            line: VecDeque::from([None]),
            refused: HashMap::new(),
            counts: CallCounts::default(),
        }
    }

    /// The row whose turn it is.
    pub(super) fn take(&mut self, now: Duration) -> Row {
        while self.waiting.peek().is_some_and(|first| first.0.0 <= now)
            && let Some(Reverse((_, row))) = self.waiting.pop()
        {
            self.line.push_back(Some(row));
        }
        if let Some(Some(row)) = self.line.pop_front() {
            return row;
        }
        self.line.push_back(None);
        self.next += 1;
        self.next - 1
    }

    pub(super) fn was_accepted(&mut self, row: Row) {
        self.counts.accept();
        self.is_done(row);
    }

    /// The row needs no more calls.
    pub(super) fn is_done(&mut self, row: Row) {
        if !self.refused.is_empty() {
            self.refused.remove(&row);
        }
    }

    /// The row was refused. Returns whether that is about the row.
    pub(super) fn was_refused(&mut self, row: Row) -> bool {
        self.counts.refuse(self.refused.entry(row).or_default())
    }

    /// The row is tried again, unless it was refused too often: after a back-off of its own of at least `least`, or when the
    /// pause is over. `fraction` is random, from 0 up to 1.
    pub(super) fn again(
        &mut self,
        row: Row,
        now: Duration,
        least: Option<Duration>,
        fraction: f64,
    ) {
        let Some(refused) = self.refused.get(&row) else {
            return;
        };
        if least.is_some() && refused.are_not_chance() {
            self.refused.remove(&row);
            return;
        }
        let wait = refused.wait(least, fraction);
        self.waiting.push(Reverse((now + wait, row)));
    }
}
