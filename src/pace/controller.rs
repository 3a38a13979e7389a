//! The pace of one run: counts its calls, and steps its own value or takes part in one that several share. Beside the value
//! stand two mechanisms of this run alone: the breaker for a service that is down, and the pacer that spaces calls.
//!
//! Times and signals are passed in; nothing here waits or makes calls. This is the only file that names governor.

use std::cell::Cell;
use std::num::NonZeroU32;
use std::rc::Rc;
use std::time::Duration;

use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};

use super::shared::{PaceAsk, PaceReply, SharedPace, Step, sum};
use super::tally::Tally;
use super::types::{
    Admission, Allowance, Call, CallSignal, PaceEvent, PaceLimits, Rate, TICK, whole,
};
use super::value::PaceValue;
use crate::telemetry::pace::Pause;

/// Decides when calls start.
pub(super) struct Controller {
    pub(super) value: PaceValue,
    breaker: Breaker,
    pacer: Pacer,
    /// This run's part in a pace that it shares with its peers, which grants each call.
    shared: Option<SharedPace>,
    limits: PaceLimits,
    /// Counts of calls since the last step, …
    tally: Tally,
    /// … and the times of answers, in seconds.
    latencies: Vec<f64>,
    /// Calls that have started.
    calls: u64,
    /// Calls that are out now.
    out: u32,
    /// The number of the probe that is out: one call, after a pause or in an outage.
    probe: Option<u64>,
    /// When the most recently started of the answered calls started.
    last_answered: Duration,
    /// Since when every call has been refused or has failed.
    without_success_since: Option<Duration>,
    /// A change by a step that no call has reported yet.
    event: Option<PaceEvent>,
}

/// The fewest and the most answers in a median: fewer leave it to chance, and more do not improve it.
const SAMPLES: (usize, usize) = (8, 256);
/// An answer is fast if one in this many is faster.
const FAST_ONE_IN: usize = 5;

impl Controller {
    pub(super) fn new(limits: &PaceLimits) -> Self {
        let mut controller = Self {
            value: PaceValue::new(limits),
            breaker: Breaker::default(),
            pacer: Pacer::default(),
            shared: None,
            limits: *limits,
            tally: Tally::default(),
            latencies: Vec::new(),
            calls: 0,
            out: 0,
            probe: None,
            last_answered: Duration::ZERO,
            without_success_since: None,
            event: None,
        };
        controller.set_pacer(Duration::ZERO);
        controller
    }

    /// From now on this run shares its pace with its peers: their common store answers the questions of [`Self::ask`].
    pub(super) fn share(&mut self, name: String) {
        self.shared = Some(SharedPace::new(name));
    }

    /// Calls a second that are allowed now; `None` if nothing limits them. Of a shared pace, this run's part.
    pub(super) fn rate(&self, now: Duration) -> Option<f64> {
        let sharing = self.shared.as_ref().map_or(1, |shared| shared.sharing);
        let rate = self.value.allowed(self.seconds(now));
        rate.map(|rate| rate / f64::from(sharing))
    }

    /// How many more calls may be in flight.
    pub(super) fn free(&self) -> usize {
        self.most_in_flight().saturating_sub(self.out as usize)
    }

    /// Calls in flight that this run may have now.
    pub(super) fn most_in_flight(&self) -> usize {
        match &self.shared {
            Some(shared) => self.limits.in_flight.get().min(shared.part as usize),
            None => self.value.most_in_flight(),
        }
    }

    /// The value's time: a shared one has a clock of its own.
    pub(super) fn seconds(&self, now: Duration) -> f64 {
        match &self.shared {
            Some(shared) => shared.clock.there(now),
            None => now.as_secs_f64(),
        }
    }

    /// Whether the service is taken to be down.
    pub(super) const fn is_down(&self) -> bool {
        self.breaker.outage.is_some()
    }

