//! When a call may begin: the one owner of the rate, the calls in flight, the pause and the breaker.
//!
//! Pure arithmetic over time and outcomes: time is told (since the run began), nothing here waits, draws chance or does
//! I/O. `gate` asks before every call and tells how each ended; the simulator in the tests does the same.

use std::time::Duration;

use super::breaker::{Bad, Breaker, Turned};
use super::calls::{Allowance, Bounds, Call, Change, Ended, Try, Turn};
use super::in_order::Outcome;
use super::latency::{Latency, Trend};
use super::levels::Levels;
use super::limit_search::{Kind, LimitSearch};
use super::limiter::{Limiter, Rate};
use super::pause::Pauses;
use super::quota_hint::QuotaHint;
use super::random_refusals::RandomRefusals;
use super::throughput::Throughput;
use super::window::Window;
use crate::telemetry::event::{Found, Limit, Pace};

/// Decides when calls begin.
pub(super) struct Controller {
    rate: LimitSearch,
    in_flight: LimitSearch,
    limiter: Limiter,
    unlimited: bool,
    out: usize,
    /// Calls that have begun.
    calls: u64,
    pauses: Pauses,
    breaker: Breaker,
    throughput: Throughput,
    random: RandomRefusals,
    levels: Levels,
    latency: Latency,
    interval: Interval,
    /// Calls a second that began in the interval before.
    pace_before: f64,
    /// Calls a second that are used of those that may be, while nothing is checked.
    used: f64,
    /// Refusals of calls that began before then are about a pace that is given up already.
    last_cut: Duration,
    /// What was searched before the last cut, while a single row was refused.
    before_cut: Option<(LimitSearch, LimitSearch)>,
    /// The first call of which a refusal may be taken back again.
    next_taken_back: u64,
    /// When the call began that led to it.
    refused_since: Duration,
    window: Window,
    /// A refusal came too early to mean much; the next one counts.
    warned: bool,
    /// After a pause a single call goes first.
    scouting: bool,
    /// When the single call began that is out, after a pause or in an outage.
    single: Option<Duration>,
    quota_hint: QuotaHint,
    /// What was answered a second when all was well.
    when_well: Option<f64>,
    /// When the latest call began of those that were answered.
    last_answered: Duration,
    since_cut: SinceCut,
    /// The pace that is kept to while it is checked whether a slower one brings fewer refusals.
    slowed: Option<f64>,
}

/// What has ended since the pace was last lowered.
#[derive(Debug, Default)]
struct SinceCut {
    answers: u32,
    timeouts: u32,
}

/// The time between two looks at how it goes.
#[derive(Debug, Default)]
struct Interval {
    began: Duration,
    ends: Duration,
    calls: u32,
    answers: u32,
    /// Somebody had to wait for the rate.
    rate_used: bool,
    /// Somebody had to wait for a call to end.
    in_flight_used: bool,
    refused: bool,
    failures: u32,
}

/// The first rate of a run that is told none: nobody is hurt by ten calls a second.
const FIRST_RATE: f64 = 10.0;
/// The first calls in flight.
const FIRST_IN_FLIGHT: f64 = 4.0;
/// A call a minute: below that it is pauses that keep a service's limit.
const LEAST_RATE: f64 = 1.0 / 60.0;
/// An interval is two round trips, so that what it changed is seen before the next change, and at least this.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(100);
const ROUND_TRIPS: u32 = 2;
/// A step of the search lasts at least so long: with less, a bucket is not empty yet.
const SHORTEST_STEP: Duration = Duration::from_secs(2);
/// One timeout in so many answers is a service with a long tail, and no sign that fewer calls would be answered sooner.
const ANSWERS_A_TIMEOUT: u32 = 4;
/// Calls in flight after a timeout, as a share.
const AFTER_TIMEOUT: f64 = 0.7;
/// Calls in flight when answers queue, as a share, each interval: gently, as answers tell of the queue that was.
const WHILE_QUEUEING: f64 = 0.9;
/// The pace after an outage, as a share of what it was.
const AFTER_OUTAGE: f64 = 0.5;

