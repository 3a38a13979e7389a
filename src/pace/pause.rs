//! The pause of all calls when the service asks for fewer.
//!
//! Times are passed in. Of many calls that were out together, the first refusal counts; a later one only if it asks for a
//! longer pause.

use std::time::Duration;

use super::window::LONGEST_WINDOW;
use crate::telemetry::pace::Pause;

/// The present pause, and those before it.
#[derive(Debug)]
pub(super) struct Pauses {
    /// How long the run waits for a service that only refuses: then a last call is made.
    longest: Duration,
    /// When the last one ends; zero before the first.
    until: Duration,
    guess: Guess,
    /// Time in pauses since the service last did anything but refuse.
    in_a_row: Duration,
}

/// How long a pause is if the service names no time.
#[derive(Debug, Clone, Copy)]
enum Guess {
    /// The length of the next one.
    Next(Duration),
    /// The length of the last one, and nothing was answered since.
    Tried(Duration),
}

/// The first pause if the service names no time: short, as a few calls too many are soon made up for …
const FIRST_GUESS: Duration = Duration::from_millis(500);
/// … doubling while it is too short, up to [`LONGEST_WINDOW`]. A pause that was long enough halves the next one, down to this:
/// more than a round trip, so that a single call finds out first.
const SHORTEST_GUESS: Duration = Duration::from_millis(125);
/// Headers name times in whole seconds: a pause that ends less than this later is the same one, and a window may end so much
/// earlier than they say.
pub(super) const ROUNDED: Duration = Duration::from_secs(1);
/// A named pause is stretched by up to this share, so that many programs do not come back at the same moment.
const JITTER: f64 = 0.1;

/// The wait that a refusal names, unless that is none.
pub(super) fn named(asked: Option<Duration>) -> Option<Duration> {
    asked.filter(|asked| !asked.is_zero())
}

/// A named pause, a little longer by chance. `fraction` is random, from 0 up to 1.
pub(super) fn stretched(named: Duration, fraction: f64) -> Duration {
    named.mul_f64(1.0 + JITTER * fraction)
}

impl Pauses {
    /// Those of a run that stops after `longest` in which it was only refused.
    pub(super) const fn new(longest: Duration) -> Self {
        Self {
            longest,
            until: Duration::ZERO,
            guess: Guess::Next(FIRST_GUESS),
            in_a_row: Duration::ZERO,
        }
    }

    /// The end of the present pause, if there is one.
    pub(super) fn until(&self, now: Duration) -> Option<Duration> {
        (self.until > now).then_some(self.until)
    }

    /// Whether a call that started then started after the last pause.
    pub(super) fn is_after(&self, began: Duration) -> bool {
        began >= self.until
    }

    /// Pauses all calls because the one that started at `began` was refused. `fraction` is random, from 0 up to 1. Returns the
    /// pause if it is a new or longer one.
    pub(super) fn begin(
        &mut self,
        now: Duration,
        began: Duration,
        asked: Option<Duration>,
        fraction: f64,
    ) -> Option<Pause> {
        let named = named(asked);
        let length = if let Some(named) = named {
            stretched(named, fraction)
        } else if !self.is_after(began) {
            // It was sent before the last pause started and says nothing new.
            return None;
        } else {
            // "Come back immediately" names no time: believed, it would mean one call after another for ever.
            let guess = match self.guess {
                Guess::Next(next) => next,
                Guess::Tried(last) => (last * 2).min(LONGEST_WINDOW),
            };
            self.guess = Guess::Tried(guess);
            match self.longest.checked_sub(self.in_a_row) {
                Some(rest) if !rest.is_zero() => guess.min(rest),
                _ => guess,
            }
        };
        let until = now + length;
        // The refusals of calls that were out together ask for the same pause, each a little later.
        let same = if self.is_after(began) {
            Duration::ZERO
        } else {
            ROUNDED
        };
        if self.until + same >= until {
            return None;
        }
        // Time that overlaps the pause before counts once.
        let more = until.saturating_sub(self.until.max(now));
        self.in_a_row += more;
        self.until = until;
        Some(Pause {
            length,
            asked: named,
        })
    }

