//! The pace as one value that can be stored, which is stepped with counts: the searched limits, and the present pause.
//!
//! A run steps its own value after each interval and after each refusal; many runs can step one that they share. It holds no
//! list and no clock. Times are seconds since any common start.

use std::num::NonZeroUsize;

use serde::{Deserialize, Serialize};

use super::noise::Noise;
use super::search::LimitSearch;
use super::tally::{Latency, QuotaHint, Tally, Trend};
use super::types::{PaceLimits, Rate, whole};
use crate::telemetry::pace::{FoundLimit, Pace, PaceCause};

/// The value that decides when calls may start.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct PaceValue {
    rate: LimitSearch,
    in_flight: LimitSearch,
    /// The user asked for no rate limit: nothing is searched for, and only waits and rates that the service names slow calls down.
    is_unlimited: bool,
    noise: Noise,
    latency: Latency,
    hint: QuotaHint,
    pub(super) pauses: Pauses,
    levels: InFlightLevels,
    measurement: Measurement,
    /// The measurement before, if the refusal that ended it was expected: the calls accepted since the service had no room.
    before: Option<Measurement>,
    /// When the pace was last decreased: calls that started before say nothing about the pace since then.
    pub(super) decreased_at: f64,
    stepped_at: f64,
    /// When the next step is due.
    pub(super) due: f64,
    /// The longest window of a quota that was seen.
    window: f64,
    /// What has changed the pace since the last [`Self::take_cause`].
    cause: Option<PaceCause>,
    /// How many seconds a step takes to reach all runs that share the pace, besides the round trip of a call.
    spreads_in: f64,
}

/// The calls accepted from one refusal to the next: a bucket or window that has just refused is empty, so this is the limit.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Measurement {
    since: f64,
    /// Calls that started, without refused ones.
    accepted: f64,
}

/// How many calls were in flight when calls started that were accepted, and refused.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct InFlightLevels {
    /// The highest level of the last accepted calls, and of the calls before them.
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
const STEP_SECONDS: f64 = 3.0;
/// A step lasts for at least this number of calls, and twice the number is measured: of fewer, a refusal says little.
const FEWEST_CALLS: f64 = 5.0;
/// The longest common window: a window that a service names is not taken to be longer, and a measurement over more than three
/// times this is not used, as the limit may have changed.
const LONGEST_WINDOW: f64 = 60.0;
/// A step lasts this number of windows: too much is refused at the latest at the end of the first whole one.
const WINDOWS: f64 = 1.5;
/// Accepted calls whose levels in flight are remembered.
const CALLS_PER_LEVELS: u32 = 64;
/// Refusals in a row above all these levels that show a limit of calls in flight.
const REFUSALS_ABOVE: u32 = 3;

/// Runs that share a pace ask ten times a second, and calls start 0.13 s after they were granted.
const SPREADS_IN: f64 = 0.25;
/// More runs than share a pace, each with its own ceiling of calls in flight.
const MOST_SHARING: NonZeroUsize = NonZeroUsize::new(1_000).unwrap();

impl PaceValue {
    /// The pace at the start of a run within these limits.
    pub(super) fn new(limits: &PaceLimits) -> Self {
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
        let mut rate = LimitSearch::new(first, within, false, share);
        let within = (1.0, most_in_flight);
        let mut in_flight = LimitSearch::new(first_in_flight, within, true, share);
        // No limit also means none from an earlier run.
        if !is_unlimited {
            rate.start_near(limits.remembered.rate);
            in_flight.start_near(limits.remembered.in_flight.map(f64::from));
        }
        Self {
            rate,
            in_flight,
            is_unlimited,
            decreased_at: -1.0,
            due: SHORTEST_INTERVAL,
            ..Self::default()
        }
    }

    /// The pace of several runs with these limits, at the start.
    pub(super) fn of_all(mut limits: PaceLimits) -> Self {
        limits.in_flight = limits.in_flight.saturating_mul(MOST_SHARING);
        Self {
            spreads_in: SPREADS_IN,
            ..Self::new(&limits)
        }
    }

