//! The rate that the service's headers ask for, for as long as they are believed.
//!
//! What headers say is left is a hypothesis: some services send the same numbers with every answer, or count something
//! else in them. While calls are accepted, a count of what is left must change.

use std::time::Duration;

use super::calls::Allowance;
use crate::telemetry::event::Hint;

/// What was asked for last, and whether it is to be believed.
#[derive(Debug, Default)]
pub(super) struct QuotaHint {
    asked: Option<Asked>,
    /// Answers in a row that said that just as many calls are left, each in the window of the one before.
    alike: u32,
    disbelieved: bool,
    /// How often it came to be.
    times: u32,
}

#[derive(Debug, Clone, Copy)]
struct Asked {
    calls: u64,
    rate: f64,
    until: Duration,
}

/// Headers tell whole seconds, and some the time until a bucket is full: over less than this a rate comes out anyhow.
const SHORTEST_SPREAD: Duration = Duration::from_secs(3);
/// Windows up to this are spread evenly when headers tell what is left. Of a day's quota nobody wants a call a minute.
const LONGEST_SPREAD: Duration = Duration::from_secs(5 * 60);
/// So many calls a window are made in any case: headers can be wrong, and only a refusal stops. Where they are right, all
/// but the first of them may be refused.
const LEAST_CALLS: u64 = 3;
/// So many accepted answers that say that as many calls are left are not a count. At [`LEAST_CALLS`] they take four thirds
/// of the window that is told.
const ALIKE: u32 = 5;
/// Disbelieved so often, it stays so: a service that refuses some calls at any pace would hold the run up again and again.
const MOST_TIMES: u32 = 2;

impl QuotaHint {
    /// Takes what the headers of an answer said, if it is of use.
    pub(super) fn note(&mut self, now: Duration, allowance: Allowance) {
        let Allowance { calls, lasts } = allowance;
        if !(SHORTEST_SPREAD..=LONGEST_SPREAD).contains(&lasts) {
            return;
        }
        let before = self.asked.filter(|asked| now < asked.until);
        let is_alike = before.is_some_and(|before| before.calls == calls);
        self.alike = if is_alike { self.alike + 1 } else { 1 };
        if self.alike >= ALIKE && !self.disbelieved {
            self.disbelieved = true;
            self.times += 1;
        }
        #[allow(clippy::cast_precision_loss, reason = "a rate is no exact number")]
        let rate = calls.max(LEAST_CALLS) as f64 / lasts.as_secs_f64();
        // Spread over what is left of the window each time, they would be more and more.
        let rate = match before {
            Some(before) if calls <= LEAST_CALLS => rate.min(before.rate),
            _ => rate,
        };
        self.asked = Some(Asked {
            calls,
            rate,
            until: now + lasts,
        });
    }

    /// The service refused a call: it may have a limit as its headers say.
    pub(super) const fn refused(&mut self) {
        self.alike = 0;
        if self.times < MOST_TIMES {
            self.disbelieved = false;
        }
    }

    /// Calls a second, for as long as headers ask for it and are believed.
    pub(super) fn rate(&self, now: Duration) -> Option<f64> {
        self.asked
            .filter(|asked| now < asked.until && !self.disbelieved)
            .map(|asked| asked.rate)
    }

    /// The same as people should know it.
    pub(super) fn hint(&self, now: Duration) -> Hint {
        match self.rate(now) {
            Some(rate) => Hint::Asks(rate),
            None if self.disbelieved => Hint::Disbelieved,
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

    /// What is left, and for how many seconds.
    fn left(calls: u64, lasts: u64) -> Allowance {
        Allowance {
            calls,
            lasts: seconds(lasts),
        }
    }

    /// Makes calls when they may be made, which are all accepted and say the same; when the hint is disbelieved.
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
    fn what_does_not_count_calls_that_are_accepted_is_disbelieved() {
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
            // It stays so, whatever is said.
            hint.note(at, left(1, MINUTE));
            assert_eq!(hint.rate(at), None);
        }
    }

    #[test]
    fn what_counts_calls_is_kept_to_in_any_window() {
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
    fn answers_out_of_order_are_a_count_as_well() {
        let mut hint = QuotaHint::default();
        for calls in [90, 92, 91, 88, 89, 90, 86, 87, 85, 85, 85, 85, 84] {
            hint.note(Duration::ZERO, left(calls, MINUTE));
            assert!(hint.rate(Duration::ZERO).is_some(), "{calls}");
        }
    }

    #[test]
    fn where_nothing_is_left_three_calls_a_window_are_made() {
        let mut hint = QuotaHint::default();
        hint.note(Duration::ZERO, left(0, MINUTE));
        assert_eq!(hint.rate(Duration::ZERO), Some(0.05));
        // Of a window that is told to end, not three in what is left of it each time.
        hint.note(seconds(20), left(0, 40));
        hint.note(seconds(40), left(0, 20));
        assert_eq!(hint.rate(seconds(40)), Some(0.05));
        assert_eq!(hint.hint(seconds(60)), Hint::Silent, "the window is over");
        hint.note(seconds(60), left(120, MINUTE));
        assert_eq!(hint.rate(seconds(60)), Some(2.0));
    }

    #[test]
    fn a_refusal_has_it_believed_again_and_the_second_time_not() {
        let mut hint = QuotaHint::default();
        let at = all_accepted(&mut hint, Duration::ZERO, 0, MINUTE);
        hint.refused();
        assert_eq!(hint.hint(at), Hint::Asks(0.05));
        let later = all_accepted(&mut hint, at + seconds(20), 0, MINUTE);
        assert_eq!(later, at + seconds(100), "from the start");
        hint.refused();
        assert_eq!(hint.hint(later), Hint::Disbelieved);
        // A service that refuses now and then counts.
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