impl Controller {
    pub(super) fn new(bounds: Bounds) -> Self {
        let (first, most) = match bounds.rate {
            Rate::Auto => (FIRST_RATE, Rate::HIGHEST),
            Rate::PerSecond(rate) => (rate, rate),
            Rate::Unlimited => (Rate::HIGHEST, Rate::HIGHEST),
        };
        #[allow(clippy::cast_precision_loss, reason = "thousands at most")]
        let most_in_flight = bounds.in_flight.get() as f64;
        let first_in_flight = match bounds.rate {
            Rate::Auto => FIRST_IN_FLIGHT,
            // Who names a rate knows the service.
            Rate::PerSecond(_) | Rate::Unlimited => most_in_flight,
        };
        let mut rate = LimitSearch::new(Kind::Rate, first, LEAST_RATE.min(most), most);
        let mut in_flight = LimitSearch::new(Kind::InFlight, first_in_flight, 1.0, most_in_flight);
        let unlimited = bounds.rate == Rate::Unlimited;
        // Who wants no limit wants none from yesterday either.
        let known = if unlimited { Limit::NONE } else { bounds.known };
        if let Some(known) = known.rate {
            rate.start_near(known.value, known.times);
        }
        if let Some(known) = known.in_flight {
            in_flight.start_near(known.value + 1.0, known.times);
        }
        let mut controller = Self {
            limiter: Limiter::new(Rate::Unlimited),
            rate,
            in_flight,
            unlimited,
            out: 0,
            calls: 0,
            pauses: Pauses::default(),
            breaker: Breaker::new(bounds.outage),
            throughput: Throughput::default(),
            random: RandomRefusals::default(),
            levels: Levels::default(),
            latency: Latency::default(),
            interval: Interval::default(),
            pace_before: 0.0,
            last_cut: Duration::ZERO,
            before_cut: None,
            next_taken_back: 0,
            refused_since: Duration::ZERO,
            window: Window::default(),
            warned: false,
            scouting: false,
            single: None,
            quota_hint: QuotaHint::default(),
            when_well: None,
            last_answered: Duration::ZERO,
            since_cut: SinceCut::default(),
            slowed: None,
            used: 0.0,
        };
        controller.set_limiter(Duration::ZERO);
        controller
    }

    /// Whether a call may begin now. `Go` takes it.
    pub(super) fn ask(&mut self, now: Duration) -> Turn {
        self.end_interval(now);
        if let Some(until) = self.pauses.until(now) {
            return Turn::At(until);
        }
        let probe = self.breaker.next_probe();
        if let Some(next) = probe.filter(|next| now < *next) {
            return Turn::At(next);
        }
        let alone = self.scouting || probe.is_some();
        if alone && self.single.is_some() {
            return Turn::AfterAnother;
        }
        if self.out >= self.most_in_flight() {
            self.interval.in_flight_used = true;
            return Turn::AfterAnother;
        }
        if let Err(wait) = self.limiter.check(now) {
            self.interval.rate_used = true;
            return Turn::At(now + wait);
        }
        self.out += 1;
        self.calls += 1;
        self.interval.calls += 1;
        if alone {
            self.single = Some(now);
        }
        Turn::Go(Call {
            began: now,
            number: self.calls,
            level: self.out.try_into().unwrap_or(u32::MAX),
            probe: probe.is_some(),
        })
    }