    /// For how long, up to `now`, calls have been refused or have failed without any call that started since being accepted.
    pub(super) fn without_success_for(&self, now: Duration) -> Duration {
        let since = self.without_success_since;
        since.map_or(Duration::ZERO, |since| now.saturating_sub(since))
    }

    /// When all calls may start again, or one of them: when the run's patience ends at the latest.
    fn pause_ends(&self) -> Duration {
        let until = self.value.pauses.until;
        let refused = match &self.shared {
            Some(shared) => shared.clock.here(until).max(shared.held_until),
            None => Duration::try_from_secs_f64(until).unwrap_or(Duration::MAX),
        };
        let outage = self.breaker.outage.as_ref();
        let until = outage.map_or(refused, |outage| outage.until.max(refused));
        self.patience_ends().map_or(until, |ends| until.min(ends))
    }

    /// When a last call is made, if no call has been accepted by then.
    fn patience_ends(&self) -> Option<Duration> {
        let since = self.without_success_since?;
        Some(since.saturating_add(self.limits.max_wait))
    }

    /// Whether a call may start now. `Admitted` counts it as started.
    pub(super) fn admit(&mut self, now: Duration) -> Admission {
        let seconds = self.seconds(now);
        if self.shared.is_none() && seconds >= self.value.due {
            // The random number stretches waits that refusals name, and a refusal has its own step.
            self.step(now, 0.0);
        }
        let until = self.pause_ends();
        if now < until {
            return Admission::NotBefore(until);
        }
        let is_probe = self.value.pauses.probe_first || self.is_down();
        if is_probe && self.probe.is_some() {
            return Admission::OnChange;
        }
        if self.out as usize >= self.value.most_in_flight() {
            // The user's own ceiling says nothing about a limit that all share.
            self.tally.in_flight_used |= self.most_in_flight() < self.limits.in_flight.get();
            return Admission::OnChange;
        }
        let is_last = is_probe && self.patience_ends().is_some_and(|ends| ends <= now);
        let taken = match &mut self.shared {
            Some(_) if is_last => Ok(()),
            Some(shared) => shared.take(now, self.value.pauses.probe_first),
            None => self.pacer.check(now).map_err(|wait| Some(now + wait)),
        };
        if let Err(at) = taken {
            // A shared pace knows itself whether the rate was too low.
            self.tally.rate_used |= self.shared.is_none() && self.value.is_search_used(seconds);
            return at.map_or(Admission::OnChange, Admission::NotBefore);
        }
        self.out += 1;
        self.calls += 1;
        self.tally.started += 1;
        if is_probe {
            self.probe = Some(self.calls);
        }
        Admission::Admitted(Call {
            began: now,
            number: self.calls,
            level: self.out + self.shared.as_ref().map_or(0, |shared| shared.out_of_peers),
            decreased_at: self.value.decreased_at,
            in_outage: self.is_down(),
        })
    }

