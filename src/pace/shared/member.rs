//! One worker of a shared pace: when it may start a call, and what it asks the row and tells it.
//!
//! Pure arithmetic over time and outcomes, as the controller is. Times are since the run started; the row's clock is
//! another one.

use std::time::Duration;

use super::epochs::Epochs;
use super::leading::Lead;
use super::report::{Ended, EndedCall, Report, micros};
use super::slots::Slots;
use super::state::PaceState;
use crate::pace::breaker::{CircuitBreaker, FailureKind, Transition};
use crate::pace::random_refusals::RandomRefusals;
use crate::pace::rate::Rate;
use crate::pace::types::{Admission, Allowance, Call, CallOutcome, PaceEvent, PaceLimits, Try};
use crate::telemetry::pace::{Limit, Pace, PaceCause, Pause, SharedBy};
use crate::telemetry::shared_pace::{HOLD, PaceAsk, PaceDecision, PaceReply};

/// One of the workers that share a pace.
pub(in crate::pace) struct Member {
    id: u32,
    limits: PaceLimits,
    random: fastrand::Rng,
    slots: Slots,
    epochs: Epochs,
    /// What the row said last.
    rate: f64,
    state: PaceState,
    /// The most workers that there were at a time.
    most_workers: u32,
    paused_until: Duration,
    hold: Hold,
    /// One call of all workers at a time.
    alone: bool,
    /// Whether the service is down each worker decides for itself: the others may have another way to it.
    breaker: CircuitBreaker,
    /// When the single call started that finds out whether it is back.
    probe: Option<Duration>,
    /// When the latest call started of those that were answered.
    last_answered: Duration,
    out: usize,
    calls: u64,
    /// What was seen since the row was last asked.
    report: Report,
    /// When calls ended that are to be reported.
    ended: Vec<(Duration, EndedCall)>,
    asked: Asked,
    cause: Option<PaceCause>,
}

/// Whether a refusal of this worker holds its calls until the row has answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hold {
    None,
    /// The row does not know of it yet.
    Untold {
        epoch: u64,
    },
    /// The row has been asked since.
    Told,
}

/// When the row is asked.
#[allow(clippy::struct_excessive_bools, reason = "each is asked by itself")]
#[derive(Debug, Clone, Copy, Default)]
struct Asked {
    /// An answer is on its way.
    waiting: bool,
    /// When it is asked for calls again.
    calls_at: Duration,
    /// This worker leads, and asks for reports again then.
    leads: bool,
    leads_at: Duration,
    /// It had no rows to call for, and asks seldom.
    idle: bool,
    /// Something must be told now.
    urgent: bool,
    /// Whether calls were asked for since the last time.
    wanted: bool,
}

/// Calls are asked for once in this time, and spread over it.
const ASK_EVERY: Duration = Duration::from_millis(100);
/// Calls that nobody asked for are granted for this long: a worker that is alone asks as seldom, or a little later.
const UNUSED_FOR: Duration = Duration::from_millis(200);
/// That time varies by this share, so that no worker is always the last one to ask.
const ASK_JITTER: f64 = 0.2;
/// The leader asks for reports once in this time: the sooner it knows of a refusal, the fewer follow.
const LEAD_EVERY: Duration = Duration::from_millis(25);
/// A worker without rows to call for asks once in this time, to be there when the leader is not.
const IDLE_EVERY: Duration = Duration::from_secs(1);
/// The most that is asked for, as a multiple of an even share: what other workers leave is used, and no worker gets all.
const SHARES: f64 = 2.0;
/// The calls in flight that a worker may have before anybody has decided.
const FIRST_IN_FLIGHT: u32 = 1;
/// A named pause is stretched by up to this share, so that not all workers come back at the same moment.
const PAUSE_JITTER: f64 = 0.1;

impl Member {
    /// A worker with this number.
    pub(in crate::pace) fn new(limits: PaceLimits, mut random: fastrand::Rng) -> Self {
        Self {
            id: random.u32(1..),
            limits,
            random,
            slots: Slots::default(),
            epochs: Epochs::default(),
            rate: 0.0,
            state: PaceState::default(),
            most_workers: 1,
            paused_until: Duration::ZERO,
            hold: Hold::None,
            alone: false,
            breaker: CircuitBreaker::new(limits.outage),
            probe: None,
            last_answered: Duration::ZERO,
            out: 0,
            calls: 0,
            report: Report::default(),
            ended: Vec::new(),
            asked: Asked::default(),
            cause: None,
        }
    }