    /// A call ended, which was this try of its row. `fraction` is random, from 0 up to 1.
    pub(super) fn ended(
        &mut self,
        now: Duration,
        call: Call,
        how: Ended,
        tried: Try,
        fraction: f64,
    ) -> Option<Change> {
        self.out = self.out.saturating_sub(1);
        if self.single == Some(call.began) {
            self.single = None;
        }
        match how {
            Ended::Throttled(_) | Ended::Abandoned => {}
            Ended::Answered => self.pauses.answered(call.began),
            Ended::Failed | Ended::Unwell | Ended::TimedOut => self.pauses.not_refused(call.began),
        }
        let outcome = match (how, tried) {
            (Ended::Answered, Try::First) => Outcome::Accepted(call.began),
            (Ended::Throttled(_), Try::First) => Outcome::Refused(call.began),
            _ => Outcome::Other,
        };
        self.random.ended(call.number, outcome);
        match how {
            Ended::Abandoned => None,
            Ended::Answered => {
                self.interval.answers += 1;
                self.since_cut.answers = self.since_cut.answers.saturating_add(1);
                self.last_answered = self.last_answered.max(call.began);
                // While refusals are on their way, more are out than the service knows.
                if !(self.refused_since..self.last_cut).contains(&call.began) {
                    self.levels.accepted(now, call.level);
                }
                self.throughput.accepted(call);
                self.latency.note(now.saturating_sub(call.began));
                self.went_through(now, call)
            }
            Ended::Throttled(wait) => self.throttled(now, call, wait, tried, fraction),
            Ended::Failed => self.failed(now, call, Bad::Failed),
            Ended::Unwell => self.failed(now, call, Bad::NoAnswer),
            Ended::TimedOut => {
                self.since_cut.timeouts = self.since_cut.timeouts.saturating_add(1);
                let SinceCut { answers, timeouts } = self.since_cut;
                if call.began >= self.last_cut && timeouts * ANSWERS_A_TIMEOUT > answers {
                    self.last_cut = now;
                    self.since_cut = SinceCut::default();
                    let in_flight = self.in_flight.value() * AFTER_TIMEOUT;
                    self.in_flight.slow_to(in_flight);
                }
                self.failed(now, call, Bad::NoAnswer)
            }
        }
    }

    /// What an answer's headers said.
    pub(super) fn allowed(&mut self, now: Duration, allowance: Allowance) {
        self.quota_hint.note(now, allowance);
        self.set_limiter(now);
    }

    /// Calls a second that are allowed now; `None` where nothing limits them.
    pub(super) fn rate(&self, now: Duration) -> Option<f64> {
        let own = (!self.unlimited).then(|| {
            self.slowed
                .map_or(self.rate.value(), |slowed| slowed.min(self.rate.value()))
        });
        match (own, self.quota_hint.rate(now)) {
            (Some(own), Some(asked)) => Some(own.min(asked)),
            (own, asked) => own.or(asked),
        }
    }

