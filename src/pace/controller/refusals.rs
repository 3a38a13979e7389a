//! What a refusal says of the pace, and how much less is sent from then on.

use std::time::Duration;

use super::{Controller, FIRST_RATE, SinceCut};
use crate::pace::background::About;
use crate::pace::calls::{Call, Change};
use crate::pace::climb::GROWTH;

/// With fewer answers nothing was measured yet.
const FEW_ANSWERS: u32 = 10;
/// While the rate still doubles, so many in flight and more are a new highest number again and again, so that the first
/// refusal comes at one by chance; and taken for their limit, it costs as many refusals again.
const MANY_AT_FIRST: usize = 16;
/// Whoever has not waited for the pace for so long does not use it.
const IDLE: Duration = Duration::from_secs(10);

impl Controller {
    pub(super) fn throttled(
        &mut self,
        now: Duration,
        call: Call,
        wait: Option<Duration>,
        fraction: f64,
    ) -> Option<Change> {
        let scout = self.scouting && self.pauses.is_after(call.began);
        let counts = call.began >= self.last_cut && !scout;
        let about = if counts {
            let below = self.rate.is_below_ceiling();
            self.background.refused(now, self.rate.value(), below)
        } else {
            self.background.refused_as_well()
        };
        // Of calls that were out together each is told the same.
        let back = wait
            .filter(|_| counts || scout)
            .and_then(|wait| self.window.named(wait));
        if counts {
            self.last_cut = now;
        }
        match about {
            About::Pace if counts => {
                self.interval.refused = true;
                self.cut(now, call, back.unwrap_or_default());
                self.since_cut = SinceCut::default();
            }
            // A single call was not too fast: the window is not over yet.
            About::Pace if scout && wait.is_none() => {
                if let Some(accepted) = self.accepted.still_refused(now) {
                    self.rate.counts_in_windows(accepted);
                    self.set_limiter(now);
                }
                self.window.is_at_least(self.pauses.in_a_row());
            }
            About::Pace | About::Chance => {}
            About::ChanceAllAlong => {
                self.rate.forget(self.rate.value());
                self.in_flight.forget(self.in_flight.value());
                self.set_limiter(now);
            }
        }
        let pause = self.pauses.begin(now, call.began, wait, fraction)?;
        self.scouting = true;
        Some(Change::Paused(pause))
    }

    /// Less from now on. The service accepts nothing until `back` from now, if it is believed to know.
    fn cut(&mut self, now: Duration, call: Call, back: Duration) {
        // Between two moments at which it refuses, a service accepts just what its limit is, however it counts.
        let since = self.accepted.since_refusal(now, back);
        // Of a run that has hardly begun, or had nothing to ask, a refusal is about somebody else's calls or the hour.
        let little = self.since_cut.answers < FEW_ANSWERS;
        let known = little && self.rate.is_known();
        let unknown = little && self.rate.ceiling().is_none();
        let idle = now.saturating_sub(self.last_used) > IDLE;
        if (known || unknown || idle) && !std::mem::replace(&mut self.warned, true) {
            // The bucket may be as empty as the run left it that found the limit: the pause is enough.
            if !known {
                self.rate
                    .slow_to(self.rate.value().min(self.accepted.peak(now)));
                self.set_limiter(now);
            }
            return;
        }
        if known {
            self.rate.forget(FIRST_RATE);
            self.set_limiter(now);
            return;
        }
        if self.is_about_in_flight(call) {
            return;
        }
        // Where calls in flight were the limit, the rate that is allowed says nothing.
        self.rate.slow_to(self.accepted.peak(now) * GROWTH);
        let accepted = since.or_else(|| self.accepted.rate(now));
        self.rate.refused(accepted, self.window.is_known());
        self.set_limiter(now);
    }

    /// Lowers the calls in flight where they may be what was refused; whether nothing else was.
    ///
    /// A service that counts them refuses the first call above its limit. Half of the way there and back they are on the
    /// wire, though, and not counted, so some above it are accepted.
    fn is_about_in_flight(&mut self, call: Call) -> bool {
        let first = call.level > call.most;
        let peak = call.level > 1 && call.level >= call.most.min(self.most_in_flight());
        // The rate that was refused before was not reached this time.
        let below = self.rate.is_below_ceiling();
        let unknown = self.rate.ceiling().is_none();
        if !peak || !(first || below || unknown) {
            return false;
        }
        #[allow(clippy::cast_precision_loss, reason = "thousands at most")]
        self.in_flight.refused_above(call.level as f64);
        below || first && !(unknown && call.level >= MANY_AT_FIRST)
    }
}