    /// A call ended; `is_about_row`: its refusal concerns its row alone. `fraction` is random, from 0 up to 1.
    pub(super) fn call_ended(
        &mut self,
        now: Duration,
        call: Call,
        signal: CallSignal,
        is_about_row: bool,
        fraction: f64,
    ) -> Option<PaceEvent> {
        let signal = self.meaning(call, signal, is_about_row);
        self.out = self.out.saturating_sub(1);
        let is_probe = self
            .probe
            .take_if(|number| *number == call.number)
            .is_some();
        self.note_success(now, call, signal, is_about_row);
        if signal == CallSignal::Answered {
            self.last_answered = self.last_answered.max(call.began);
            if self.latencies.len() < SAMPLES.1 {
                let latency = now.saturating_sub(call.began);
                self.latencies.push(latency.as_secs_f64());
            }
        }
        // A refusal that concerns one row says nothing about the service.
        let is_new = !is_about_row && {
            let (began, later) = (self.seconds(call.began), self.calls - call.number);
            let is_newest = call.decreased_at >= self.value.decreased_at;
            self.tally
                .note(signal, call.level, began, later, is_probe, is_newest)
        };
        let is_about_pace = is_probe || !self.value.only_row_waits(self.tally.wait);
        if is_new && is_about_pace {
            self.step_soon(now, fraction);
        }
        if !is_about_row && let Some(event) = self.breaker.ended(now, signal, is_probe) {
            self.event = Some(match event {
                PaceEvent::Down { lasted, .. } => PaceEvent::Down {
                    lasted,
                    next: self.pause_ends().saturating_sub(now),
                },
                event => event,
            });
            if let PaceEvent::Up { .. } = event {
                self.resume(now);
            }
        }
        let wait = match signal {
            CallSignal::Throttled(wait) => wait.unwrap_or_default(),
            CallSignal::BusyOrAway => Duration::ZERO,
            // Perhaps no caller is left to report the change.
            CallSignal::Abandoned => return None,
            _ => return self.event.take(),
        };
        let only_row_waits = is_about_row || self.value.only_row_waits(wait.as_secs_f64());
        match self.event {
            Some(PaceEvent::Paused(_) | PaceEvent::Down { .. }) => self.event.take(),
            _ if only_row_waits => Some(PaceEvent::RowWaits(wait)),
            _ => self.event.take(),
        }
    }

    /// Records since when no call was accepted.
    fn note_success(&mut self, now: Duration, call: Call, signal: CallSignal, is_about_row: bool) {
        let since = &mut self.without_success_since;
        match signal {
            CallSignal::Answered => *since = since.filter(|since| call.began < *since),
            CallSignal::Abandoned => {}
            _ if is_about_row => {}
            _ => *since = since.or(Some(now)),
        }
    }

    /// Translates a signal to what it means at present.
    fn meaning(&self, call: Call, signal: CallSignal, is_about_row: bool) -> CallSignal {
        match signal {
            // Without a search of the pace, and while the service is down, a bare 503 asks for nothing.
            CallSignal::BusyOrAway
                if !is_about_row && (self.limits.rate == Rate::Unlimited || self.is_down()) =>
            {
                CallSignal::Unavailable
            }
            // A call that hangs says nothing about a service that has answered a later one.
            CallSignal::Failed | CallSignal::Unavailable | CallSignal::TimedOut
                if call.began < self.last_answered && !self.is_down() =>
            {
                CallSignal::Abandoned
            }
            signal => signal,
        }
    }

    /// The service is not down, although it seemed so. Returns for how long it was taken to be.
    pub(super) fn dismiss_outage(&mut self, now: Duration) -> Option<Duration> {
        let outage = std::mem::take(&mut self.breaker).outage?;
        self.without_success_since = None;
        self.resume(now);
        Some(now.saturating_sub(outage.since))
    }

    /// Calls start slowly again. Peers that share a pace are down each for itself, and their parts are slow enough.
    fn resume(&mut self, now: Duration) {
        if self.shared.is_none() {
            self.value.resume();
            self.set_pacer(now);
        }
    }

    /// An answer's headers named the remaining quota.
    pub(super) fn allowed(&mut self, now: Duration, allowance: Allowance) {
        self.tally.left = Some((allowance.calls as f64, allowance.lasts.as_secs_f64()));
        if self.value.awaits_hint(self.seconds(now)) {
            self.step_soon(now, 0.0);
        }
    }

    /// Steps the pace immediately, or asks for a step if peers share it.
    fn step_soon(&mut self, now: Duration, random: f64) {
        match &mut self.shared {
            Some(shared) => shared.ask_soon(now, self.tally.refused_new > 0),
            None => self.step(now, random),
        }
    }

    /// When to ask the store of a shared pace; `None` if there is no question now.
    pub(super) fn asks_at(&self) -> Option<Duration> {
        self.shared.as_ref().and_then(SharedPace::asks_at)
    }

