//! The worker that leads: feeds one controller with what all workers report, and says what all keep to.
//!
//! It knows the row's clock only. What the next leader needs to go on where this one was is in the row with each decision.

use std::collections::BTreeMap;
use std::time::Duration;

use super::in_flight::InFlight;
use super::report::{Ended, ReportedCall, WorkerReport};
use super::state::{Led, PaceState};
use crate::pace::controller::{Controller, Observed};
use crate::pace::rate::Rate;
use crate::pace::types::{CallOutcome, PaceLimits};
use crate::telemetry::pace::{Hint, PaceCause};
use crate::telemetry::shared_pace::{PaceDecision, PaceReply};

/// What the leading worker knows.
pub(super) struct Leader {
    controller: Controller,
    /// The start of the controller's time, on the row's clock.
    origin: Duration,
    workers: BTreeMap<u32, Worker>,
    /// Calls that ended, until it is known how many were in flight when they started; whether one led to a cut.
    levels: Vec<(Duration, bool)>,
    in_flight: InFlight,
    epoch: u64,
    /// When a worker last said that the service is back.
    resumed: Option<Duration>,
    /// What last changed the pace.
    cause: PaceCause,
    decided: PaceDecision,
}

/// What is known of a worker.
#[derive(Debug, Clone, Copy)]
struct Worker {
    heard: Duration,
    /// When it last had rows to call for.
    demand: Duration,
    /// Calls that it had in flight when it was last heard of.
    out: u32,
    /// The calls in flight that it may have.
    part: u32,
    /// It may have had this many before its part was lowered, and when that was.
    before: u32,
    lowered: Duration,
    most_in_flight: u32,
    most_rate: Option<f64>,
}

/// A worker that was not heard of for this long does not count any more.
const GONE: Duration = Duration::from_secs(3);
/// A worker that had no rows to call for for this long, or was not heard of, has no part of the calls in flight.
const IDLE: Duration = Duration::from_secs(1);
/// A row that nobody asked for this long is that of an earlier run: its limit is known, and its rate is not gone on with.
const EARLIER_RUN: Duration = Duration::from_secs(60);
/// All who waited for a service come back together: their reports of that count once in this time.
const SAME_OUTAGE: Duration = Duration::from_secs(60);
/// If there are fewer calls in flight than workers, they go round after this time: handing one over takes a few round trips.
const TURN: Duration = Duration::from_secs(5);
/// How long it takes until all workers keep to a decision and have reported what it changed.
const NEWS: Duration = Duration::from_millis(250);

impl Leader {
    /// Leads from now on.
    pub(super) fn new(limits: PaceLimits, reply: &PaceReply) -> Self {
        let known = PaceState::from_text(&reply.state);
        let goes_on = reply.idle < EARLIER_RUN;
        let limit = known.as_ref().map(PaceState::limit).unwrap_or_default();
        let limits = PaceLimits {
            // A worker without a limit can lead others that have one.
            rate: match limits.rate {
                Rate::Unlimited => Rate::Auto,
                rate => rate,
            },
            // Each worker stops by itself once it has waited for long enough.
            wait: Duration::MAX,
            known: if limits.known.rate.is_some() || goes_on {
                limits.known
            } else {
                limit.seen_as_limit()
            },
            ..limits
        };
        let mut controller = Controller::new(limits);
        controller.set_news(NEWS);
        let mut origin = reply.now;
        let mut workers = BTreeMap::new();
        let mut cause = PaceCause::default();
        if let Some(state) = known.filter(|_| goes_on) {
            cause = state.cause;
            let parts = state.parts.iter();
            workers = parts
                .map(|(id, part)| (*id, Worker::with_part(reply.now, *part)))
                .collect();
            if let Some(led) = state.led {
                origin = led.origin;
                controller.go_on(reply.now.saturating_sub(origin), led.controller);
            }
        }
        Self {
            controller,
            origin,
            workers,
            levels: Vec::new(),
            in_flight: InFlight::default(),
            epoch: reply.epoch,
            resumed: None,
            cause,
            decided: PaceDecision {
                rate: reply.rate,
                epoch: reply.epoch,
                paused_until: reply.paused_until,
                alone: reply.alone,
                seen: reply.now,
                state: reply.state.clone(),
            },
        }
    }

