//! What an interval of two round trips showed, and what is allowed in the next one.

use std::time::Duration;

use super::state::{COMPARED, Controller, Interval, LEAST_RATE};
use crate::pace::latency::Trend;
use crate::pace::limit_search::{QuietInterval, WHILE_QUEUEING};
use crate::pace::throughput::LEAST_UNMEASURED;
use crate::telemetry::pace::{PaceCause, Search};

/// An interval lasts this many round trips, so that what one changed is seen before the next one changes more …
const ROUND_TRIPS: u32 = 2;
/// … and at least this long: over less time, chance decides how many calls there were.
pub(super) const SHORTEST_INTERVAL: Duration = Duration::from_millis(100);
/// While random refusals are known, a step of growth lasts for the calls that should bring this many of them: a limit then
/// shows before it is far exceeded.
const REFUSALS_OF_A_STEP: f64 = 0.5;

impl Controller {
    /// Ends the interval if it is over: looks at what it showed and sets the pace.
    pub(in crate::pace) fn end_interval(&mut self, now: Duration) {
        if now < self.interval.ends {
            return;
        }
        self.check_random_refusals(now);
        let length = self.interval_length();
        let over = std::mem::replace(
            &mut self.interval,
            Interval {
                began: now,
                ends: now + length,
                ..Interval::default()
            },
        );
        let lasted = at_least_an_interval(now, over.began);
        self.last_pace = f64::from(over.calls) / lasted;
        let trend = self.latency.interval(self.in_flight.value());
        if trend == Trend::Queueing && !self.unlimited {
            self.in_flight
                .slow_to(self.in_flight.value() * WHILE_QUEUEING);
            self.cause = Some(PaceCause::Queueing);
        }
        let troubled = over.refused || over.failures * 2 > over.answers;
        if troubled || over.answers == 0 || self.pauses.until(now).is_some() {
            return;
        }
        self.search_on(now, length, &over, trend);
    }

    /// How long the next interval is. At a low rate it has a call: one without an answer shows nothing, and
    /// steps of the search would take many times their length.
    fn interval_length(&self) -> Duration {
        let latency = self.latency.typical().unwrap_or_default();
        let least = (latency * ROUND_TRIPS).max(SHORTEST_INTERVAL);
        let rate = self.rate.value();
        if rate < LEAST_UNMEASURED {
            least.max(Duration::from_secs_f64(1.0 / rate))
        } else {
            least
        }
    }

    /// Calls a second that were refused now: those that are allowed if they are used, or else those that started.
    pub(super) fn pace_used(&self, now: Duration) -> f64 {
        let lasted = at_least_an_interval(now, self.interval.began);
        let begun = self.last_pace.max(f64::from(self.interval.calls) / lasted);
        self.searched_rate().min((begun * 2.0).max(LEAST_RATE))
    }

    /// More refusals than are random say something about the pace.
    fn check_random_refusals(&mut self, now: Duration) {
        if let Some(measured) = self.random.excess(now) {
            self.cause = Some(PaceCause::RandomRefusals);
            // That nothing was accepted for a moment shows no limit of next to nothing.
            let measured = Some(measured).filter(|measured| measured.calls > 0);
            self.too_much(now, self.pace_used(now), measured, None);
            self.pace_is_cut(now, now);
        }
        let was_comparing = self.random.is_comparing();
        if self
            .random
            .compare(now, self.rate.stage() == Search::Holding)
        {
            let refused = self.rate.value();
            self.rate.limit_between(refused * COMPARED, refused);
        }
        if self.random.is_comparing() != was_comparing {
            self.cause = Some(PaceCause::RandomRefusals);
        }
        // What headers asked for may be over.
        self.set_limiter(now);
    }

    /// Nothing was refused in the interval that is over: both searches continue.
    fn search_on(&mut self, now: Duration, length: Duration, over: &Interval, trend: Trend) {
        if self.random.is_comparing() {
            return;
        }
        let quiet = QuietInterval {
            length,
            step: (length * 2).max(self.window.shown()),
            fully_used: over.in_flight_used,
            calls: 0.0,
            cut_helped: self.random.has_helped(),
        };
        // What cut the pace meanwhile says more.
        self.cause.get_or_insert(PaceCause::Search);
        if trend == Trend::Usual {
            self.in_flight.quiet(now, quiet);
        }
        if trend == Trend::Queueing {
            return;
        }
        let before = self.rate.value();
        let random = self.random.share();
        self.rate.quiet(
            now,
            QuietInterval {
                fully_used: over.rate_used,
                calls: random.map_or(0.0, |share| REFUSALS_OF_A_STEP / share),
                ..quiet
            },
        );
        // At a faster pace there are no ever slower ones.
        if self.random.are_over() || (random.is_some() && self.rate.value() > before) {
            self.random.explained();
        }
        self.set_limiter(now);
    }
}

/// Seconds since then; of a shorter time a pace would come out far too high.
fn at_least_an_interval(now: Duration, began: Duration) -> f64 {
    now.saturating_sub(began)
        .max(SHORTEST_INTERVAL)
        .as_secs_f64()
}
