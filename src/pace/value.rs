//! The pace as one value that can be written down, which is stepped with counts.
//!
//! A run steps its own after each interval and after each refusal; many workers can step one that they share. It holds no list
//! and no clock. Times are seconds since any common start.

use std::num::NonZeroUsize;

use serde::{Deserialize, Serialize};

use super::noise::Noise;
use super::pause::Pauses;
use super::search::LimitSearch;
use super::tally::QuotaHint;
use super::tally::Tally;
use super::tally::{Latency, Trend};
use super::types::PaceLimits;
use super::types::Rate;
use crate::telemetry::pace::{Limit, Pace, PaceCause};

/// The value that decides when calls may start.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct PaceValue {
    rate: LimitSearch,
    in_flight: LimitSearch,
    /// The user asked for no rate limit: nothing is searched for, and only what the service names holds calls back.
    is_unlimited: bool,
    noise: Noise,
    latency: Latency,
    hint: QuotaHint,
    pub(super) pauses: Pauses,
    levels: InFlightLevels,
    measurement: Measurement,
    /// The one before, if the pace explained the refusal that ended it: what was accepted since the service had no room.
    before: Option<Measurement>,
    /// When the pace was last cut: calls that started before say nothing about the pace since then.
    pub(super) cut_at: f64,
    stepped_at: f64,
    /// When the next step is due.
    pub(super) due: f64,
    /// The longest window of a quota that was seen.
    window: f64,
    /// What has changed the pace since this was last asked.
    cause: Option<PaceCause>,
    /// How many seconds it takes until what a step changed has been seen by all, besides the round trip of a call.
    seen_after: f64,
}

/// What was accepted from one refusal to the next: a bucket or window that has just refused is empty, so this is the limit.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Measurement {
    since: f64,
    /// Calls that started, less those that were refused.
    accepted: f64,
}

/// How many calls were in flight when calls started that were accepted, and refused.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct InFlightLevels {
    /// The highest of the last accepted calls, and of those before them.
    accepted: (u32, u32),
    /// How many accepted calls the first of the two is of.
    calls: u32,
    /// Refusals in a row above these levels, and the lowest of them.
    above: (u32, u32),
}

/// The first rate of a run without `--rate`: ten calls a second hurt no service.
const FIRST_RATE: f64 = 10.0;
/// The first calls in flight of such a run: enough to reach that rate with answers of 0.4 s.
const FIRST_IN_FLIGHT: f64 = 4.0;
/// A call a minute: a limit below that is kept by pauses.
const LEAST_RATE: f64 = 1.0 / 60.0;
/// Seconds of an interval, if two round trips are shorter: over less time, chance decides how many calls there were.
const SHORTEST_INTERVAL: f64 = 0.1;
/// Seconds in which too much is refused by a bucket that runs empty. A service that names a wait as long counts in windows.
const STEP: f64 = 3.0;
/// A step lasts for at least this number of calls, and twice the number is measured: of fewer, a refusal says little.
const FEWEST: f64 = 5.0;
/// The longest common window: one that a service names is not taken to be longer, and what was accepted in more than three
/// times this is not measured, as the limit may have changed.
const LONGEST_WINDOW: f64 = 60.0;
/// A step lasts this number of windows: too much is refused at the latest at the end of the first whole one.
const WINDOWS: f64 = 1.5;
/// Accepted calls whose levels in flight are remembered.
const LEVELS: u32 = 64;
/// Refusals in a row above all these levels that show a limit of calls in flight.
const ABOVE: u32 = 3;

/// Workers that share a pace ask ten times a second, and calls start 0.13 s after they were granted.
const SEEN_AFTER: f64 = 0.25;
/// More workers than share a pace, each of which has its own ceiling of calls in flight.
const WORKERS: NonZeroUsize = NonZeroUsize::new(1_000).unwrap();