    /// Whether a call may start now. `Admitted` counts it as started.
    pub(in crate::pace) fn admit(&mut self, now: Duration) -> Admission {
        self.asked.wanted = true;
        if std::mem::take(&mut self.asked.idle) {
            self.asked.calls_at = now;
        }
        if self.paused_until > now {
            return Admission::NotBefore(self.paused_until);
        }
        let probe = self.breaker.next_probe();
        if let Some(next) = probe.filter(|next| now < *next) {
            return Admission::NotBefore(next);
        }
        if probe.is_some() && self.probe.is_some() {
            return Admission::AfterAnother;
        }
        if self.out >= self.most_in_flight() {
            self.report.in_flight_used = true;
            return Admission::AfterAnother;
        }
        if !self.is_unlimited() && !self.slots.take(now) {
            self.report.rate_used = true;
            // The row's answer is heard of as the end of a call is.
            let next = self.slots.next(now);
            return next.map_or(Admission::AfterAnother, Admission::NotBefore);
        }
        self.out += 1;
        self.calls += 1;
        self.report.started += 1;
        if probe.is_some() {
            self.probe = Some(now);
        }
        Admission::Admitted(Call {
            began: now,
            number: self.calls,
            level: self.level(),
            probe: probe.is_some(),
        })
    }

    /// A call ended, which was this try of its row. `fraction` is random, from 0 up to 1.
    pub(in crate::pace) fn call_ended(
        &mut self,
        now: Duration,
        call: Call,
        outcome: CallOutcome,
        tried: Try,
        fraction: f64,
    ) -> Option<PaceEvent> {
        self.out = self.out.saturating_sub(1);
        if self.probe == Some(call.began) {
            self.probe = None;
        }
        self.note(now, call, outcome, tried);
        match outcome {
            CallOutcome::Abandoned => None,
            CallOutcome::Answered => self.answered(now, call),
            CallOutcome::Throttled(wait) => self.throttled(now, call, wait, tried, fraction),
            CallOutcome::Failed => self.failed(now, call, FailureKind::ErrorAnswer),
            CallOutcome::Unavailable | CallOutcome::TimedOut => {
                self.failed(now, call, FailureKind::NoAnswer)
            }
        }
    }

    /// An answer's headers said what is left.
    pub(in crate::pace) fn allowed(&mut self, allowance: Allowance) {
        let lasts = u64::try_from(allowance.lasts.as_millis()).unwrap_or(u64::MAX);
        self.report.allowance = Some((allowance.calls, lasts));
    }

    /// The service is not down, although it seemed so: for how long it was taken to be.
    pub(in crate::pace) fn dismiss_outage(&mut self, now: Duration) -> Option<Duration> {
        let since = self.breaker.dismiss()?;
        self.report.resumed = true;
        Some(now.saturating_sub(since))
    }

    /// Whether this worker takes the service to be down.
    pub(in crate::pace) const fn is_down(&self) -> bool {
        self.breaker.is_open()
    }

