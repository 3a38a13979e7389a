//! Rows whose requests are claimed before they are called for, in a ledger that several runs share.
//!
//! They are in the window already, so that equal rows wait for the same answer. As many are claimed as will be called for within
//! about a second: what is claimed, other runs cannot ask. This only keeps them; `rows` decides.

use std::collections::VecDeque;
use std::mem;
use std::time::Duration;

use tokio::time::Instant;

use super::row_call::{ClaimedCall, RowCall};
use crate::ledger::{Holding, Urgency, WorkerNumber};

/// New requests that are claimed together at most; as many that are claimed again may come with them.
const MOST: usize = 256;
/// How long after another run's claim was seen it is asked again what has become of it.
const ASKED_AGAIN: Duration = Duration::from_millis(500);

/// Rows that are about to be called for.
pub(super) struct Claims {
    /// Claimed for this run; the first is called for next.
    ready: VecDeque<ClaimedCall>,
    /// Whether the first of them may be called for.
    holding: Holding,
    /// Those that are being claimed.
    out: Vec<RowCall>,
    /// Those that are claimed next.
    gathered: Vec<RowCall>,
    /// Those that another run calls for, each with the time to ask again; the first is due first.
    taken: VecDeque<(Instant, RowCall)>,
    /// How many of those were reported last.
    reported: usize,
}

impl Claims {
    /// None yet.
    pub(super) const fn new() -> Self {
        Self {
            ready: VecDeque::new(),
            holding: Holding::Held,
            out: Vec::new(),
            gathered: Vec::new(),
            taken: VecDeque::new(),
            reported: 0,
        }
    }

    /// Whether no row is waiting to be called for.
    pub(super) fn is_empty(&self) -> bool {
        self.ready.is_empty()
            && self.out.is_empty()
            && self.gathered.is_empty()
            && self.taken.is_empty()
    }

    /// Whether requests are being claimed.
    pub(super) const fn is_out(&self) -> bool {
        !self.out.is_empty()
    }

    /// How many rows another run calls for, if that has changed since it was last asked.
    pub(super) fn new_taken(&mut self) -> Option<usize> {
        let taken = self.taken.len();
        let before = mem::replace(&mut self.reported, taken);
        (taken != before).then_some(taken)
    }

    /// Whether a row may be called for.
    pub(super) fn may_call(&self) -> bool {
        !self.ready.is_empty() && self.holding == Holding::Held
    }

    /// The worker whose lease must be renewed before a row may be called for.
    pub(super) fn awaits_renewal(&self) -> Option<WorkerNumber> {
        let waits = self.holding == Holding::AwaitsRenewal;
        self.next_worker().filter(|_| waits)
    }

    /// The worker that has claimed the next row.
    pub(super) fn next_worker(&self) -> Option<WorkerNumber> {
        Some(self.ready.front()?.worker)
    }

    /// What the claim of the next row is worth.
    pub(super) fn set_holding(&mut self, holding: Holding) {
        self.holding = holding;
        if holding == Holding::Lost {
            // They are claimed again, before the others.
            let lost = self.ready.drain(..).map(|claimed| claimed.call);
            self.gathered.splice(0..0, lost);
            self.holding = Holding::Held;
        }
    }

    /// The row to call for.
    pub(super) fn next(&mut self) -> Option<ClaimedCall> {
        self.ready.pop_front()
    }

    /// The room for new rows, where so many may be claimed ahead. Those that must be claimed again take some as well.
    pub(super) fn room(&self, ahead: usize) -> usize {
        let rows = self.ready.len() + self.out.len() + self.gathered.len();
        ahead.min(MOST).saturating_sub(rows)
    }

    /// A row is claimed next.
    pub(super) fn gather(&mut self, call: RowCall) {
        self.gathered.push(call);
    }

    /// Whether rows may be claimed, where so many may be ahead: none are being claimed, and half of those that are claimed
    /// have been called for, as few large batches cost less than many small ones, or some must be claimed again.
    pub(super) fn may_claim(&self, ahead: usize, now: Instant) -> bool {
        let again = self.ask_again_at().is_some_and(|at| at <= now);
        !self.is_out() && (again || self.ready.len() <= ahead.min(MOST) / 2)
    }

    /// How soon more rows must be claimed: while there are claimed ones to call for, answers come, with which claims are
    /// stored at no extra cost. Where none is left and there was room for more rows than have been read, more follow soon.
    pub(super) fn urgency(&self, had_room: bool) -> Urgency {
        match (self.ready.is_empty(), had_room) {
            (false, _) => Urgency::WithAnswers,
            (true, true) => Urgency::Soon,
            (true, false) => Urgency::Now,
        }
    }

    /// Starts to claim rows: those that must be claimed again, or may be by now, and those that were gathered.
    pub(super) fn start(&mut self, now: Instant) -> &[RowCall] {
        while self.out.len() < MOST && self.taken.front().is_some_and(|(at, _)| *at <= now) {
            self.out
                .extend(self.taken.pop_front().map(|(_, call)| call));
        }
        self.out.append(&mut self.gathered);
        &self.out
    }

    /// When it is time to ask again about the first taken row.
    pub(super) fn ask_again_at(&self) -> Option<Instant> {
        self.taken.front().map(|(at, _)| *at)
    }

    /// Nothing is being claimed any more: the rows that were.
    pub(super) fn take_out(&mut self) -> Vec<RowCall> {
        mem::take(&mut self.out)
    }

    /// A row is claimed by this worker.
    pub(super) fn add_ready(&mut self, call: RowCall, worker: WorkerNumber) {
        self.ready.push_back(ClaimedCall { call, worker });
    }

    /// A row was not claimed: another run calls for it now.
    pub(super) fn add_taken(&mut self, call: RowCall, now: Instant) {
        self.taken.push_back((now + ASKED_AGAIN, call));
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::ledger::RequestKey;
    use crate::row::RowNumber;

    #[test]
    fn claims_wait_for_answers_while_there_is_a_row_to_call_for_and_for_nothing_else() {
        let mut claims = Claims::new();
        assert_eq!(claims.urgency(false), Urgency::Now, "no call can start");
        assert_eq!(claims.urgency(true), Urgency::Soon, "more are being read");
        let call = RowCall {
            row: RowNumber::FIRST,
            body: Bytes::new(),
            key: RequestKey::some(1),
            taken_over: false,
        };
        claims.add_ready(call, WorkerNumber::default());
        assert_eq!(claims.urgency(false), Urgency::WithAnswers);
        assert!(claims.next().is_some());
        assert_eq!(
            claims.urgency(false),
            Urgency::Now,
            "the last one has started"
        );
    }
}