    /// The report and the question for the store of a shared pace.
    pub(super) fn ask(&mut self, now: Duration, random: f64) -> Option<PaceAsk> {
        self.add_latencies();
        let shared = self.shared.as_mut()?;
        let tally = (self.value.decreased_at, std::mem::take(&mut self.tally));
        Some(shared.ask(now, self.out, tally, random))
    }

    /// Applies its reply. `random` is from 0 up to 1.
    pub(super) fn replied(&mut self, now: Duration, mut reply: PaceReply, random: f64) {
        let Some(shared) = &mut self.shared else {
            return;
        };
        shared.clock.replied(now, reply.now);
        let has_value = reply.value.is_some();
        let before = (self.value.decreased_at, self.value.pauses.until);
        if shared.is_new(reply.version) {
            self.limits.remembered = self.value.limit();
            self.value = PaceValue::of_all(self.limits);
        }
        if let Some(value) = reply.value.take() {
            self.value = value;
            if self.value.decreased_at > before.0 {
                // Earlier refusals concern a pace that no longer applies.
                self.tally.refused_new = 0;
                shared.forget_grants();
            }
        }
        shared.replied(&reply, self.value.pauses.probe_first);
        let is_open = self.value.pauses.is_over(reply.now) && reply.now >= reply.held_until;
        self.tally.rate_used |=
            is_open && reply.calls < shared.wants && self.value.is_search_used(reply.now);
        if let Some(tallies) = reply.step {
            let mut value = self.value.clone();
            if reply.version > 0 {
                let tally = sum(tallies, reply.now, reply.rate, value.decreased_at);
                value.step(reply.now, &tally, random);
            }
            shared.stepped(now, Step::new(reply.version, value, reply.now));
        }
        if !has_value {
            return;
        }
        // What peers achieve counts for this run's patience as well.
        if self.value.pauses.in_a_row > 0.0 {
            self.without_success_since = self.without_success_since.or(Some(now));
        } else if !self.is_down() {
            self.without_success_since = None;
        }
        if self.value.pauses.until > before.1 {
            let wait = self.pause_ends().saturating_sub(now);
            self.event = Some(PaceEvent::Paused(Pause {
                length: wait,
                asked: None,
            }));
        }
    }

    fn step(&mut self, now: Duration, random: f64) {
        self.add_latencies();
        let tally = std::mem::take(&mut self.tally);
        let seconds = now.as_secs_f64();
        let until = self.value.pauses.until;
        self.value.step(seconds, &tally, random);
        if self.value.pauses.until > until {
            self.event = Some(PaceEvent::Paused(Pause {
                length: self.pause_ends().saturating_sub(now),
                asked: (tally.wait > 0.0).then(|| Duration::from_secs_f64(tally.wait)),
            }));
        }
        self.set_pacer(now);
    }

    /// The median of the answers' times, and the fast ones, if there are enough.
    fn add_latencies(&mut self) {
        let samples = &mut self.latencies;
        let many = samples.len();
        if many == 0 {
            return;
        }
        let (_, median, _) = samples.select_nth_unstable_by(many / 2, f64::total_cmp);
        self.tally.median = *median;
        if many >= SAMPLES.0 {
            let (_, fast, _) = samples.select_nth_unstable_by(many / FAST_ONE_IN, f64::total_cmp);
            self.tally.fast = *fast;
            samples.clear();
        }
    }

    /// Sets the pacer to the rate that is allowed now.
    fn set_pacer(&mut self, now: Duration) {
        let rate = self.rate(now);
        self.pacer.set(rate);
    }
}

/// Whether the service is there at all, as far as the last calls showed. A run has its own breaker even if it shares its pace,
/// because its own network may be broken.
#[derive(Debug, Default)]
struct Breaker {
    failed_in_a_row: u32,
    /// The service is taken to be down.
    outage: Option<Outage>,
}

#[derive(Debug)]
struct Outage {
    since: Duration,
    /// When the next probe may find out whether the service is back.
    until: Duration,
    /// The wait after the last one.
    wait: Duration,
    /// Good answers since the last bad one.
    good: u32,
}

