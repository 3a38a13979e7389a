//! The pace of one run: counts its calls, and steps its own value or takes part in one that several share.
//!
//! Times and outcomes are passed in; nothing here waits or makes calls.

use std::time::Duration;

use super::limiter::Limiter;
use super::pause::Breaker;
use super::shared::{PaceAsk, PaceReply, SharedPace, Step, sum};
use super::tally::{TalliedCall, Tally};
use super::types::Rate;
use super::types::{Admission, Allowance, Call, CallSignal, PaceEvent, PaceLimits};
use super::value::PaceValue;
use crate::telemetry::pace::{Limit, Pace, PaceCause, Pause};

/// Decides when calls start.
pub(super) struct Controller {
    value: PaceValue,
    breaker: Breaker,
    limiter: Limiter,
    /// The part in a pace that several workers share, which grants each call.
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
    /// The number of the call that is out alone, after a pause or in an outage.
    single: Option<u64>,
    /// When the most recently started of the answered calls started.
    last_answered: Duration,
    /// Since when every call has been refused or has failed.
    in_vain_since: Option<Duration>,
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
            limiter: Limiter::default(),
            shared: None,
            limits: *limits,
            tally: Tally::default(),
            latencies: Vec::new(),
            calls: 0,
            out: 0,
            single: None,
            last_answered: Duration::ZERO,
            in_vain_since: None,
            event: None,
        };
        controller.set_limiter(Duration::ZERO);
        controller
    }

    /// From now on this worker shares its pace with others: their common store answers the questions of [`Self::ask`].
    pub(super) fn share(&mut self, worker: String) {
        self.shared = Some(SharedPace::new(worker));
    }

    /// Calls a second that are allowed now; `None` if nothing limits them. Of a shared pace, this worker's part.
    pub(super) fn rate(&self, now: Duration) -> Option<f64> {
        let workers = self.shared.as_ref().map_or(1, SharedPace::workers);
        let rate = self.value.allowed(self.seconds(now));
        rate.map(|rate| rate / f64::from(workers))
    }

    /// How many more calls may be in flight.
    pub(super) fn free(&self) -> usize {
        self.most_in_flight().saturating_sub(self.out as usize)
    }

    /// Calls in flight that this worker may have now.
    pub(super) fn most_in_flight(&self) -> usize {
        match &self.shared {
            Some(shared) => self.limits.in_flight.get().min(shared.part() as usize),
            None => self.value.most_in_flight(),
        }
    }

    /// The value's time: a shared one has a clock of its own.
    fn seconds(&self, now: Duration) -> f64 {
        let own = now.as_secs_f64();
        { self.shared.as_ref() }.map_or(own, |shared| shared.clock.there(now))
    }

    /// The pace, for people to read.
    pub(super) fn pace(&self, now: Duration) -> Pace {
        self.value.pace(self.seconds(now))
    }

    /// Why the pace has changed since the last question, if it has.
    pub(super) fn take_cause(&mut self) -> PaceCause {
        self.value.take_cause()
    }

    /// The limits of the service that were found.
    pub(super) fn limit(&self) -> Limit {
        self.value.limit()
    }

    /// Whether the service is taken to be down.
    pub(super) const fn is_down(&self) -> bool {
        self.breaker.is_down()
    }

    /// For how long, up to `now`, calls have been refused or have failed without any call that started since being accepted.
    pub(super) fn without_success_for(&self, now: Duration) -> Duration {
        let since = self.in_vain_since;
        since.map_or(Duration::ZERO, |since| now.saturating_sub(since))
    }

    /// When all calls may start again, or one of them: when the run's patience ends at the latest.
    fn pause_ends(&self) -> Duration {
        let until = self.value.pauses.until;
        let refused = match &self.shared {
            Some(shared) => shared.clock.here(until).max(shared.held_until()),
            None => Duration::try_from_secs_f64(until).unwrap_or(Duration::MAX),
        };
        let until = refused.max(self.breaker.until());
        self.patience_ends().map_or(until, |ends| until.min(ends))
    }

    /// When a last call is made, if no call has been accepted by then.
    fn patience_ends(&self) -> Option<Duration> {
        let since = self.in_vain_since?;
        Some(since.saturating_add(self.limits.max_wait))
    }

    /// Whether a call may start now. `Admitted` counts it as started.
    pub(super) fn admit(&mut self, now: Duration) -> Admission {
        let seconds = self.seconds(now);
        if self.shared.is_none() && seconds >= self.value.due {
            // The random number stretches waits that refusals name, and these are not left to such a step.
            self.step(now, 0.0);
        }
        let until = self.pause_ends();
        if now < until {
            return Admission::NotBefore(until);
        }
        let is_alone = self.value.pauses.is_alone || self.breaker.is_down();
        if is_alone && self.single.is_some() {
            return Admission::OnChange;
        }
        if self.out as usize >= self.value.most_in_flight() {
            // The user's own ceiling says nothing about a limit that all share.
            self.tally.in_flight_used |= self.most_in_flight() < self.limits.in_flight.get();
            return Admission::OnChange;
        }
        let is_last = is_alone && self.patience_ends().is_some_and(|ends| ends <= now);
        let taken = match &mut self.shared {
            Some(_) if is_last => Ok(()),
            Some(shared) => shared.take(now, self.value.pauses.is_alone),
            None => { self.limiter.check(now) }.map_err(|wait| Some(now + wait)),
        };
        if let Err(at) = taken {
            // A shared pace says itself whether the rate is what was missing.
            self.tally.rate_used |= self.shared.is_none() && self.value.is_search_used(seconds);
            return at.map_or(Admission::OnChange, Admission::NotBefore);
        }
        self.out += 1;
        self.calls += 1;
        self.tally.started += 1;
        if is_alone {
            self.single = Some(self.calls);
        }
        Admission::Admitted(Call {
            began: now,
            number: self.calls,
            level: self.out + self.shared.as_ref().map_or(0, SharedPace::others),
            cut_at: self.value.cut_at,
            probe: self.breaker.is_down(),
        })
    }

    /// A call ended; `is_about_row`: its refusal concerns its row alone. `fraction` is random, from 0 up to 1.
    pub(super) fn call_ended(
        &mut self,
        now: Duration,
        call: Call,
        outcome: CallSignal,
        is_about_row: bool,
        fraction: f64,
    ) -> Option<PaceEvent> {
        let outcome = self.meaning(call, outcome, is_about_row);
        self.out = self.out.saturating_sub(1);
        let is_single = self.single == Some(call.number);
        if is_single {
            self.single = None;
        }
        self.note_in_vain(now, call, outcome, is_about_row);
        if outcome == CallSignal::Answered {
            self.last_answered = self.last_answered.max(call.began);
            if self.latencies.len() < SAMPLES.1 {
                let latency = now.saturating_sub(call.began);
                self.latencies.push(latency.as_secs_f64());
            }
        }
        let ended = TalliedCall {
            call,
            began: self.seconds(call.began),
            is_single,
            is_new: call.cut_at >= self.value.cut_at,
            later: self.calls - call.number,
        };
        // A refusal that concerns one row says nothing about the service.
        let is_new = !is_about_row && self.tally.note(ended, outcome);
        let is_about_pace = is_single || !self.value.is_row_alone(self.tally.wait);
        if is_new && is_about_pace {
            self.step_soon(now, fraction);
        }
        if !is_about_row && let Some(event) = self.breaker.ended(now, outcome, is_single) {
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
        let wait = match outcome {
            CallSignal::Throttled(wait) => wait.unwrap_or_default(),
            CallSignal::BusyOrAway => Duration::ZERO,
            // Perhaps no caller is left to report the change.
            CallSignal::Abandoned => return None,
            _ => return self.event.take(),
        };
        let row_waits = is_about_row || self.value.is_row_alone(wait.as_secs_f64());
        if row_waits
            && !matches!(
                self.event,
                Some(PaceEvent::Paused(_) | PaceEvent::Down { .. })
            )
        {
            return Some(PaceEvent::RowWaits(wait));
        }
        self.event.take()
    }

    /// Records since when no call was accepted.
    fn note_in_vain(&mut self, now: Duration, call: Call, outcome: CallSignal, is_about_row: bool) {
        match outcome {
            CallSignal::Answered => {
                let is_over = self.in_vain_since.is_none_or(|since| call.began >= since);
                self.in_vain_since = self.in_vain_since.filter(|_| !is_over);
            }
            CallSignal::Abandoned => {}
            _ if is_about_row => {}
            _ => self.in_vain_since = self.in_vain_since.or(Some(now)),
        }
    }

    /// Translates an outcome to what it means at present.
    fn meaning(&self, call: Call, outcome: CallSignal, is_about_row: bool) -> CallSignal {
        match outcome {
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
            outcome => outcome,
        }
    }

    /// The service is not down, although it seemed so. Returns for how long it was taken to be.
    pub(super) fn dismiss_outage(&mut self, now: Duration) -> Option<Duration> {
        let lasted = self.breaker.dismiss(now)?;
        self.in_vain_since = None;
        self.resume(now);
        Some(lasted)
    }

    /// Calls start slowly again. Those who share a pace are down each for itself, and their parts are slow enough.
    fn resume(&mut self, now: Duration) {
        if self.shared.is_none() {
            self.value.resume();
            self.set_limiter(now);
        }
    }

    /// An answer's headers named the remaining quota.
    pub(super) fn allowed(&mut self, now: Duration, allowance: Allowance) {
        #[allow(clippy::cast_precision_loss, reason = "a quota need not be exact")]
        let left = allowance.calls as f64;
        self.tally.left = Some((left, allowance.lasts.as_secs_f64()));
        if self.value.awaits_hint(self.seconds(now)) {
            self.step_soon(now, 0.0);
        }
    }

    /// Steps the pace at once, or asks for a step if workers share it.
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
        let seen = (self.value.cut_at, std::mem::take(&mut self.tally));
        Some(shared.ask(now, self.out, seen, random))
    }

    /// Applies its reply. `random` is from 0 up to 1.
    pub(super) fn replied(&mut self, now: Duration, mut reply: PaceReply, random: f64) {
        let Some(shared) = &mut self.shared else {
            return;
        };
        shared.clock.replied(now, reply.now);
        let has_value = reply.value.is_some();
        let before = (self.value.cut_at, self.value.pauses.until);
        if shared.is_new(reply.version) {
            self.limits.known = self.value.limit();
            self.value = PaceValue::of_all(self.limits);
        }
        if let Some(value) = reply.value.take() {
            self.value = value;
            if self.value.cut_at > before.0 {
                // Earlier refusals concern a pace that no longer applies.
                self.tally.refused_new = 0;
                shared.is_cut();
            }
        }
        shared.replied(&reply, self.value.pauses.is_alone);
        let is_open = self.value.pauses.is_over(reply.now) && reply.now >= reply.held_until;
        self.tally.rate_used |=
            is_open && shared.is_short(&reply) && self.value.is_search_used(reply.now);
        if let Some(tallies) = reply.step {
            let mut value = self.value.clone();
            if reply.version > 0 {
                let tally = sum(tallies, reply.now, reply.rate, value.cut_at);
                value.step(reply.now, &tally, random);
            }
            shared.stepped(now, Step::new(reply.version, value, reply.now));
        }
        if !has_value {
            return;
        }
        self.note_others(now);
        if self.value.pauses.until > before.1 {
            let wait = self.pause_ends().saturating_sub(now);
            self.event = Some(PaceEvent::Paused(Pause {
                length: wait,
                asked: None,
            }));
        }
    }

    /// Whether others are accepted counts for this run's patience as well.
    fn note_others(&mut self, now: Duration) {
        if self.value.pauses.in_a_row > 0.0 {
            self.in_vain_since = self.in_vain_since.or(Some(now));
        } else if !self.is_down() {
            self.in_vain_since = None;
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
        self.set_limiter(now);
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

    /// Sets the limiter to the rate that is allowed now.
    fn set_limiter(&mut self, now: Duration) {
        let rate = self.rate(now);
        self.limiter.set(rate);
    }
}