    /// As many calls as this worker's part of the pace allows within a second, and no more than twice as many as may be in
    /// flight together.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rate is positive, and what is above the ceiling is cut"
    )]
    pub(in crate::pace) fn calls_ahead(&self) -> usize {
        let most = 2 * self.most_in_flight().max(1);
        if self.is_unlimited() {
            return most;
        }
        let part = self.rate / f64::from(self.workers());
        (part.ceil() as usize).clamp(1, most)
    }

    /// The pace of all workers together, for people to read.
    pub(in crate::pace) fn pace(&self) -> Pace {
        let runs = self.workers();
        let most = self.most_workers.max(runs);
        self.state.pace(self.rate, SharedBy { runs, most })
    }

    /// What has changed the pace since this was last asked.
    pub(in crate::pace) fn take_cause(&mut self) -> PaceCause {
        self.cause.take().unwrap_or(PaceCause::Search)
    }

    /// The limits of the service that were found.
    pub(in crate::pace) fn limit(&self) -> Limit {
        self.state.limit()
    }

    /// How many workers share the pace.
    fn workers(&self) -> u32 {
        self.state.workers.max(1)
    }

    /// When the row is to be asked next; `None` while an answer is on its way.
    pub(in crate::pace) fn asks_at(&self) -> Option<Duration> {
        if self.asked.waiting {
            return None;
        }
        if self.asked.urgent {
            return Some(Duration::ZERO);
        }
        Some(if self.asked.leads {
            self.asked.calls_at.min(self.asked.leads_at)
        } else {
            self.asked.calls_at
        })
    }

    /// What the row is asked now, with what the worker decides for all if it leads.
    pub(in crate::pace) fn ask(
        &mut self,
        now: Duration,
        decision: Option<PaceDecision>,
    ) -> (PaceAsk, Report) {
        let is_turn = now >= self.asked.calls_at;
        let busy = self.asked.wanted || self.slots.left() > 0 || self.out > 0;
        let demand = busy && !self.is_unlimited();
        let calls = if is_turn && demand && self.asked.wanted {
            self.wants(now)
        } else {
            0
        };
        if is_turn {
            let varied = 1.0 + ASK_JITTER * (self.random.f64() - 0.5);
            let every = if busy { ASK_EVERY } else { IDLE_EVERY };
            self.asked.calls_at = now + every.mul_f64(varied);
            self.asked.wanted = false;
            self.asked.idle = !busy;
        }
        self.asked.leads_at = now + LEAD_EVERY;
        self.asked.waiting = true;
        self.asked.urgent = false;
        let refused = if let Hold::Untold { epoch } = self.hold {
            self.hold = Hold::Told;
            Some(epoch)
        } else {
            None
        };
        let report = self.take_report(now, demand);
        let ask = PaceAsk {
            worker: self.id,
            calls,
            unused_for: UNUSED_FOR,
            refused,
            report: report.to_text(),
            decision,
        };
        (ask, report)
    }

    /// The row answered, and this worker leads or follows.
    pub(in crate::pace) fn answered_by_row(
        &mut self,
        now: Duration,
        reply: &PaceReply,
        lead: Lead,
    ) {
        self.asked.waiting = false;
        self.asked.leads = lead != Lead::Follows;
        if let Lead::Leads { urgent, cause } = lead {
            self.asked.urgent |= urgent;
            self.cause = cause.or(self.cause);
        }
        if let Some(state) = PaceState::from_text(&reply.state) {
            self.most_workers = self.most_workers.max(state.workers);
            self.state = state;
        }
        self.rate = reply.rate;
        self.alone = reply.alone;
        if self.epochs.set(now, reply.epoch) {
            self.slots.clear();
        }
        let left = reply.paused_until.saturating_sub(reply.now);
        if !left.is_zero() {
            self.slots.clear();
            self.paused_until = now + left;
        } else if let Hold::None | Hold::Told = self.hold {
            self.paused_until = Duration::ZERO;
        }
        if self.hold == Hold::Told {
            self.hold = Hold::None;
        }
        self.slots.add(now, reply.calls, ASK_EVERY);
        if reply.calls == 0 && reply.next > ASK_EVERY {
            // A slow rate: the next call is far away.
            self.asked.calls_at = self.asked.calls_at.max(now + reply.next.min(IDLE_EVERY));
        }
    }

    /// The row could not be asked: what was to be told is lost, and the next answer says who leads.
    pub(in crate::pace) fn row_is_away(&mut self, now: Duration) {
        self.asked.waiting = false;
        self.asked.urgent = false;
        self.asked.leads = false;
        self.asked.calls_at = now + IDLE_EVERY;
    }

    fn take_report(&mut self, now: Duration, demand: bool) -> Report {
        let ended = std::mem::take(&mut self.ended);
        Report {
            worker: self.id,
            demand,
            most_in_flight: u32::try_from(self.limits.in_flight.get()).unwrap_or(u32::MAX),
            most_rate: match self.limits.rate {
                Rate::PerSecond(rate) => Some(rate),
                Rate::Auto | Rate::Unlimited => None,
            },
            ended: { ended.into_iter() }
                .map(|(at, call)| EndedCall {
                    ago: micros(now.saturating_sub(at)),
                    ..call
                })
                .collect(),
            started: if self.is_unlimited() {
                0
            } else {
                self.report.started
            },
            ..std::mem::take(&mut self.report)
        }
    }

    /// How many calls to ask for: no more than are of use until the row is asked again.
    fn wants(&mut self, now: Duration) -> u32 {
        if self.most_in_flight() == 0 || self.paused_until > now {
            return 0;
        }
        let _ = self.slots.next(now);
        let even = self.rate * ASK_EVERY.as_secs_f64() / f64::from(self.workers());
        whole((even * SHARES).ceil().max(1.0)).saturating_sub(count(self.slots.left()))
    }

    /// The calls in flight that this worker may have now.
    fn most_in_flight(&self) -> usize {
        if self.is_unlimited() {
            return self.limits.in_flight.get();
        }
        let part = self.state.parts.get(&self.id);
        let part = part.copied().unwrap_or(FIRST_IN_FLIGHT);
        self.limits.in_flight.get().min(part as usize)
    }

    /// The user asked for no rate limit: such a worker keeps to pauses only, and its calls say nothing about the pace.
    fn is_unlimited(&self) -> bool {
        self.limits.rate == Rate::Unlimited
    }

    /// Remembers for the leader how a call ended.
    fn note(&mut self, now: Duration, call: Call, outcome: CallOutcome, tried: Try) {
        let how = match outcome {
            CallOutcome::Abandoned => return,
            CallOutcome::Answered => Ended::Answered,
            CallOutcome::Throttled(wait) => {
                let wait = wait.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
                Ended::Refused(wait)
            }
            CallOutcome::Failed | CallOutcome::Unavailable => Ended::Failed,
            CallOutcome::TimedOut => Ended::TimedOut,
        };
        if self.is_unlimited() && named(outcome).is_none() {
            return;
        }
        let ended = EndedCall {
            ago: 0,
            took: micros(now.saturating_sub(call.began)),
            level: call.level,
            epoch: self.epochs.at(call.began),
            tried,
            how,
        };
        self.ended.push((now, ended));
        self.asked.urgent |= self.alone;
    }

    fn answered(&mut self, now: Duration, call: Call) -> Option<PaceEvent> {
        self.last_answered = self.last_answered.max(call.began);
        match self.breaker.good(call.began) {
            Transition::Up { since } => {
                self.report.resumed = true;
                Some(PaceEvent::Up {
                    lasted: now.saturating_sub(since),
                })
            }
            Transition::Unchanged | Transition::Down { .. } => None,
        }
    }

    fn failed(&mut self, now: Duration, call: Call, kind: FailureKind) -> Option<PaceEvent> {
        if !self.breaker.is_open() && call.began < self.last_answered {
            return None;
        }
        match self.breaker.bad(call.began, now, kind) {
            Transition::Down { since, next } => Some(PaceEvent::Down {
                lasted: now.saturating_sub(since),
                next: next.saturating_sub(now),
            }),
            Transition::Unchanged | Transition::Up { .. } => None,
        }
    }

    /// The service refused a call. Only the row waits if it is known to be about the row, or about chance; otherwise all
    /// calls of this worker hold, and the row and the leader are told.
    fn throttled(
        &mut self,
        now: Duration,
        call: Call,
        wait: Option<Duration>,
        tried: Try,
        fraction: f64,
    ) -> Option<PaceEvent> {
        let by_chance = self.state.random.is_some() && RandomRefusals::is_row_alone(wait);
        let unlimited = self.is_unlimited() && wait.is_none_or(|wait| wait.is_zero());
        if tried == Try::AgainAlone || by_chance || unlimited {
            return Some(PaceEvent::RowWaits(wait.unwrap_or_default()));
        }
        let epoch = self.epochs.at(call.began);
        if epoch != self.epochs.current() || self.paused_until > now {
            return None;
        }
        let asked = wait.filter(|wait| !wait.is_zero());
        let length = asked.map_or(HOLD, |wait| wait.mul_f64(1.0 + PAUSE_JITTER * fraction));
        self.slots.clear();
        self.paused_until = now + length;
        self.hold = Hold::Untold { epoch };
        self.asked.urgent = true;
        Some(PaceEvent::Paused(Pause { length, asked }))
    }

    /// How many calls are in flight, with the one that starts. Among several workers nobody knows that for a moment, and a
    /// level that is a little wrong would show limits that are not there: then no call is above another one.
    fn level(&self) -> u32 {
        if self.workers() == 1 {
            self.out_count()
        } else {
            1
        }
    }

    fn out_count(&self) -> u32 {
        count(self.out)
    }
}

/// The wait that a refusal names.
fn named(outcome: CallOutcome) -> Option<Duration> {
    match outcome {
        CallOutcome::Throttled(wait) => wait.filter(|wait| !wait.is_zero()),
        _ => None,
    }
}

fn count(calls: usize) -> u32 {
    u32::try_from(calls).unwrap_or(u32::MAX)
}

/// A number of calls.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates"
)]
const fn whole(calls: f64) -> u32 {
    calls as u32
}