/// The first wait for a service that is down: a restart takes seconds.
const FIRST_WAIT: Duration = Duration::from_secs(5);
/// The longest wait for it: an incident takes minutes.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// The longest wait while the service answers with failures. Six calls a minute are no burden to it, and it may fail over
/// certain rows: then about ninety of them can be told from an outage before the run stops waiting.
const LONGEST_WAIT_WHILE_FAILING: Duration = Duration::from_secs(10);
/// Failures in a row that show that it is down: a service that fails one call in three does so once in 59,000 calls,
/// and one that fails three in four after some tens.
const FAILED_IN_A_ROW: u32 = 10;
/// Good answers that show that it is back: a single one may be a load balancer's lucky choice.
const GOOD_TO_BE_UP: u32 = 3;

impl Breaker {
    /// Applies the result of a call.
    fn ended(&mut self, now: Duration, signal: CallSignal, is_probe: bool) -> Option<PaceEvent> {
        let is_failed = match signal {
            CallSignal::Answered => false,
            CallSignal::Failed | CallSignal::Unavailable | CallSignal::TimedOut => true,
            CallSignal::BusyOrAway if is_probe => {
                // At the pace of probes a bare 503 is hardly about a limit.
                self.failed_in_a_row += 1;
                return self.open_if_failing(now, signal);
            }
            CallSignal::BusyOrAway | CallSignal::Throttled(_) | CallSignal::Abandoned => {
                return None;
            }
        };
        if let Some(outage) = &mut self.outage {
            // Calls that had started earlier tell nothing new.
            let event = is_probe.then(|| outage.probed(now, signal)).flatten();
            if let Some(PaceEvent::Up { .. }) = event {
                *self = Self::default();
            }
            return event;
        }
        self.failed_in_a_row = if is_failed {
            self.failed_in_a_row + 1
        } else {
            0
        };
        self.open_if_failing(now, signal)
    }

    fn open_if_failing(&mut self, now: Duration, last: CallSignal) -> Option<PaceEvent> {
        if self.failed_in_a_row < FAILED_IN_A_ROW {
            return None;
        }
        let outage = self.outage.insert(Outage {
            since: now,
            until: now,
            wait: FIRST_WAIT,
            good: 0,
        });
        Some(outage.waits(now, last))
    }
}

impl Outage {
    /// A probe has ended.
    fn probed(&mut self, now: Duration, signal: CallSignal) -> Option<PaceEvent> {
        if signal == CallSignal::Answered {
            self.good += 1;
            let lasted = now.saturating_sub(self.since);
            return (self.good >= GOOD_TO_BE_UP).then_some(PaceEvent::Up { lasted });
        }
        self.wait = if self.good > 0 {
            FIRST_WAIT
        } else {
            (self.wait * 2).min(LONGEST_WAIT)
        };
        self.good = 0;
        Some(self.waits(now, signal))
    }

    fn waits(&mut self, now: Duration, last: CallSignal) -> PaceEvent {
        let longest = if last == CallSignal::Failed {
            LONGEST_WAIT_WHILE_FAILING
        } else {
            LONGEST_WAIT
        };
        let next = self.wait.min(longest);
        self.until = now + next;
        PaceEvent::Down {
            lasted: now.saturating_sub(self.since),
            next,
        }
    }
}

/// The burst at rates with less than two ticks between calls: no service counts those so strictly, and calls that start
/// together need fewer wake-ups.
const BURST: Duration = Duration::from_millis(10);

/// Spaces calls at a rate that may change at any time. Times are passed in, and count from the start of the run.
#[derive(Default)]
struct Pacer {
    /// `None` if the rate is not limited.
    bucket: Option<Bucket>,
    rate: Option<f64>,
    now: ManualClock,
    /// When a call was last let through.
    last: Option<Duration>,
}