impl PaceValue {
    /// The pace at the start of a run within these limits.
    pub(super) fn new(limits: &PaceLimits) -> Self {
        #[allow(clippy::cast_precision_loss, reason = "thousands at most")]
        let most_in_flight = limits.in_flight.get() as f64;
        let (share, first, most, first_in_flight) = match limits.rate {
            Rate::Auto => (1.0, FIRST_RATE, Rate::HIGHEST, FIRST_IN_FLIGHT),
            Rate::Share(share) => (share, FIRST_RATE, Rate::HIGHEST, FIRST_IN_FLIGHT),
            // A user who names a rate knows the service.
            Rate::PerSecond(rate) => (1.0, rate, rate, most_in_flight),
            Rate::Unlimited => (1.0, Rate::HIGHEST, Rate::HIGHEST, most_in_flight),
        };
        let is_unlimited = limits.rate == Rate::Unlimited;
        let within = (LEAST_RATE.min(most), most);
        let mut rate = LimitSearch::new(first, within, false).holding(share);
        let within = (1.0, most_in_flight);
        let mut in_flight = LimitSearch::new(first_in_flight, within, true).holding(share);
        // No limit also means none from an earlier run.
        if let Some(known) = limits.known.rate.filter(|_| !is_unlimited) {
            rate.start_near(known);
        }
        if let Some(known) = limits.known.in_flight.filter(|_| !is_unlimited) {
            in_flight.start_near(known.into());
        }
        Self {
            rate,
            in_flight,
            is_unlimited,
            cut_at: -1.0,
            due: SHORTEST_INTERVAL,
            ..Self::default()
        }
    }

    /// The pace of several workers with these limits, at the start.
    pub(super) fn of_all(mut limits: PaceLimits) -> Self {
        limits.in_flight = limits.in_flight.saturating_mul(WORKERS);
        Self {
            seen_after: SEEN_AFTER,
            ..Self::new(&limits)
        }
    }

    /// Calls a second that are allowed now; `None` if nothing limits them.
    pub(super) fn allowed(&self, now: f64) -> Option<f64> {
        let own = (!self.is_unlimited).then_some(self.rate.value());
        match (own, self.hint.rate(now)) {
            (Some(own), Some(hinted)) => Some(own.min(hinted)),
            (own, hinted) => own.or(hinted),
        }
    }

    /// Whether the searched rate holds calls back. If a header caps the rate below it, the search learns nothing.
    pub(super) fn is_search_used(&self, now: f64) -> bool {
        let hinted = self.hint.rate(now);
        hinted.is_none_or(|hinted| self.rate.value() <= hinted)
    }

    /// Whether what headers say is not known at present: then it should be soon.
    pub(super) fn awaits_hint(&self, now: f64) -> bool {
        self.hint.is_awaited(now)
    }

    /// Calls in flight that are allowed now.
    pub(super) fn most_in_flight(&self) -> usize {
        whole(self.in_flight.value()) as usize
    }

    /// Whether a refusal that named this wait is put down to chance: then only its row waits.
    pub(super) fn is_row_alone(&self, wait: f64) -> bool {
        (self.noise.share() > 0.0 && wait < STEP) || (self.is_unlimited && wait == 0.0)
    }

    /// The limits of the service that were found.
    pub(super) fn limit(&self) -> Limit {
        Limit {
            rate: self.rate.limit(),
            in_flight: self.in_flight.limit().map(whole),
        }
    }

    /// The pace, for people to read.
    pub(super) fn pace(&self, now: f64) -> Pace {
        // The share follows each call, which is nothing new.
        let percent = (self.noise.share() * 100.0).ceil();
        Pace {
            rate: self.allowed(now),
            in_flight: self.most_in_flight(),
            search: self.rate.stage(),
            limit: self.rate.shown_limit(),
            limit_in_flight: self
                .in_flight
                .shown_limit()
                .map(|limit| whole(limit) as usize),
            headers: self.hint.shown(now),
            at_ceiling: self.rate.is_at_most(),
            refused_at_any: (percent > 0.0).then_some(percent / 100.0),
        }
    }

    /// Why the pace has changed since the last question, if it has.
    pub(super) fn take_cause(&mut self) -> PaceCause {
        // Nothing else changes it by itself: what headers ask for holds for a time.
        self.cause.take().unwrap_or(PaceCause::Headers)
    }

    /// An outage is over: calls start slowly again.
    pub(super) fn resume(&mut self) {
        if !self.is_unlimited {
            self.rate.step_back();
            self.in_flight.step_back();
        }
        self.cause = Some(PaceCause::Outage);
    }