    /// Calls a second that are allowed now; `None` if nothing limits them.
    pub(super) fn allowed(&self, now: f64) -> Option<f64> {
        let searched = (!self.is_unlimited).then_some(self.rate.value);
        let both = searched.into_iter().chain(self.hint.rate(now));
        both.reduce(f64::min)
    }

    /// Whether the searched rate holds calls back. If a header caps the rate below it, the search learns nothing.
    pub(super) fn is_search_used(&self, now: f64) -> bool {
        let hinted = self.hint.rate(now);
        hinted.is_none_or(|hinted| self.rate.value <= hinted)
    }

    /// Whether headers are believed and none that still holds was read: the next one should be applied soon.
    pub(super) fn awaits_hint(&self, now: f64) -> bool {
        self.hint.is_awaited(now)
    }

    /// Calls in flight that are allowed now.
    pub(super) fn most_in_flight(&self) -> usize {
        whole(self.in_flight.value) as usize
    }

    /// Whether a refusal that named this wait is put down to chance: then only its row waits.
    pub(super) fn only_row_waits(&self, wait: f64) -> bool {
        (self.noise.share > 0.0 && wait < STEP_SECONDS) || (self.is_unlimited && wait == 0.0)
    }

    /// The limits of the service that were found.
    pub(super) fn limit(&self) -> FoundLimit {
        FoundLimit {
            rate: self.rate.limit(),
            in_flight: self.in_flight.limit().map(whole),
        }
    }

    /// The pace, for people to read.
    pub(super) fn pace(&self, now: f64) -> Pace {
        // The share follows each call, which is nothing new.
        let percent = (self.noise.share * 100.0).ceil();
        Pace {
            rate: self.allowed(now),
            in_flight: self.most_in_flight(),
            search: self.rate.stage,
            limit: self.rate.limit_to_display(),
            limit_in_flight: self
                .in_flight
                .limit_to_display()
                .map(|limit| whole(limit) as usize),
            headers: self.hint.to_display(now),
            at_ceiling: self.rate.is_at_most(),
            refused_at_any: (percent > 0.0).then_some(percent / 100.0),
        }
    }

