//! The rate that the service's headers ask for, for as long as they are believed.
//!
//! What headers say is left is a hypothesis: some services send the same numbers with every answer, or count something
//! else. Within a window, the number of calls left must fall with each call.

use std::time::Duration;

use super::pause::ROUNDED;
use super::types::Allowance;
use super::window::SHORTEST_WINDOW;
use crate::telemetry::pace::Hint;

/// The last hint, and whether to believe it.
#[derive(Debug, Default)]
pub(super) struct QuotaHint {
    last: Option<HintedRate>,
    countdown: Option<Countdown>,
    /// Accepted answers that said that more calls are left than there can be.
    contradictions: u32,
}

/// What the headers of one answer ask for.
#[derive(Debug, Clone, Copy)]
struct HintedRate {
    rate: f64,
    until: Duration,
}

/// What an answer said is left of a window, and the calls since then that were made one after the other: there must be at
/// least as many fewer.
#[derive(Debug, Clone, Copy)]
struct Countdown {
    calls: u64,
    made: u64,
    /// When the last of them was answered, and what was left then.
    latest: (Duration, u64),
    until: Duration,
}

/// The longest window that calls are spread over: with the rest of a day's quota there would be a call a minute.
const LONGEST_SPREAD: Duration = Duration::from_secs(5 * 60);
/// At least this many calls are made in a window: headers can be wrong, and only a refusal must stop calls. If they are
/// right, all but the first may be refused.
const LEAST_CALLS: u64 = 3;
/// So late may a count be: some services bring their servers' counts together only now and then.
const COUNTED_WITHIN: Duration = Duration::from_millis(500);
/// After this many answers that contradict what was said before, headers do not count calls.
const CONTRADICTIONS: u32 = 2;

impl QuotaHint {
    /// Takes what the headers of an answer say, if it is of use; its call started at `began`.
    pub(super) fn note(&mut self, now: Duration, began: Duration, allowance: Allowance) {
        let Allowance { calls, lasts } = allowance;
        if self.is_disbelieved() || !(SHORTEST_WINDOW..=LONGEST_SPREAD).contains(&lasts) {
            return;
        }
        self.count_down(now, began, allowance);
        let before = self.last.filter(|last| now < last.until);
        #[allow(clippy::cast_precision_loss, reason = "a rate need not be exact")]
        let rate = calls.max(LEAST_CALLS) as f64 / lasts.as_secs_f64();
        // Spread over the rest of the window each time, the least calls would become more and more.
        let rate = match before {
            Some(before) if calls <= LEAST_CALLS => rate.min(before.rate),
            _ => rate,
        };
        self.last = Some(HintedRate {
            rate,
            until: now + lasts,
        });
    }

    /// Compares what an answer says with what was said before in this window.
    fn count_down(&mut self, now: Duration, began: Duration, allowance: Allowance) {
        let Allowance { calls, lasts } = allowance;
        let is_over = |countdown: &Countdown| {
            // It names whole seconds, so the next window may begin a little earlier: then more are left.
            let is_early = calls > countdown.latest.1 && now + ROUNDED >= countdown.until;
            now >= countdown.until || is_early
        };
        let Some(countdown) = self.countdown.as_mut().filter(|it| !is_over(it)) else {
            self.countdown = Some(Countdown {
                calls,
                made: 0,
                latest: (now, calls),
                until: began + lasts,
            });
            return;
        };
        // Calls that were out together are counted in any order.
        if began >= countdown.latest.0 + COUNTED_WITHIN {
            // Itself it need not be counted yet.
            if calls + countdown.made > countdown.calls {
                self.contradictions += 1;
            }
            countdown.made += 1;
            countdown.latest = (now, calls);
        }
    }

    /// The service refused a call, so it may have the limit that its headers name.
    pub(super) const fn refused(&mut self) {
        if !self.is_disbelieved() {
            self.contradictions = 0;
            self.countdown = None;
        }
    }