/// Governor counts whole cells. A call takes enough of them for a cell to be no longer than a tick of the timer, so that a
/// burst can be less than a call.
struct Bucket {
    limiter: RateLimiter<NotKeyed, InMemoryState, ManualClock, NoOpMiddleware<Duration>>,
    /// Cells of a call.
    call: NonZeroU32,
    /// Cells that can be taken together.
    burst: NonZeroU32,
}

impl Pacer {
    /// Sets the calls a second from now on. Governor cannot change a quota, so the new one starts as if the last call had used up
    /// its burst: a change neither gives calls away nor costs any.
    fn set(&mut self, rate: Option<f64>) {
        if rate == self.rate {
            return;
        }
        self.rate = rate;
        self.now.0.set(self.last.unwrap_or_default());
        self.bucket = rate.and_then(|rate| Bucket::new(rate, &self.now));
        if let (Some(Bucket { limiter, burst, .. }), Some(_)) = (&self.bucket, self.last) {
            let _ = limiter.check_n(*burst);
        }
    }

    /// Takes one call, or says how long to wait before asking again.
    fn check(&mut self, now: Duration) -> Result<(), Duration> {
        if let Some(Bucket { limiter, call, .. }) = &self.bucket {
            self.now.0.set(now);
            // A call is never more than the burst.
            if let Ok(checked) = limiter.check_n(*call) {
                checked.map_err(|until| until.wait_time_from(now))?;
            }
        }
        self.last = Some(now);
        Ok(())
    }
}

impl Bucket {
    fn new(rate: f64, clock: &ManualClock) -> Option<Self> {
        let period = Duration::from_secs_f64(1.0 / rate);
        let call = NonZeroU32::MIN.saturating_add(whole(period.div_duration_f64(TICK)));
        let each = period / call.get();
        let early = if period < TICK * 2 { BURST } else { TICK };
        let burst = call.saturating_add(whole(early.div_duration_f64(each)));
        let quota = Quota::with_period(each)?.allow_burst(burst);
        Some(Self {
            limiter: RateLimiter::direct_with_clock(quota, clock.clone()),
            call,
            burst,
        })
    }
}

/// The time that was last passed in, so that the program has one clock and tests can have their own.
#[derive(Debug, Clone, Default)]
struct ManualClock(Rc<Cell<Duration>>);

impl Clock for ManualClock {
    type Instant = Duration;

    fn now(&self) -> Duration {
        self.0.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls that start within `seconds` if each asks again after the wait that it was given.
    fn calls_in(pacer: &mut Pacer, from: u64, seconds: u64) -> u64 {
        let (mut now, mut calls) = (Duration::from_secs(from), 0);
        while now < Duration::from_secs(from + seconds) {
            match pacer.check(now) {
                Ok(()) => calls += 1,
                // A timer ticks at 1 ms.
                Err(wait) => now += wait.max(Duration::from_millis(1)),
            }
        }
        calls
    }

    fn pacer(rate: f64) -> Pacer {
        let mut pacer = Pacer::default();
        pacer.set(Some(rate));
        pacer
    }

    #[test]
    fn a_rate_is_reached_and_not_exceeded() {
        assert!((499..=501).contains(&calls_in(&mut pacer(50.0), 0, 10)));
        assert!((9_800..=10_050).contains(&calls_in(&mut pacer(1_000.0), 0, 10)));
        assert!((49_000..=50_250).contains(&calls_in(&mut pacer(5_000.0), 0, 10)));
    }

    #[test]
    fn a_rate_that_keeps_changing_is_neither_exceeded_nor_missed() {
        let mut pacer = pacer(50.0);
        let calls: u64 = (0..100)
            .map(|second| {
                pacer.set(Some(if second % 2 == 0 { 40.0 } else { 60.0 }));
                calls_in(&mut pacer, second, 1)
            })
            .sum();
        assert!((4_900..=5_001).contains(&calls), "{calls}");
    }
}