    /// Why the pace has changed since the last question, if it has.
    pub(super) fn take_cause(&mut self) -> PaceCause {
        // Only headers change it without a step: their rate holds for a time.
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
        let accepted = self.noise.quiet + before;
        let is_excess = self.noise.note(started, refused);
        let stood_still = self.pauses.in_a_row;
        self.pauses.ended(tally);
        if tally.probe_good && stood_still > 0.0 {
            self.rate.stood_still(now, stood_still);
        }
        if tally.probe_good && stood_still >= STEP_SECONDS {
            self.has_room_again(now, stood_still);
        }
        let is_refused = tally.refused_new > 0 && !self.only_row_waits(tally.wait);
        if is_excess || is_refused {
            self.decrease(now, tally, accepted);
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
    fn decrease(&mut self, now: f64, tally: &Tally, accepted: f64) {
        let later = f64::from(tally.refused_after) - f64::from(tally.refused.saturating_sub(1));
        self.measurement.accepted -= later;
        let before = self.measurement.clone();
        let measured = self.measured(now, tally, later);
        self.decreased_at = now;
        self.before = None;
        if self.is_unlimited {
            return;
        }
        self.cause = Some(PaceCause::Throttled);
        if self.is_in_flight(now, tally.refused_level) {
            return;
        }
        let pace = self.rate.value;
        let is_expected = self.rate.refused(now, pace, measured);
        let is_window = is_expected && measured.is_some() && tally.wait == 0.0;
        self.before = Some(before).filter(|_| is_window);
        if self.noise.decreased(pace, accepted, is_expected) {
            self.rate.forget(self.rate.value);
            self.cause = Some(PaceCause::RandomRefusals);
        }
    }

    /// Calls a second that were accepted since the last refusal, if there were enough calls. The next measurement starts at
    /// the present refusal; `later` calls have started after it and were not refused.
    fn measured(&mut self, now: f64, tally: &Tally, later: f64) -> Option<f64> {
        let Measurement { since, accepted } = self.measurement;
        // After a named wait a bucket or window is as full as after the one before.
        let began = if tally.wait > 0.0 {
            now + tally.wait
        } else {
            tally.refused_at
        };
        let lasted = began - since;
        let is_enough = accepted >= FEWEST_CALLS * 2.0;
        let is_old = lasted > LONGEST_WINDOW * 3.0;
        if is_enough || is_old || !self.rate.has_refused() {
            (self.measurement.since, self.measurement.accepted) = (began, later);
        } else {
            self.measurement.accepted += later;
        }
        (is_enough && !is_old && lasted > 0.0).then(|| accepted / lasted)
    }

    /// All calls stood still for this number of seconds, and now the service has room. If no wait was named, a window is over:
    /// the calls accepted since the window before are its quota.
    fn has_room_again(&mut self, now: f64, stood_still: f64) {
        let before = self.before.take().filter(|_| self.noise.share == 0.0);
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
        self.rate.forget(self.rate.value);
        self.noise.forget_decreases();
        true
    }

    /// Calls were refused: all pause if the service named a wait, if the pace has just been decreased, or if the probe was
    /// refused.
    fn pause(&mut self, now: f64, tally: &Tally, is_decreased: bool, random: f64) {
        let (wait, probe_refused) = (tally.wait, tally.probe_refused);
        let is_random = self.noise.share > 0.0 && !probe_refused;
        if !is_decreased && wait < STEP_SECONDS && is_random || self.is_unlimited && wait == 0.0 {
            return;
        }
        if wait >= STEP_SECONDS {
            self.window = self.window.max(wait.min(LONGEST_WINDOW));
        }
        if wait > 0.0 {
            self.pauses.named(now, wait, random);
        } else if is_decreased || probe_refused {
            self.pauses.guessed(now);
        }
    }

    /// How long an interval lasts: the effect of a change shows in the next one.
    fn interval(&self) -> f64 {
        (self.latency.median() * 2.0 + self.spreads_in).max(SHORTEST_INTERVAL)
    }

    /// Whether nothing argues against a higher value.
    fn is_quiet(&self, now: f64, tally: &Tally) -> bool {
        let is_calm = if self.noise.share > 0.0 {
            self.noise.is_calm()
        } else {
            tally.refused == 0
        };
        let works = tally.accepted > 0 && tally.failed * 2 <= tally.accepted;
        is_calm && works && self.pauses.is_over(now) && !tally.probe_good
    }

    /// Nothing was refused for `lasted`: both searches continue.
    fn search_on(&mut self, now: f64, lasted: f64, tally: &Tally, trend: Trend) {
        if self.is_unlimited || trend == Trend::Queueing {
            return;
        }
        let step = (self.interval() * 2.0)
            .max(STEP_SECONDS)
            .max(self.window * WINDOWS);
        let mut is_changed = false;
        if trend == Trend::Usual {
            let is_used = tally.in_flight_used;
            is_changed |= self.in_flight.quiet(now, lasted, step, is_used);
        }
        let step = step.max(FEWEST_CALLS / self.rate.value);
        is_changed |= self.rate.quiet(now, lasted, step, tally.rate_used);
        if is_changed {
            self.cause = Some(PaceCause::Search);
        }
    }
}

impl InFlightLevels {
    fn note(&mut self, tally: &Tally) {
        self.accepted.0 = self.accepted.0.max(tally.accepted_level);
        self.calls += tally.accepted;
        if self.calls >= CALLS_PER_LEVELS {
            self.calls = 0;
            self.accepted = (0, self.accepted.0);
        }
    }

    fn highest(&self) -> u32 {
        self.accepted.0.max(self.accepted.1)
    }

    /// A call was refused at this level. Returns the lowest level of several in a row that no accepted call had reached.
    fn refused(&mut self, level: u32) -> Option<u32> {
        if level < REFUSALS_ABOVE || level <= self.highest() {
            self.above = (0, 0);
            return None;
        }
        let (times, lowest) = self.above;
        let lowest = if times == 0 { level } else { lowest.min(level) };
        self.above = (times + 1, lowest);
        if times + 1 < REFUSALS_ABOVE {
            return None;
        }
        self.above = (0, 0);
        Some(lowest)
    }
}

/// The present pause. Times are seconds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Pauses {
    /// When the pause ends, or has ended.
    pub(super) until: f64,
    /// One call goes first, as a probe.
    pub(super) probe_first: bool,
    /// The next pause if no wait is named.
    guess: f64,
    /// The length of the pauses since a call was last accepted, in all.
    pub(super) in_a_row: f64,
}

/// The first pause if the service names no wait: short, as a few calls too many are soon made up for.
const FIRST_GUESS: f64 = 0.5;
/// A pause that was long enough halves the next one, down to this: more than a round trip, so that the probe ends first.
const SHORTEST_GUESS: f64 = 0.1;
/// The longest pause if the service names no wait: the shorter ones before it together are longer than the usual windows.
const LONGEST_GUESS: f64 = 30.0;
/// Refusals of calls that were out together ask for the same pause, each up to a second later: headers name whole seconds.
const ROUNDING: f64 = 1.0;
/// A named wait is stretched by up to this share, so that many programs do not come back at the same moment.
const JITTER: f64 = 0.1;

impl Default for Pauses {
    fn default() -> Self {
        Self {
            until: 0.0,
            probe_first: false,
            guess: FIRST_GUESS,
            in_a_row: 0.0,
        }
    }
}

impl Pauses {
    /// Whether all calls may start as the pace allows.
    pub(super) fn is_over(&self, now: f64) -> bool {
        !self.probe_first && now >= self.until
    }

