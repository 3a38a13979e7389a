//! How calls ended, in the order in which they started.
//!
//! A service refuses sooner than it accepts. So while the pace changes, more of the calls that have just ended were refused
//! than of the calls that were sent. In the order in which they started, that is not so.

use std::collections::VecDeque;
use std::time::Duration;

/// How a row's first call ended, and when it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::pace) enum FirstTryOutcome {
    Accepted(Duration),
    Refused(Duration),
    /// The row had been refused before. That tells how much the service accepts, but not which share.
    AcceptedLater(Duration),
    /// A later call was refused, or the call ended in another way.
    NotCounted,
}

/// Calls that have ended while earlier ones are still out.
#[derive(Debug)]
pub(super) struct InOrder {
    /// The number of the first call that is out.
    first: u64,
    ended: VecDeque<Option<FirstTryOutcome>>,
}

/// Once this many times as many calls have ended as are out, the first one is not waited for any more: it may hang for long,
/// and meanwhile no refusal would be seen.
const AHEAD: usize = 16;

impl Default for InOrder {
    fn default() -> Self {
        Self::from(1)
    }
}

impl InOrder {
    /// All calls from this number on.
    pub(super) const fn from(first: u64) -> Self {
        Self {
            first,
            ended: VecDeque::new(),
        }
    }

    /// A call ended.
    pub(super) fn end(&mut self, number: u64, outcome: FirstTryOutcome) {
        let Some(place) = number
            .checked_sub(self.first)
            .and_then(|place| usize::try_from(place).ok())
        else {
            return;
        };
        if self.ended.len() <= place {
            self.ended.resize(place + 1, None);
        }
        if let Some(slot) = self.ended.get_mut(place) {
            *slot = Some(outcome);
        }
    }

    /// The outcome of the next call in order, if that call has ended. This many are out.
    pub(super) fn next(&mut self, out: usize) -> Option<FirstTryOutcome> {
        let first = *self.ended.front()?;
        let skipped = self.ended.len() > out.saturating_mul(AHEAD);
        let first = first.or(skipped.then_some(FirstTryOutcome::NotCounted))?;
        self.ended.pop_front();
        self.first += 1;
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn accepted(second: u64) -> FirstTryOutcome {
        FirstTryOutcome::Accepted(Duration::from_secs(second))
    }

    fn all(calls: &mut InOrder) -> Vec<FirstTryOutcome> {
        std::iter::from_fn(|| calls.next(2)).collect()
    }

    #[test]
    fn outcomes_come_in_the_order_in_which_calls_started() {
        let mut calls = InOrder::from(5);
        calls.end(4, accepted(4));
        calls.end(7, accepted(7));
        calls.end(6, FirstTryOutcome::NotCounted);
        assert_eq!(all(&mut calls), []);
        calls.end(5, accepted(5));
        assert_eq!(
            all(&mut calls),
            [accepted(5), FirstTryOutcome::NotCounted, accepted(7)],
            "and none from before"
        );
    }

    #[test]
    fn a_hanging_call_does_not_hold_up_the_others_for_ever() {
        let mut calls = InOrder::from(1);
        for call in 2..=32 {
            calls.end(call, accepted(call));
        }
        assert_eq!(calls.next(2), None, "16 times the two that are out");
        calls.end(33, accepted(0));
        assert_eq!(all(&mut calls).len(), 33);
    }
}
