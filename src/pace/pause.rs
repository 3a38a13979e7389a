//! The pause that holds everybody when the service asks for less.
//!
//! Time is told. Of many calls that were out together the first refusal counts; a later one only when it asks for more.

use std::time::Duration;

use crate::telemetry::event::Pause;

/// The pause that is on, and those before it.
#[derive(Debug)]
pub(super) struct Pauses {
    until: Option<Duration>,
    guess: Guess,
    /// Time in pauses since the service last said anything else.
    in_a_row: Duration,
}

/// How long a pause is if the service names no time.
#[derive(Debug, Clone, Copy)]
enum Guess {
    /// The next one is so long.
    Next(Duration),
    /// The same, and it was told to come back at once.
    AtOnce(Duration),
    /// The last one was so long, and nothing was answered since.
    Tried(Duration),
}

/// The first pause when the service asks for less without naming a time …
const FIRST_GUESS: Duration = Duration::from_millis(500);
/// … doubling when it was too short, up to this: a minute is the window of most limits. When it was long enough, the next
/// one is half as long …
const LONGEST_GUESS: Duration = Duration::from_secs(60);
/// … down to this: more than a round trip, so that a single call finds out first.
const SHORTEST_GUESS: Duration = Duration::from_millis(125);
/// Pauses are named in whole seconds: less than one more is the same pause.
const SAME: Duration = Duration::from_secs(1);
/// The share by which a named pause is stretched at most, so that many programs do not come back in the same instant.
const JITTER: f64 = 0.1;

impl Default for Pauses {
    fn default() -> Self {
        Self {
            until: None,
            guess: Guess::Next(FIRST_GUESS),
            in_a_row: Duration::ZERO,
        }
    }
}

impl Pauses {
    /// The end of the pause that is on.
    pub(super) fn until(&self, now: Duration) -> Option<Duration> {
        self.until.filter(|until| *until > now)
    }

    /// Whether a call that began then began after the last pause.
    pub(super) fn is_after(&self, began: Duration) -> bool {
        self.until.is_none_or(|until| began >= until)
    }

    /// Pauses all calls because the one that began at `began` was refused. `fraction` is random, from 0 up to 1.
    pub(super) fn begin(
        &mut self,
        now: Duration,
        began: Duration,
        asked: Option<Duration>,
        fraction: f64,
    ) -> Option<Pause> {
        let named = asked.filter(|asked| !asked.is_zero());
        let length = if let Some(named) = named {
            named.mul_f64(1.0 + JITTER * fraction)
        } else if !self.is_after(began) {
            // It was sent before the last pause was decided and says nothing new.
            return None;
        } else {
            match (self.guess, asked) {
                // "Come back at once" is believed once: said again and again it would be a call after a call for ever.
                (Guess::Next(next), Some(_)) => {
                    self.guess = Guess::AtOnce(next);
                    Duration::ZERO
                }
                (Guess::Next(next) | Guess::AtOnce(next), _) => self.guess(next),
                (Guess::Tried(last), _) => self.guess((last * 2).min(LONGEST_GUESS)),
            }
        };
        let until = now + length;
        // Of calls that were out together each asks for the same, and is answered a little later.
        let same = if self.is_after(began) {
            Duration::ZERO
        } else {
            SAME
        };
        if self.until.is_some_and(|known| known + same >= until) {
            return None;
        }
        // What overlaps the pause before counts once.
        let more = until.saturating_sub(self.until.map_or(now, |known| known.max(now)));
        self.in_a_row += more;
        self.until = Some(until);
        (!length.is_zero()).then_some(Pause {
            length,
            asked: named,
        })
    }

    /// The service did the work of a call that began at `began`: the last guess was long enough. What was out
    /// before the pause says nothing of it.
    pub(super) fn answered(&mut self, began: Duration) {
        if self.is_after(began) {
            self.guess = Guess::Next(match self.guess {
                Guess::Tried(last) => (last / 2).max(SHORTEST_GUESS),
                Guess::Next(next) | Guess::AtOnce(next) => next,
            });
        }
        self.not_refused(began);
    }

    fn guess(&mut self, length: Duration) -> Duration {
        self.guess = Guess::Tried(length);
        length
    }

    /// The service said something else than to wait to a call that began at `began`.
    pub(super) fn not_refused(&mut self, began: Duration) {
        if self.is_after(began) {
            self.in_a_row = Duration::ZERO;
        }
    }

    /// How long the pauses have been since then, together. Time that a laptop slept or a producer was silent is not in it.
    pub(super) const fn in_a_row(&self) -> Duration {
        self.in_a_row
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    /// Refuses a call that began at once after the pause before; the pause's length in milliseconds.
    fn refuse(pauses: &mut Pauses, now: &mut Duration, asked: Option<Duration>) -> u128 {
        let began = pauses.until.map_or(*now, |until| until.max(*now));
        *now = began + MILLISECOND;
        let pause = pauses.begin(*now, began, asked, 0.0);
        let again = pauses.begin(*now + MILLISECOND, began, asked, 0.0);
        assert_eq!(again, None, "sent with the first");
        pause.map_or(0, |pause| pause.length.as_millis())
    }

    #[test]
    fn refusals_of_calls_sent_together_count_once_and_guesses_double() {
        let (mut pauses, mut now) = (Pauses::default(), Duration::ZERO);
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
            "was out before the pause"
        );
        let after = now + LONGEST_GUESS;
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
    fn come_back_at_once_is_believed_once() {
        let (mut pauses, mut now) = (Pauses::default(), Duration::ZERO);
        let lengths = [(); 4].map(|()| refuse(&mut pauses, &mut now, Some(Duration::ZERO)));
        assert_eq!(lengths, [0, 500, 1_000, 2_000]);
    }

    #[test]
    fn a_named_pause_is_stretched_a_little_and_a_longer_one_counts() {
        let mut pauses = Pauses::default();
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