    /// Calls in flight that are allowed now.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "from 1 to the user's ceiling"
    )]
    pub(super) fn most_in_flight(&self) -> usize {
        self.in_flight.value() as usize
    }

    /// The pace as people should know it.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "from 1 to the user's ceiling"
    )]
    pub(super) fn pace(&self, now: Duration) -> Pace {
        let limit = self.limit().seen_as_limit();
        Pace {
            rate: self.rate(now),
            in_flight: self.most_in_flight(),
            search: self.rate.stage(),
            limit: limit.rate.map(|found| found.value),
            limit_in_flight: limit.in_flight.map(|found| found.value as usize),
            headers: self.quota_hint.hint(now),
            refused_at_any: self.random.share(),
            at_ceiling: self.rate.is_at_most(),
        }
    }

    /// What the service was found to bear.
    pub(super) fn limit(&self) -> Limit {
        Limit {
            rate: self.rate.limit(),
            // The least that was refused is one more than what is borne.
            in_flight: self.in_flight.limit().map(|found| Found {
                value: found.value - 1.0,
                ..found
            }),
        }
    }

    /// Whether the service is taken to be down.
    pub(super) const fn is_down(&self) -> bool {
        self.breaker.is_open()
    }

    /// The service is not down, whatever it seemed: for how long it was taken to be.
    pub(super) fn dismiss_outage(&mut self, now: Duration) -> Option<Duration> {
        let since = self.breaker.dismiss()?;
        self.begin_again(now);
        Some(now.saturating_sub(since))
    }

    /// The service is there: what follows a pause is over.
    fn went_through(&mut self, now: Duration, call: Call) -> Option<Change> {
        if self.pauses.is_after(call.began) {
            self.scouting = false;
        }
        match self.breaker.good(call.began) {
            Turned::Up { since } => {
                self.begin_again(now);
                Some(Change::Up {
                    lasted: now.saturating_sub(since),
                })
            }
            Turned::No | Turned::Down { .. } => None,
        }
    }

    /// An outage is over: slowly at first, as all who wait come at once.
    fn begin_again(&mut self, now: Duration) {
        let before = self.when_well.unwrap_or(f64::INFINITY);
        self.rate
            .slow_to(self.rate.value().min(before) * AFTER_OUTAGE);
        let in_flight = self.in_flight.value() * AFTER_OUTAGE;
        self.in_flight.slow_to(in_flight);
        self.scouting = false;
        self.set_limiter(now);
    }

    fn failed(&mut self, now: Duration, call: Call, how: Bad) -> Option<Change> {
        self.interval.failures += 1;
        // A call that hangs says nothing of a service that has answered a later one.
        if !self.breaker.is_open() && call.began < self.last_answered {
            return None;
        }
        match self.breaker.bad(call.began, now, how) {
            Turned::Down { since, next } => Some(Change::Down {
                lasted: now.saturating_sub(since),
                next: next.saturating_sub(now),
            }),
            Turned::No | Turned::Up { .. } => None,
        }
    }

    fn end_interval(&mut self, now: Duration) {
        if now < self.interval.ends {
            return;
        }
        if let Some(limited) = self.random.limited(now) {
            self.rate.is_limited(limited.borne, limited.refused);
        }
        self.slowed = self
            .random
            .slowed(now, self.used.min(self.rate.value()).max(LEAST_RATE));
        // What headers asked for may be over.
        self.set_limiter(now);
        let length =
            (self.latency.typical().unwrap_or_default() * ROUND_TRIPS).max(SHORTEST_INTERVAL);
        let over = std::mem::replace(
            &mut self.interval,
            Interval {
                began: now,
                ends: now + length,
                ..Interval::default()
            },
        );
        let lasted = now
            .saturating_sub(over.began)
            .max(SHORTEST_INTERVAL)
            .as_secs_f64();
        self.pace_before = f64::from(over.calls) / lasted;
        if self.slowed.is_none() && over.calls > 0 {
            self.used = if over.rate_used {
                self.rate.value()
            } else {
                self.pace_before
            };
        }
        let trend = self.latency.interval(self.in_flight.value());
        if trend == Trend::Queueing && !self.unlimited {
            self.in_flight
                .slow_to(self.in_flight.value() * WHILE_QUEUEING);
        }
        let troubled = over.refused || over.failures * 2 > over.answers;
        if troubled || over.answers == 0 || self.pauses.until(now).is_some() {
            return;
        }
        if !self.breaker.is_open() {
            self.when_well = Some(f64::from(over.answers) / lasted);
        }
        let shown = (length * 2).max(SHORTEST_STEP).max(self.window.shown());
        let helped = self.random.has_helped();
        if trend == Trend::Usual {
            self.in_flight
                .calm(now, length, shown, over.in_flight_used, helped);
        }
        if trend != Trend::Queueing {
            let was_limited = self.rate.limit().is_some();
            self.rate.calm(
                now,
                length,
                shown,
                over.rate_used && self.slowed.is_none(),
                helped,
            );
            if helped {
                self.random.explained();
            }
            if was_limited && self.rate.limit().is_none() {
                self.window.is_disproved();
            }
            self.set_limiter(now);
        }
    }

    fn set_limiter(&mut self, now: Duration) {
        self.limiter
            .set(self.rate(now).map_or(Rate::Unlimited, Rate::PerSecond));
    }
}

mod refusals;
#[cfg(test)]
mod tests;