    /// Applies the result of the probe.
    fn ended(&mut self, tally: &Tally) {
        if tally.probe_good {
            if self.in_a_row > 0.0 {
                self.guess = (self.guess / 2.0).clamp(SHORTEST_GUESS, FIRST_GUESS);
            }
            self.in_a_row = 0.0;
            self.probe_first = false;
        } else if tally.probe_failed {
            // It says nothing about a limit, and counts like any other failure.
            self.probe_first = false;
        }
    }

    /// All calls pause for a wait that the service named. `random` is from 0 up to 1.
    fn named(&mut self, now: f64, wait: f64, random: f64) {
        self.start(now, wait * (1.0 + JITTER * random));
    }

    /// All calls pause, although the service named no wait: twice as long as before if that did not help.
    fn guessed(&mut self, now: f64) {
        if self.in_a_row > 0.0 {
            self.guess = (self.guess * 2.0).min(LONGEST_GUESS);
        }
        self.start(now, self.guess);
    }

    fn start(&mut self, now: f64, length: f64) {
        let until = now + length;
        let same = if now < self.until { ROUNDING } else { 0.0 };
        if until > self.until + same {
            self.in_a_row += until - self.until.max(now);
            self.until = until;
            self.probe_first = true;
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_value_that_is_stored_and_read_before_each_step_takes_the_same_steps() {
        let limits = PaceLimits {
            rate: Rate::Auto,
            in_flight: 64.try_into().unwrap(),
            remembered: FoundLimit::default(),
            max_wait: Duration::from_secs(900),
        };
        let mut kept = PaceValue::new(&limits);
        let mut stored = kept.clone();
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
                probe_good: random.bool(),
                rate_used: true,
                ..Tally::default()
            };
            stored = serde_json::from_str(&serde_json::to_string(&stored).unwrap()).unwrap();
            kept.step(now, &tally, 0.5);
            stored.step(now, &tally, 0.5);
            let (kept, stored) = (kept.allowed(now).unwrap(), stored.allowed(now).unwrap());
            assert!((kept - stored).abs() < kept * 1e-9, "{kept} {stored}");
        }
    }
}
