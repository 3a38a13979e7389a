//! The rows of a program and their order: those that were refused and have waited stand in one line with the next new one,
//! as they do at the program's gate.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::time::Duration;

/// The number of a row, from 0.
pub(super) type Row = u32;

/// Rows without end.
pub(super) struct Rows {
    next: Row,
    waiting: BinaryHeap<Reverse<(Duration, Row)>>,
    /// Who asks next; nobody is the next new row, which is in it once.
    line: VecDeque<Option<Row>>,
    refused: HashMap<Row, Refused>,
    /// Calls of any row that were accepted.
    accepted: u64,
    /// Rows that were refused too often.
    pub(super) without_verdict: u32,
}

#[derive(Default)]
struct Refused {
    times: u32,
    /// Those after which another call was accepted before the next one.
    repeats: u32,
    /// What was accepted when it was last refused.
    accepted: u64,
}

/// A row that was refused so often, while others were accepted in between, ends.
const MOST_REFUSALS: u32 = 10;
const FIRST_BACK_OFF: f64 = 0.5;
const LONGEST_BACK_OFF: f64 = 30.0;

impl Rows {
    pub(super) fn new() -> Self {
        Self {
            next: 0,
            waiting: BinaryHeap::new(),
            line: VecDeque::from([None]),
            refused: HashMap::new(),
            accepted: 0,
            without_verdict: 0,
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
        self.accepted += 1;
        self.is_done(row);
    }

    /// Nothing more is asked for this row.
    pub(super) fn is_done(&mut self, row: Row) {
        if !self.refused.is_empty() {
            self.refused.remove(&row);
        }
    }

    /// The row was refused: how many refusals it has had before, of those that say something of the row.
    pub(super) fn was_refused(&mut self, row: Row) -> u32 {
        let refused = self.refused.entry(row).or_default();
        if refused.times > 0 && self.accepted > refused.accepted {
            refused.repeats += 1;
        }
        refused.times += 1;
        refused.accepted = self.accepted;
        refused.repeats
    }

    /// It is tried again after the wait that the service named, or else its own back-off, and not before the pacer wants
    /// it; unless it has been refused too often. `fraction` is random, from 0 up to 1.
    pub(super) fn again(
        &mut self,
        row: Row,
        now: Duration,
        named: Option<Duration>,
        wanted: Option<Duration>,
        fraction: f64,
    ) {
        let Some(refused) = self.refused.get(&row) else {
            return;
        };
        if refused.repeats + 1 >= MOST_REFUSALS {
            self.refused.remove(&row);
            self.without_verdict += 1;
            return;
        }
        // "At once" is no time to a row that is refused again and again.
        let named = named.filter(|named| !named.is_zero());
        let wait = named.unwrap_or_else(|| {
            let doubled = FIRST_BACK_OFF * f64::from(1_u32 << (refused.times - 1).min(10));
            Duration::from_secs_f64(doubled.min(LONGEST_BACK_OFF) * fraction)
        });
        let wait = wait.max(wanted.unwrap_or_default());
        self.waiting.push(Reverse((now + wait, row)));
    }
}
