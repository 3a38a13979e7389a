//! The controller of a pace that many workers share: it is told what they saw, and gives no permits itself.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::state::Controller;
use crate::pace::limit_search::LimitSearch;
use crate::pace::random_refusals::{FirstTryOutcome, RandomRefusals};
use crate::pace::throughput::Throughput;
use crate::pace::types::Call;

/// What workers saw since the last look, all together.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::pace) struct Observed {
    /// Calls that started.
    pub(in crate::pace) started: u32,
    /// A call had to wait for the rate.
    pub(in crate::pace) rate_used: bool,
    /// A call had to wait for another one to end.
    pub(in crate::pace) in_flight_used: bool,
    /// Calls that are out, and those whose end is still to be taken in.
    pub(in crate::pace) out: usize,
}

/// What a worker that led knew, for the next one to go on from. Times are on the clock of both.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::pace) struct Handover {
    /// What workers reported since then, the next one hears of.
    at: Duration,
    rate: LimitSearch,
    in_flight: LimitSearch,
    random: RandomRefusals,
    last_pace: f64,
    last_cut: Duration,
}

impl Controller {
    /// What another worker needs to go on.
    pub(in crate::pace) fn handover(&self, now: Duration) -> Handover {
        Handover {
            at: now,
            rate: self.rate.clone(),
            in_flight: self.in_flight.clone(),
            random: self.random.clone(),
            last_pace: self.last_pace,
            last_cut: self.last_cut,
        }
    }

    /// Goes on where another worker was.
    pub(in crate::pace) fn go_on(&mut self, now: Duration, from: Handover) {
        self.rate.go_on(from.rate);
        let most = from.in_flight.value();
        self.in_flight.set_most(most);
        self.in_flight.go_on(from.in_flight);
        self.random = from.random;
        self.last_pace = from.last_pace;
        self.last_cut = from.last_cut;
        self.throughput = Throughput::since(from.at);
        self.interval.began = from.at;
        self.interval.ends = now;
        self.set_limiter(now);
    }

    /// Sets how long it takes until all workers keep to what is decided, and until that is seen.
    pub(in crate::pace) const fn set_news(&mut self, news: Duration) {
        self.news = news;
    }

    /// Sets the most calls in flight that users allow.
    pub(in crate::pace) fn set_most_in_flight(&mut self, most: f64) {
        self.in_flight.set_most(most);
    }

    /// A call of a worker that ended: `began` on the row's clock. Calls are numbered as they end. How many were in flight is
    /// known later.
    pub(in crate::pace) const fn ended_call(&mut self, began: Duration) -> Call {
        self.calls += 1;
        Call {
            began,
            number: self.calls,
            level: 0,
            epoch: 0,
            probe: false,
        }
    }

    /// A call of a worker failed. Whether the service is down each worker decides for itself.
    pub(in crate::pace) fn failed_elsewhere(&mut self, now: Duration, call: Call, timed_out: bool) {
        self.out = self.out.saturating_sub(1);
        // Calls are counted in order: the later ones would wait for this one.
        self.random
            .ended(call.number, FirstTryOutcome::NotCounted, self.out);
        self.pauses.not_refused(call.began);
        self.breaker.bad_elsewhere();
        // The single call after a pause found no limit, but trouble: its worker goes on, to see whether the service is down.
        if self.pauses.is_after(call.began) {
            self.half_open = false;
        }
        self.interval.failures += 1;
        if timed_out {
            self.timed_out(now, call);
        }
    }

    /// A call that started at `began` was the `level`th in flight. It was accepted, or it was refused and led to a cut: that is
    /// taken back if there were just too many in flight.
    pub(in crate::pace) fn level_known(
        &mut self,
        now: Duration,
        began: Duration,
        level: u32,
        is_cut: bool,
    ) {
        if !is_cut {
            self.accepted_at(began, level);
            return;
        }
        let before = self.before_cut.clone().map(|(rate, _)| rate);
        let cut = self.rate.clone();
        self.rate = before.unwrap_or_else(|| cut.clone());
        if self.is_in_flight(now, level, self.cut_sustained) {
            self.before_cut = None;
            self.set_limiter(now);
        } else {
            self.rate = cut;
        }
    }

    /// Takes in what workers saw, before how their calls ended: a refusal is about the calls that have started.
    pub(in crate::pace) const fn observe(&mut self, observed: Observed) {
        self.interval.calls += observed.started;
        self.interval.rate_used |= observed.rate_used;
        self.interval.in_flight_used |= observed.in_flight_used;
        self.out = observed.out;
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

    /// The search for the rate.
    pub(in crate::pace) const fn rate_search(&self) -> &LimitSearch {
        &self.rate
    }
}