    /// Takes in what was reported up to now, with when each report was sent. `random` gives numbers from 0 up to 1. Returns
    /// whether all should hear of the decision soon.
    pub(super) fn step(
        &mut self,
        now: Duration,
        reports: &[(Duration, WorkerReport)],
        mut random: impl FnMut() -> f64,
    ) -> bool {
        let mut observed = Observed::default();
        let mut ended: Vec<(Duration, ReportedCall)> = Vec::new();
        for (at, report) in reports {
            self.heard(*at, report);
            self.in_flight.report(*at, report);
            observed.started += u32::try_from(report.started.len()).unwrap_or(u32::MAX);
            observed.rate_used |= report.rate_used;
            observed.in_flight_used |= report.in_flight_used;
            let ends = report.ended.iter();
            ended.extend(ends.map(|call| (at.saturating_sub(micros(call.ago)), *call)));
        }
        let rate = self.controller.rate_search().value();
        observed.rate_used &= self.most_rate().is_none_or(|most| rate < most)
            && self.controller.is_search_used(self.time(now));
        let out: usize = self.workers.values().map(|one| one.out as usize).sum();
        observed.out = out + ended.len();
        self.controller.observe(observed);
        ended.sort_by_key(|(at, _)| *at);
        for (at, call) in ended {
            self.call_ended(at, call, random());
        }
        self.workers.retain(|id, worker| {
            let stays = worker.heard + GONE > now;
            if !stays {
                self.in_flight.is_gone(*id);
            }
            stays
        });
        self.levels_known(now.saturating_sub(NEWS));
        let most: f64 = self
            .workers
            .values()
            .map(|one| f64::from(one.most_in_flight))
            .sum();
        let time = self.time(now);
        if self.workers.values().all(Worker::is_heard_of) {
            self.controller.set_most_in_flight(most);
        }
        let cut = self.controller.last_cut();
        self.controller.end_interval(time);
        self.epoch += u64::from(self.controller.last_cut() > cut);
        self.decide(now)
    }

    /// The decision for the row.
    pub(super) fn decision(&self) -> PaceDecision {
        self.decided.clone()
    }

    fn time(&self, at: Duration) -> Duration {
        at.saturating_sub(self.origin)
    }

    fn heard(&mut self, at: Duration, report: &WorkerReport) {
        let worker = self.workers.entry(report.worker);
        let worker = worker.or_insert_with(|| Worker::with_part(Duration::ZERO, 0));
        worker.heard = at;
        if report.demand {
            worker.demand = at;
        }
        worker.out = report.out;
        worker.most_in_flight = report.most_in_flight;
        worker.most_rate = report.most_rate;
        let time = self.time(at);
        if let Some(allowance) = report.allowance() {
            // Which of its calls it is about, the report does not say: no later than the first of them.
            let longest = report
                .ended
                .iter()
                .map(|ended| ended.ago + ended.took)
                .max();
            let began = longest.map_or(Duration::ZERO, |longest| {
                time.saturating_sub(micros(longest))
            });
            self.controller.allowed(time, began, allowance);
        }
        if report.down {
            self.controller.is_taken_to_be_down(time);
        }
        if report.resumed && self.resumed.is_none_or(|last| last + SAME_OUTAGE < at) {
            self.resumed = Some(at);
            self.controller.resume(time);
        }
    }

    /// A call ended at `at`. If it was refused in an earlier epoch, that is about a pace that was given up already.
    fn call_ended(&mut self, at: Duration, ended: ReportedCall, fraction: f64) {
        let time = self.time(at);
        let took = micros(ended.took);
        let began = time.saturating_sub(took);
        let is_refusal = matches!(ended.how, Ended::Refused(_) | Ended::BusyOrAway);
        let is_old = ended.epoch < self.epoch && is_refusal;
        let cut = self.controller.last_cut();
        let began = if is_old {
            began.min(cut.saturating_sub(micros(1)))
        } else {
            began
        };
        let call = self.controller.ended_call(began);
        let how = match ended.how {
            Ended::Answered => CallOutcome::Answered,
            Ended::Refused(wait) => CallOutcome::Throttled(wait.map(Duration::from_millis)),
            Ended::BusyOrAway if self.controller.is_busy(time, call, ended.tried) => {
                CallOutcome::Throttled(None)
            }
            Ended::BusyOrAway | Ended::Failed | Ended::TimedOut => {
                let timed_out = ended.how == Ended::TimedOut;
                self.controller.failed_elsewhere(time, call, timed_out);
                return;
            }
        };
        self.controller
            .call_ended(time, call, how, ended.tried, fraction);
        let is_cut = self.controller.last_cut() > cut;
        self.epoch += u64::from(is_cut);
        if is_cut || ended.how == Ended::Answered {
            self.levels.push((at.saturating_sub(took), is_cut));
        }
    }

    /// All have reported what happened until then: so it is known how many calls were in flight when others started.
    fn levels_known(&mut self, until: Duration) {
        self.in_flight.known_until(until);
        let (known, rest) = { self.levels.drain(..) }.partition(|(began, _)| *began <= until);
        self.levels = rest;
        let known: Vec<(Duration, bool)> = known;
        for (began, is_cut) in known {
            if let Some(level) = self.in_flight.at(began) {
                let (now, began) = (self.time(until), self.time(began));
                self.controller.level_known(now, began, level, is_cut);
            }
        }
    }