    /// The service did the work of a call that started at `began`: the last guess was long enough, unless the call started before
    /// the pause.
    pub(super) fn answered(&mut self, began: Duration) {
        if self.is_after(began) {
            self.guess = Guess::Next(match self.guess {
                Guess::Tried(last) => (last / 2).max(SHORTEST_GUESS),
                Guess::Next(next) => next,
            });
        }
        self.not_refused(began);
    }

    /// A call that started at `began` ended in another way than refused.
    pub(super) fn not_refused(&mut self, began: Duration) {
        if self.is_after(began) {
            self.in_a_row = Duration::ZERO;
        }
    }

    /// The total length of the pauses since then. It does not include time in which a laptop slept or no rows came.
    pub(super) const fn in_a_row(&self) -> Duration {
        self.in_a_row
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);
    const LONG: Duration = Duration::from_secs(900);

    /// Refuses a call that started right after the pause before. Returns the length of the new pause in milliseconds.
    fn refuse(pauses: &mut Pauses, now: &mut Duration, asked: Option<Duration>) -> u128 {
        let began = pauses.until.max(*now);
        *now = began + MILLISECOND;
        let pause = pauses.begin(*now, began, asked, 0.0);
        let again = pauses.begin(*now + MILLISECOND, began, asked, 0.0);
        assert_eq!(again, None, "sent with the first");
        pause.map_or(0, |pause| pause.length.as_millis())
    }

    #[test]
    fn refusals_of_calls_sent_together_count_once_and_guesses_double() {
        let (mut pauses, mut now) = (Pauses::new(LONG), Duration::ZERO);
        let lengths = [(); 9].map(|()| refuse(&mut pauses, &mut now, None));
        let doubling = [
            500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000,
        ];
        assert_eq!(lengths, doubling);
        assert_eq!(pauses.in_a_row().as_millis(), 183_500);
        pauses.answered(now);
        assert_eq!(
            pauses.in_a_row().as_millis(),
            183_500,
            "the call started before the pause"
        );
        let after = now + LONGEST_WINDOW;
        pauses.not_refused(after);
        assert_eq!(pauses.in_a_row(), Duration::ZERO);
        pauses.answered(after);
        assert_eq!(
            refuse(&mut pauses, &mut now, None),
            30_000,
            "half of what was long enough"
        );
    }

    #[test]
    fn the_last_guess_ends_when_the_run_waits_no_longer() {
        let (mut pauses, mut now) = (Pauses::new(Duration::from_secs(5)), Duration::ZERO);
        let lengths = [(); 4].map(|()| refuse(&mut pauses, &mut now, None));
        assert_eq!(lengths, [500, 1_000, 2_000, 1_500]);
    }

    #[test]
    fn a_wait_of_zero_is_none() {
        let (mut pauses, mut now) = (Pauses::new(LONG), Duration::ZERO);
        let lengths = [(); 4].map(|()| refuse(&mut pauses, &mut now, Some(Duration::ZERO)));
        assert_eq!(lengths, [500, 1_000, 2_000, 4_000]);
    }

    #[test]
    fn a_named_pause_is_stretched_a_little_and_a_longer_one_replaces_it() {
        let mut pauses = Pauses::new(LONG);
        let asked = Duration::from_secs(30);
        let pause = pauses.begin(Duration::ZERO, Duration::ZERO, Some(asked), 0.5);
        assert_eq!(pause.unwrap().length, Duration::from_millis(31_500));
        let shorter = pauses.begin(MILLISECOND, Duration::ZERO, Some(asked / 2), 0.5);
        assert_eq!(shorter, None);
        let longer = pauses.begin(MILLISECOND, Duration::ZERO, Some(asked * 2), 0.0);
        assert_eq!(longer.unwrap().length, asked * 2);
        assert_eq!(pauses.until(asked), Some(asked * 2 + MILLISECOND));
        assert_eq!(pauses.until(asked * 3), None);
    }
}