    /// Whether the headers turned out not to count calls. They stay disbelieved: a service with random refusals would hold
    /// the run up again and again.
    const fn is_disbelieved(&self) -> bool {
        self.contradictions >= CONTRADICTIONS
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
#[allow(clippy::unwrap_used)]
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

    /// An answer that comes as soon as its call starts.
    fn note(hint: &mut QuotaHint, now: Duration, allowance: Allowance) {
        hint.note(now, now, allowance);
    }

    /// Makes calls as the hint allows. All are accepted and say these numbers in turn. Returns when the hint is disbelieved.
    fn all_accepted(
        hint: &mut QuotaHint,
        mut now: Duration,
        calls: &[u64],
        lasts: u64,
    ) -> Duration {
        for calls in calls.iter().cycle() {
            note(hint, now, left(*calls, lasts));
            let Some(rate) = hint.rate(now) else {
                return now;
            };
            now += Duration::from_secs_f64(1.0 / rate);
        }
        now
    }

    #[test]
    fn headers_that_do_not_count_accepted_calls_are_disbelieved() {
        let cases: [(&[u64], u64, u128); 9] = [
            (&[0], 3, 5),
            (&[0], MINUTE, 100),
            (&[2], MINUTE, 100),
            (&[3], 300, 500),
            (&[60], MINUTE, 3),
            // Two servers that each count for themselves, or numbers that mean something else.
            (&[0, 1], MINUTE, 40),
            (&[1, 0], MINUTE, 120),
            (&[0, 4, 2], MINUTE, 100),
            (&[45, 58, 41, 52], MINUTE, 5),
        ];
        for (calls, lasts, until) in cases {
            let mut hint = QuotaHint::default();
            let at = all_accepted(&mut hint, Duration::ZERO, calls, lasts);
            assert!(
                at.as_millis().div_ceil(1_000) <= until,
                "{calls:?} in {lasts} s: {at:?}"
            );
            assert_eq!(hint.hint(at), Hint::Disbelieved);
            // It stays so, whatever the headers say.
            note(&mut hint, at, left(1, MINUTE));
            assert_eq!(hint.rate(at), None);
        }
    }

    #[test]
    fn headers_that_count_calls_are_kept_to_in_every_window() {
        let mut hint = QuotaHint::default();
        // Windows of a minute with 20 calls; a call every three seconds.
        for call in 0..200 {
            let now = seconds(call * 3);
            note(
                &mut hint,
                now,
                left(19 - call % 20, MINUTE - call * 3 % MINUTE),
            );
            assert_ne!(hint.hint(now), Hint::Disbelieved, "at {now:?}");
        }
        // One call a window: each time as many are left, and each time in another window.
        let mut hint = QuotaHint::default();
        for window in 0..20 {
            let now = seconds(window * MINUTE);
            note(&mut hint, now, left(99, MINUTE));
            assert_eq!(hint.rate(now), Some(99.0 / 60.0));
        }
    }

    #[test]
    fn windows_that_end_a_little_earlier_than_whole_seconds_say_are_no_contradiction() {
        let mut hint = QuotaHint::default();
        // Windows of 59.4 s with 20 calls, one every 2.97 s; what is left of a second is rounded up.
        for call in 0..200_u32 {
            let now = Duration::from_millis(2_970) * call;
            let rest = Duration::from_millis(2_970) * (20 - call % 20);
            let rest = rest.as_millis().div_ceil(1_000).try_into().unwrap();
            note(&mut hint, now, left(u64::from(19 - call % 20), rest));
            assert_ne!(hint.hint(now), Hint::Disbelieved, "at {now:?}");
        }
    }

    #[test]
    fn counts_that_come_together_only_now_and_then_are_believed() {
        let mut hint = QuotaHint::default();
        // 1,200 calls a minute, twenty a second, of which half a second's are not counted yet.
        for call in 0..10_000_u64 {
            let now = Duration::from_millis(call * 50);
            let counted = call % 1_200 / 10 * 10;
            let rest = MINUTE - now.as_secs() % MINUTE;
            hint.note(
                now + Duration::from_millis(40),
                now,
                left(1_200 - counted, rest),
            );
            assert_ne!(hint.hint(now), Hint::Disbelieved, "at {now:?}");
        }
    }

    #[test]
    fn counts_that_arrive_out_of_order_are_believed() {
        let mut hint = QuotaHint::default();
        for calls in [90, 92, 91, 88, 89, 90, 86, 87, 85, 85, 85, 85, 84] {
            note(&mut hint, Duration::ZERO, left(calls, MINUTE));
            assert!(hint.rate(Duration::ZERO).is_some(), "{calls}");
        }
    }

    #[test]
    fn three_calls_a_window_are_made_even_if_none_are_left() {
        let mut hint = QuotaHint::default();
        note(&mut hint, Duration::ZERO, left(0, MINUTE));
        assert_eq!(hint.rate(Duration::ZERO), Some(0.05));
        // As the window nears its end, not three calls in each rest of it.
        note(&mut hint, seconds(20), left(0, 40));
        note(&mut hint, seconds(40), left(0, 20));
        assert_eq!(hint.rate(seconds(40)), Some(0.05));
        assert_eq!(hint.hint(seconds(60)), Hint::Silent, "the window is over");
        note(&mut hint, seconds(60), left(120, MINUTE));
        assert_eq!(hint.rate(seconds(60)), Some(2.0));
    }

    #[test]
    fn a_refusal_speaks_for_headers_that_were_not_disbelieved_before() {
        let mut hint = QuotaHint::default();
        let at = all_accepted(&mut hint, Duration::ZERO, &[0], MINUTE);
        hint.refused();
        assert_eq!(hint.hint(at), Hint::Disbelieved);
        // With a refusal now and then the same number may be a count.
        let mut counts = QuotaHint::default();
        for call in 0..100 {
            note(&mut counts, seconds(call), left(0, MINUTE));
            assert!(counts.rate(seconds(call)).is_some());
            if call % 3 == 0 {
                counts.refused();
            }
        }
    }
}
