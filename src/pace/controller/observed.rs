//! The controller of a pace that many workers share: it is told what they saw, and gives no permits itself.

use std::time::Duration;

use super::state::Controller;
use crate::pace::limit_search::LimitSearch;
use crate::pace::types::Call;
use crate::telemetry::pace::Limit;

/// What workers saw since the last look, all together.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::pace) struct Observed {
    /// Calls that started.
    pub(in crate::pace) started: u32,
    /// A call had to wait for the rate.
    pub(in crate::pace) rate_used: bool,
    /// A call had to wait for another one to end.
    pub(in crate::pace) in_flight_used: bool,
}

/// A pace that another worker led to.
#[derive(Debug, Clone, Copy)]
pub(in crate::pace) struct LedPace {
    pub(in crate::pace) rate: f64,
    pub(in crate::pace) in_flight: f64,
    pub(in crate::pace) limit: Limit,
    /// The rate is held just below the limit until then.
    pub(in crate::pace) held_until: Option<Duration>,
    /// The share of calls that the service refuses at any pace.
    pub(in crate::pace) random: Option<f64>,
}

/// A new leader holds the calls in flight for this long if their limit is known.
const IN_FLIGHT_HELD: Duration = Duration::from_secs(120);

impl Controller {
    /// Goes on at the pace that another worker led to.
    pub(in crate::pace) fn follow(&mut self, now: Duration, led: LedPace) {
        self.rate.follow(led.rate, led.limit.rate, led.held_until);
        // A limit of the calls in flight is not looked past before it has been held for a while.
        let found = led.limit.in_flight;
        let held_until = found.map(|_| now + IN_FLIGHT_HELD);
        self.in_flight.follow(led.in_flight, found, held_until);
        if let Some(share) = led.random {
            self.random.follow(now, share);
        }
        // Before anybody has reported, calls are taken to be made at that pace.
        self.last_pace = led.rate;
        self.pace_in_use = led.rate;
    }

    /// Sets how long it takes until all workers keep to what is decided, and until that is seen.
    pub(in crate::pace) const fn set_news(&mut self, news: Duration) {
        self.news = news;
    }

    /// Sets the most calls in flight that users allow.
    pub(in crate::pace) fn set_most_in_flight(&mut self, most: f64) {
        self.in_flight.set_most(most);
    }

    /// A call of a worker that ended: `began` on the row's clock, as the `level`th in flight. Calls are numbered as they end.
    pub(in crate::pace) const fn ended_call(&mut self, began: Duration, level: u32) -> Call {
        self.calls += 1;
        Call {
            began,
            number: self.calls,
            level,
            probe: false,
        }
    }

    /// A call of a worker failed. Whether the service is down each worker decides for itself.
    pub(in crate::pace) fn failed_elsewhere(&mut self, now: Duration, call: Call, timed_out: bool) {
        self.pauses.not_refused(call.began);
        self.interval.failures += 1;
        if timed_out {
            self.timed_out(now, call);
        }
    }

    /// Takes in what workers saw, before how their calls ended: a refusal is about the calls that have started.
    pub(in crate::pace) const fn observe(&mut self, observed: Observed) {
        self.interval.calls += observed.started;
        self.interval.rate_used |= observed.rate_used;
        self.interval.in_flight_used |= observed.in_flight_used;
    }

    /// Decides on the pace, if the interval is over.
    pub(in crate::pace) fn look(&mut self, now: Duration) {
        self.end_interval(now);
    }

    /// When the present pause ends, if there is one.
    pub(in crate::pace) fn paused_until(&self, now: Duration) -> Option<Duration> {
        self.pauses.until(now)
    }

    /// Whether a single call goes first.
    pub(in crate::pace) const fn goes_alone(&self) -> bool {
        self.half_open
    }

    /// When the pace was last cut for a refusal.
    pub(in crate::pace) const fn last_cut(&self) -> Duration {
        self.last_cut
    }

    /// The service was down to a worker, and is back.
    pub(in crate::pace) fn resume_elsewhere(&mut self, now: Duration) {
        self.resume(now);
    }

    /// The search for the rate, for its stage.
    pub(in crate::pace) const fn rate_search(&self) -> &LimitSearch {
        &self.rate
    }
}
