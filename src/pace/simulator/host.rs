//! The machine that a program runs on, which stalls now and then.

use std::time::Duration;

/// When the program stands still; sorted.
pub(super) struct Host(Vec<(Duration, Duration)>);

/// Seconds from the end of one stall to the next.
const BETWEEN: (f64, f64) = (1.0, 6.0);
/// Seconds of a stall.
const STALL: (f64, f64) = (0.05, 0.5);

impl Host {
    pub(super) const fn quiet() -> Self {
        Self(Vec::new())
    }

    pub(super) fn noisy(end: Duration, random: &mut fastrand::Rng) -> Self {
        let mut within = |(least, most): (f64, f64)| {
            Duration::from_secs_f64(least + (most - least) * random.f64())
        };
        let mut stalls = Vec::new();
        let mut at = Duration::ZERO;
        while at < end {
            let from = at + within(BETWEEN);
            at = from + within(STALL);
            stalls.push((from, at));
        }
        Self(stalls)
    }

    /// When the program notices what happens at `at`.
    pub(super) fn awake(&self, at: Duration) -> Duration {
        let next = self.0.partition_point(|(_, to)| *to <= at);
        match self.0.get(next) {
            Some((from, to)) if *from <= at => *to,
            _ => at,
        }
    }
}
