//! What the service has accepted lately, calls a second, and how many were in flight.
//!
//! A refusal says only that there was too much; this says how much of it was good. Time is told.

use std::time::Duration;

/// Counts of the last seconds.
#[derive(Debug, Default)]
pub(super) struct Accepted {
    seconds: [u32; SECONDS],
    /// The second that counts now.
    now: u64,
    /// The first of all.
    first: Option<u64>,
    /// Since when, or from when on, the service does not refuse, and what it accepted since then.
    since: Option<(Duration, u32)>,
    /// The same of the time before it refused last.
    before: Option<(Duration, u32)>,
    /// The most that were in flight, in this stretch of time and the one before.
    most_in_flight: [usize; 2],
    stretch: u64,
}

/// Services that count in windows use a second, ten or sixty. Over ten seconds the first two come out exactly; over sixty
/// a limit that has fallen would be seen too late.
const SECONDS: usize = 10;

/// Of fewer calls no rate can be told.
const FEW: u32 = 4;
/// In less time than that, chance says more than the limit.
const SHORTEST: Duration = Duration::from_secs(2);
/// Two windows of a minute, the longest that is common, and a little.
const LONGEST: Duration = Duration::from_secs(150);

impl Accepted {
    /// A call was accepted.
    pub(super) fn note(&mut self, now: Duration) {
        self.turn(now);
        self.first.get_or_insert(self.now);
        if let Some(count) = self.seconds.get_mut(place(self.now)) {
            *count += 1;
        }
        let (from, count) = self.since.get_or_insert((now, 0));
        if now >= *from {
            *count = count.saturating_add(1);
        }
    }

    /// Calls a second over the last ten, or since the first; `None` when there were too few to tell.
    pub(super) fn rate(&mut self, now: Duration) -> Option<f64> {
        self.turn(now);
        let first = self.first?;
        #[allow(clippy::cast_precision_loss, reason = "ten at most")]
        let whole = (self.now - first).min(SECONDS as u64 - 1) as f64;
        let length = whole + now.as_secs_f64().fract();
        let count: u32 = self.seconds.iter().sum();
        (length > 0.5 && count >= FEW).then(|| f64::from(count) / length)
    }

    /// The service refuses now, and will until `back` from now if it says so. Calls a second since it refused before, or
    /// since the first, if that was not too long ago to say anything.
    pub(super) fn since_refusal(&mut self, now: Duration, back: Duration) -> Option<f64> {
        self.before = self.since.replace((now + back, 0));
        self.over(now + back)
    }

    /// It refuses still. Calls a second that it accepted before, over all the time up to now.
    pub(super) fn still_refused(&mut self, now: Duration) -> Option<f64> {
        self.since = Some((now, 0));
        self.over(now)
    }

    /// What it accepted before it refused last, over the time until then.
    fn over(&self, until: Duration) -> Option<f64> {
        let (from, count) = self.before?;
        let length = until.saturating_sub(from);
        (count >= FEW && (SHORTEST..=LONGEST).contains(&length))
            .then(|| f64::from(count) / length.as_secs_f64())
    }

    /// The most in one of those seconds.
    pub(super) fn peak(&mut self, now: Duration) -> f64 {
        self.turn(now);
        f64::from(
            self.seconds
                .iter()
                .copied()
                .max()
                .unwrap_or_default()
                .max(1),
        )
    }

    /// A call begins as the `level`th in flight. The most that were in flight lately, before it.
    pub(super) fn began(&mut self, now: Duration, level: usize) -> usize {
        self.turn(now);
        let [current, before] = &mut self.most_in_flight;
        let most = (*current).max(*before);
        *current = level.max(*current);
        most
    }

    /// Forgets seconds that are over.
    fn turn(&mut self, now: Duration) {
        let second = now.as_secs();
        for over in (self.now + 1..=second).take(SECONDS) {
            if let Some(count) = self.seconds.get_mut(place(over)) {
                *count = 0;
            }
        }
        self.now = self.now.max(second);
        let stretch = second / SECONDS as u64;
        if stretch > self.stretch {
            let [current, _] = self.most_in_flight;
            let before = if stretch == self.stretch + 1 {
                current
            } else {
                0
            };
            self.most_in_flight = [0, before];
            self.stretch = stretch;
        }
    }
}

#[allow(clippy::cast_possible_truncation, reason = "below ten")]
const fn place(second: u64) -> usize {
    (second % SECONDS as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_of_the_last_ten_seconds() {
        let mut accepted = Accepted::default();
        let millisecond = Duration::from_millis;
        assert_eq!(accepted.rate(millisecond(0)), None);
        for call in 0..200 {
            accepted.note(millisecond(call * 100));
        }
        let rate = accepted.rate(millisecond(19_999));
        assert!(
            rate.is_some_and(|rate| (9.9..10.2).contains(&rate)),
            "{rate:?}"
        );
        let later = accepted.rate(millisecond(24_999));
        assert!(
            later.is_some_and(|rate| (4.9..5.2).contains(&rate)),
            "{later:?}"
        );
        assert_eq!(accepted.rate(Duration::from_secs(4000)), None);
    }

    #[test]
    fn the_level_is_forgotten_after_a_while() {
        let mut accepted = Accepted::default();
        assert_eq!(accepted.began(Duration::from_secs(1), 40), 0);
        assert_eq!(accepted.began(Duration::from_secs(12), 20), 40);
        assert_eq!(accepted.began(Duration::from_secs(19), 10), 40);
        assert_eq!(accepted.began(Duration::from_secs(21), 10), 20);
        assert_eq!(accepted.began(Duration::from_secs(99), 10), 0);
    }
}