    /// Steps the value with the counts up to now. `random` is from 0 up to 1.
    pub(super) fn step(&mut self, now: f64, tally: &Tally, random: f64) {
        let lasted = now - self.stepped_at;
        self.stepped_at = now;
        let (started, refused) = (f64::from(tally.started), f64::from(tally.refused));
        self.measurement.accepted += started - refused;
        self.levels.note(tally);
        self.hint.step(now, tally, self.levels.highest().into());
        let trend = self.trend(tally);
        let before = f64::from(tally.started.saturating_sub(tally.refused_after));
        let accepted = self.noise.quiet() + before;
        let is_excess = self.noise.note(started, refused);
        let stood_still = self.pauses.in_a_row;
        self.pauses.ended(tally);
        if tally.single_good && stood_still > 0.0 {
            self.rate.stood_still(now, stood_still);
        }
        if tally.single_good && stood_still >= STEP {
            self.has_room_again(now, stood_still);
        }
        let is_refused = tally.refused_new > 0 && !self.is_row_alone(tally.wait);
        if is_excess || is_refused {
            self.cut(now, tally, accepted);
            self.pause(now, tally, true, random);
        } else if tally.refused > 0 {
            self.pause(now, tally, false, random);
        }
        self.due = now + self.interval();
        if self.is_quiet(now, tally) {
            self.search_on(now, lasted, tally, trend);
        }
    }

    fn trend(&mut self, tally: &Tally) -> Trend {
        if self.is_unlimited {
            return Trend::Usual;
        }
        let trend = self.latency.step(tally, &mut self.in_flight);
        if trend == Trend::Queueing {
            self.cause = Some(PaceCause::Queueing);
        }
        trend
    }

    /// The service refuses more than it does at any pace, after this number of accepted calls.
    fn cut(&mut self, now: f64, tally: &Tally, accepted: f64) {
        let later = f64::from(tally.refused_after) - f64::from(tally.refused.saturating_sub(1));
        self.measurement.accepted -= later;
        let before = self.measurement.clone();
        let measured = self.measured(now, tally, later);
        self.cut_at = now;
        self.before = None;
        if self.is_unlimited {
            return;
        }
        self.cause = Some(PaceCause::Throttled);
        if self.is_in_flight(now, tally.refused_level) {
            return;
        }
        let pace = self.rate.value();
        let is_explained = self.rate.refused(now, pace, measured);
        let is_window = is_explained && measured.is_some() && tally.wait == 0.0;
        self.before = Some(before).filter(|_| is_window);
        if self.noise.cut(pace, accepted, is_explained) {
            self.rate.forget(self.rate.value());
            self.cause = Some(PaceCause::RandomRefusals);
        }
    }

    /// What was accepted since the refusal before, if there were enough calls. The next measurement starts at the refusal now,
    /// after which so many calls have started and were not refused.
    fn measured(&mut self, now: f64, tally: &Tally, later: f64) -> Option<f64> {
        let Measurement { since, accepted } = self.measurement;
        // After a named wait a bucket or window is as full as after the one before.
        let began = if tally.wait > 0.0 {
            now + tally.wait
        } else {
            tally.refused_at
        };
        let lasted = began - since;
        let is_enough = accepted >= FEWEST * 2.0;
        let is_old = lasted > LONGEST_WINDOW * 3.0;
        if is_enough || is_old || !self.rate.has_refused() {
            (self.measurement.since, self.measurement.accepted) = (began, later);
        } else {
            self.measurement.accepted += later;
        }
        (is_enough && !is_old && lasted > 0.0).then(|| accepted / lasted)
    }

    /// All calls stood still for this number of seconds, and now the service has room: a window is over, if no wait was named. What was
    /// accepted since the window before is the limit.
    fn has_room_again(&mut self, now: f64, stood_still: f64) {
        let before = self.before.take().filter(|_| self.noise.share() == 0.0);
        let Some(Measurement { since, accepted }) = before else {
            return;
        };
        let lasted = now - since;
        if lasted <= LONGEST_WINDOW * 3.0 {
            let Some(is_certain) = self.rate.has_window(now, accepted, lasted) else {
                return;
            };
            if is_certain {
                self.window = self.window.max(stood_still.min(LONGEST_WINDOW));
            }
            self.measurement = Measurement {
                since: now,
                ..Measurement::default()
            };
        }
    }

    /// Whether the refused call, the `level`th in flight, was just one too many, whatever the rate.
    fn is_in_flight(&mut self, now: f64, level: u32) -> bool {
        if self.in_flight.is_past_limit(level.into()) {
            let _ = self.in_flight.refused(now, level.into(), None);
            return true;
        }
        let Some(lowest) = self.levels.refused(level) else {
            return false;
        };
        self.in_flight.limit_found(now, lowest.into());
        self.rate.forget(self.rate.value());
        self.noise.explained();
        true
    }

