//! The rate that the service's headers ask for, for as long as they are believed.
//!
//! What headers say is left is a hypothesis: some services send the same numbers with every answer, or count something
//! else. While calls are accepted, the number of calls left must change.

use std::time::Duration;

use super::types::Allowance;
use super::window::SHORTEST_WINDOW;
use crate::telemetry::pace::Hint;

/// The last hint, and whether to believe it.
#[derive(Debug, Default)]
pub(super) struct QuotaHint {
    last: Option<HintedRate>,
    /// Answers in a row that said that the same number of calls is left, each within the window of the one before.
    alike: u32,
}

/// What the headers of one answer ask for.
#[derive(Debug, Clone, Copy)]
struct HintedRate {
    calls: u64,
    rate: f64,
    until: Duration,
}

/// The longest window that calls are spread over: with the rest of a day's quota there would be a call a minute.
const LONGEST_SPREAD: Duration = Duration::from_secs(5 * 60);
/// At least this many calls are made in a window: headers can be wrong, and only a refusal must stop calls. If they are
/// right, all but the first may be refused.
const LEAST_CALLS: u64 = 3;
/// This many accepted answers that say the same number is left do not count calls. At [`LEAST_CALLS`] they take four thirds
/// of the window.
const ALIKE: u32 = 5;

impl QuotaHint {
    /// Takes what the headers of an answer say, if it is of use.
    pub(super) fn note(&mut self, now: Duration, allowance: Allowance) {
        let Allowance { calls, lasts } = allowance;
        if self.is_disbelieved() || !(SHORTEST_WINDOW..=LONGEST_SPREAD).contains(&lasts) {
            return;
        }
        let before = self.last.filter(|last| now < last.until);
        let is_alike = before.is_some_and(|before| before.calls == calls);
        self.alike = if is_alike { self.alike + 1 } else { 1 };
        #[allow(clippy::cast_precision_loss, reason = "a rate need not be exact")]
        let rate = calls.max(LEAST_CALLS) as f64 / lasts.as_secs_f64();
        // Spread over the rest of the window each time, the least calls would become more and more.
        let rate = match before {
            Some(before) if calls <= LEAST_CALLS => rate.min(before.rate),
            _ => rate,
        };
        self.last = Some(HintedRate {
            calls,
            rate,
            until: now + lasts,
        });
    }

    /// The service refused a call, so it may have the limit that its headers name.
    pub(super) const fn refused(&mut self) {
        if !self.is_disbelieved() {
            self.alike = 0;
        }
    }

    /// Whether the headers turned out not to count calls. They stay disbelieved: a service with random refusals would hold
    /// the run up again and again.
    const fn is_disbelieved(&self) -> bool {
        self.alike >= ALIKE
    }

    /// Calls a second that the headers ask for, while they are believed.
    pub(super) fn rate(&self, now: Duration) -> Option<f64> {
        self.last
            .filter(|last| now < last.until && !self.is_disbelieved())
            .map(|last| last.rate)
    }

    /// The same, for people to read.
    pub(super) fn hint(&self, now: Duration) -> Hint {
        match self.rate(now) {
            Some(rate) => Hint::Asks(rate),
            None if self.is_disbelieved() => Hint::Disbelieved,
            None => Hint::Silent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: u64 = 60;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// This many calls are left for this many seconds.
    fn left(calls: u64, lasts: u64) -> Allowance {
        Allowance {
            calls,
            lasts: seconds(lasts),
        }
    }

    /// Makes calls as the hint allows. All are accepted and say the same. Returns when the hint is disbelieved.
    fn all_accepted(hint: &mut QuotaHint, mut now: Duration, calls: u64, lasts: u64) -> Duration {
        loop {
            hint.note(now, left(calls, lasts));
            let Some(rate) = hint.rate(now) else {
                return now;
            };
            now += Duration::from_secs_f64(1.0 / rate);
        }
    }

    #[test]
    fn headers_that_do_not_count_accepted_calls_are_disbelieved() {
        for (calls, lasts, until) in [(0, MINUTE, 80), (2, MINUTE, 80), (3, 300, 400), (60, 60, 4)]
        {
            let mut hint = QuotaHint::default();
            let at = all_accepted(&mut hint, Duration::ZERO, calls, lasts);
            assert_eq!(
                at.as_millis().div_ceil(1_000),
                until,
                "{calls} in {lasts} s"
            );
            assert_eq!(hint.hint(at), Hint::Disbelieved);
            // It stays so, whatever the headers say.
            hint.note(at, left(1, MINUTE));
            assert_eq!(hint.rate(at), None);
        }
    }

    #[test]
    fn headers_that_count_calls_are_kept_to_in_every_window() {
        let mut hint = QuotaHint::default();
        // Windows of a minute with 20 calls; a call every three seconds.
        for call in 0..200 {
            let now = seconds(call * 3);
            hint.note(now, left(19 - call % 20, MINUTE - call * 3 % MINUTE));
            assert_ne!(hint.hint(now), Hint::Disbelieved, "at {now:?}");
        }
        // One call a window: each time as many are left, and each time in another window.
        let mut hint = QuotaHint::default();
        for window in 0..20 {
            let now = seconds(window * MINUTE);
            hint.note(now, left(99, MINUTE));
            assert_eq!(hint.rate(now), Some(99.0 / 60.0));
        }
    }

    #[test]
    fn counts_that_arrive_out_of_order_are_believed() {
        let mut hint = QuotaHint::default();
        for calls in [90, 92, 91, 88, 89, 90, 86, 87, 85, 85, 85, 85, 84] {
            hint.note(Duration::ZERO, left(calls, MINUTE));
            assert!(hint.rate(Duration::ZERO).is_some(), "{calls}");
        }
    }

    #[test]
    fn three_calls_a_window_are_made_even_if_none_are_left() {
        let mut hint = QuotaHint::default();
        hint.note(Duration::ZERO, left(0, MINUTE));
        assert_eq!(hint.rate(Duration::ZERO), Some(0.05));
        // As the window nears its end, not three calls in each rest of it.
        hint.note(seconds(20), left(0, 40));
        hint.note(seconds(40), left(0, 20));
        assert_eq!(hint.rate(seconds(40)), Some(0.05));
        assert_eq!(hint.hint(seconds(60)), Hint::Silent, "the window is over");
        hint.note(seconds(60), left(120, MINUTE));
        assert_eq!(hint.rate(seconds(60)), Some(2.0));
    }

    #[test]
    fn a_refusal_speaks_for_headers_that_were_not_disbelieved_before() {
        let mut hint = QuotaHint::default();
        let at = all_accepted(&mut hint, Duration::ZERO, 0, MINUTE);
        hint.refused();
        assert_eq!(hint.hint(at), Hint::Disbelieved);
        // With a refusal now and then the same number may be a count.
        let mut counts = QuotaHint::default();
        for call in 0..100 {
            counts.note(seconds(call), left(0, MINUTE));
            assert!(counts.rate(seconds(call)).is_some());
            if call % 3 == 0 {
                counts.refused();
            }
        }
    }
}