    /// The smallest rate that a worker's user allows rules all of them.
    fn most_rate(&self) -> Option<f64> {
        let rates = self.workers.values().filter_map(|one| one.most_rate);
        rates.reduce(f64::min)
    }

    fn decide(&mut self, now: Duration) -> bool {
        let time = self.time(now);
        let shown = self.controller.pace(time);
        let most = self.most_rate().unwrap_or(f64::INFINITY);
        let rate = shown.rate.unwrap_or(most).min(most);
        if rate.to_bits() != self.decided.rate.to_bits() {
            self.cause = self.controller.take_cause();
        }
        let mut state = PaceState {
            cause: self.cause,
            in_flight: u32::try_from(shown.in_flight).unwrap_or(u32::MAX),
            random: shown.refused_at_any,
            search: shown.search,
            headers: match shown.headers {
                Hint::Asks(rate) => Some(rate),
                Hint::Silent | Hint::Disbelieved => None,
            },
            led: Some(Led {
                origin: self.origin,
                controller: self.controller.handover(time),
            }),
            at_ceiling: shown.at_ceiling || rate >= most,
            ..PaceState::default()
        };
        state.set_limit(self.controller.limit());
        self.share_in_flight(now, &mut state);
        let paused_until = self.controller.paused_until(time);
        let decided = PaceDecision {
            rate,
            epoch: self.epoch,
            // One that is over stays, so that the row knows whether a single call came after it.
            paused_until: paused_until.map_or(self.decided.paused_until, |at| self.origin + at),
            alone: self.controller.goes_alone(),
            seen: now,
            state: state.to_text(),
        };
        let acts =
            |one: &PaceDecision| (one.rate.to_bits(), one.epoch, one.paused_until, one.alone);
        let is_urgent = acts(&decided) != acts(&self.decided);
        self.decided = decided;
        is_urgent
    }

    /// Shares the calls in flight evenly among the workers that have rows to call for. If there are fewer calls than
    /// workers, they go round. What one worker is to have less, another gets once the first one has it no more: together
    /// they never have more than there are.
    fn share_in_flight(&mut self, now: Duration, state: &mut PaceState) {
        let all = state.in_flight;
        let busy = self.workers.values().filter(|one| one.is_busy(now));
        let (mut workers, mut heard) = (0, 0);
        for one in busy {
            workers += 1;
            heard += u32::from(one.is_heard_of());
        }
        state.heard = heard;
        let workers = workers.max(1);
        let (each, more) = (all / workers, all % workers);
        let turns = u32::try_from(now.as_secs() / TURN.as_secs() % u64::from(workers));
        let turn = turns.ok().filter(|_| each == 0).unwrap_or_default();
        let mut place = 0;
        let mut wanted = Vec::new();
        for (id, worker) in &mut self.workers {
            let mut part = 0;
            if worker.is_busy(now) {
                part = each + u32::from((place + turn) % workers < more);
                place += 1;
            }
            worker.lower(now, part);
            wanted.push((*id, part));
        }
        let used: u32 = self.workers.values().map(|one| one.used(now)).sum();
        let mut free = all.saturating_sub(used);
        for (id, part) in wanted {
            if let Some(worker) = self.workers.get_mut(&id) {
                let gained = part.saturating_sub(worker.used(now)).min(free);
                free -= gained;
                worker.part = part.min(worker.used(now) + gained).max(worker.part);
                if worker.is_busy(now) {
                    state.parts.insert(id, worker.part);
                }
            }
        }
    }
}

impl Worker {
    /// A worker that has a part of the calls in flight.
    const fn with_part(heard: Duration, part: u32) -> Self {
        Self {
            heard,
            demand: heard,
            out: 0,
            part,
            before: 0,
            lowered: Duration::ZERO,
            most_in_flight: 0,
            most_rate: None,
        }
    }

    /// Whether it has reported to this leader: of the others it is only known that they have a part.
    const fn is_heard_of(&self) -> bool {
        self.most_in_flight > 0
    }

    /// Whether it has rows to call for.
    fn is_busy(&self, now: Duration) -> bool {
        self.demand + IDLE > now
    }

    /// It may have no more than this part from now on.
    fn lower(&mut self, now: Duration, part: u32) {
        if part < self.part {
            self.before = self.used(now);
            self.part = part;
            self.lowered = now;
        }
    }

    /// The calls in flight that it may have just now: of a part that was lowered it hears later.
    fn used(&self, now: Duration) -> u32 {
        if self.heard + IDLE <= now {
            0
        } else if now < self.lowered + NEWS {
            self.before.max(self.part)
        } else {
            self.out.max(self.part)
        }
    }
}

const fn micros(time: u64) -> Duration {
    Duration::from_micros(time)
}