    /// Calls were refused: all pause if the service named a wait, or if `is_cut` or the call that went first was one of them.
    fn pause(&mut self, now: f64, tally: &Tally, is_cut: bool, random: f64) {
        let Tally {
            wait, single_bad, ..
        } = *tally;
        let is_random = self.noise.share() > 0.0 && !single_bad;
        if !is_cut && wait < STEP && is_random || self.is_unlimited && wait == 0.0 {
            return;
        }
        if wait >= STEP {
            self.window = self.window.max(wait.min(LONGEST_WINDOW));
        }
        if wait > 0.0 {
            self.pauses.named(now, wait, random);
        } else if is_cut || single_bad {
            self.pauses.guessed(now);
        }
    }

    /// How long an interval lasts: the effect of a change shows in the next one.
    fn interval(&self) -> f64 {
        (self.latency.median() * 2.0 + self.seen_after).max(SHORTEST_INTERVAL)
    }

    /// Whether nothing argues against a higher value.
    fn is_quiet(&self, now: f64, tally: &Tally) -> bool {
        let is_calm = if self.noise.share() > 0.0 {
            self.noise.is_calm()
        } else {
            tally.refused == 0
        };
        let works = tally.accepted > 0 && tally.failed * 2 <= tally.accepted;
        is_calm && works && self.pauses.is_over(now) && !tally.single_good
    }

    /// Nothing was refused for `lasted`: both searches continue.
    fn search_on(&mut self, now: f64, lasted: f64, tally: &Tally, trend: Trend) {
        if self.is_unlimited || trend == Trend::Queueing {
            return;
        }
        let step = (self.interval() * 2.0).max(STEP).max(self.window * WINDOWS);
        let mut is_changed = false;
        if trend == Trend::Usual {
            let is_used = tally.in_flight_used;
            is_changed |= self.in_flight.quiet(now, lasted, step, is_used);
        }
        let step = step.max(FEWEST / self.rate.value());
        is_changed |= self.rate.quiet(now, lasted, step, tally.rate_used);
        if is_changed {
            self.cause = Some(PaceCause::Search);
        }
    }
}

/// A number of calls in flight.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "from 1 to the user's ceiling"
)]
const fn whole(calls: f64) -> u32 {
    calls as u32
}

impl InFlightLevels {
    fn note(&mut self, tally: &Tally) {
        self.accepted.0 = self.accepted.0.max(tally.accepted_level);
        self.calls += tally.accepted;
        if self.calls >= LEVELS {
            self.calls = 0;
            self.accepted = (0, self.accepted.0);
        }
    }

    fn highest(&self) -> u32 {
        self.accepted.0.max(self.accepted.1)
    }

    /// A call was refused at this level. Returns the lowest level of several in a row that no accepted call had reached.
    fn refused(&mut self, level: u32) -> Option<u32> {
        if level < ABOVE || level <= self.highest() {
            self.above = (0, 0);
            return None;
        }
        let (times, lowest) = self.above;
        let lowest = if times == 0 { level } else { lowest.min(level) };
        self.above = (times + 1, lowest);
        if times + 1 < ABOVE {
            return None;
        }
        self.above = (0, 0);
        Some(lowest)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_value_that_is_written_down_and_read_before_each_step_goes_on_alike() {
        let limits = PaceLimits {
            rate: Rate::Auto,
            in_flight: 64.try_into().unwrap(),
            known: Limit::NONE,
            max_wait: Duration::from_secs(900),
        };
        let mut kept = PaceValue::new(&limits);
        let mut written = kept.clone();
        let mut random = fastrand::Rng::with_seed(1);
        for step in 1..2_000 {
            let now = f64::from(step) / 4.0;
            let refused = u32::from(random.u32(..9) == 0);
            let tally = Tally {
                started: 20,
                accepted: random.u32(..20),
                refused,
                refused_new: refused,
                refused_at: now - 0.1,
                single_good: random.bool(),
                rate_used: true,
                ..Tally::default()
            };
            written = serde_json::from_str(&serde_json::to_string(&written).unwrap()).unwrap();
            kept.step(now, &tally, 0.5);
            written.step(now, &tally, 0.5);
            let (kept, written) = (kept.allowed(now).unwrap(), written.allowed(now).unwrap());
            assert!((kept - written).abs() < kept * 1e-9, "{kept} {written}");
        }
    }
}
