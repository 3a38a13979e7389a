//! What the row is asked and told, when, and what its answer changes.

use std::time::Duration;

use super::state::{Hold, Member};
use crate::pace::rate::Rate;
use crate::pace::shared::leading::Lead;
use crate::pace::shared::report::{ReportedCall, WorkerReport, micros};
use crate::pace::shared::state::PaceState;
use crate::telemetry::shared_pace::{PaceAsk, PaceDecision, PaceReply};

/// Calls are asked for once in this time.
const ASK_EVERY: Duration = Duration::from_millis(100);
/// Calls that nobody asked for are granted for this long, and start as long after they became due: a worker that is alone
/// asks as seldom, or a little later. With more, what one of two workers leaves when it dies comes as a burst.
const UNUSED_FOR: Duration = Duration::from_millis(130);
/// That time varies by this share, so that no worker is always the last one to ask.
const ASK_JITTER: f64 = 0.2;
/// The leader asks for reports once in this time: the sooner it knows of a refusal, the fewer follow.
const LEAD_EVERY: Duration = Duration::from_millis(25);
/// A worker without rows to call for asks once in this time, to be there when the leader is not.
const IDLE_EVERY: Duration = Duration::from_secs(1);
/// The most that is asked for, as a multiple of an even share: what other workers leave is used, and no worker gets all.
const SHARES: f64 = 2.0;

impl Member {
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
    ) -> (PaceAsk, WorkerReport) {
        let is_turn = now >= self.asked.calls_at;
        let busy = self.asked.wanted || !self.slots.is_empty() || self.out > 0;
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
        if let Lead::Leads { urgent } = lead {
            self.asked.urgent |= urgent;
        }
        if let Some(state) = PaceState::from_text(&reply.state) {
            self.most_workers = self.most_workers.max(state.heard);
            self.state = state;
        }
        self.rate = reply.rate;
        self.alone = reply.alone;
        if self.epoch != reply.epoch {
            self.epoch = reply.epoch;
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
        self.row_clock.answered(now, reply.now);
        self.add_slots(now, reply);
        let next = reply.next.saturating_sub(reply.now);
        if reply.calls == 0 && next > ASK_EVERY {
            // A slow rate: the next call is far away.
            self.asked.calls_at = self.asked.calls_at.max(now + next.min(IDLE_EVERY));
        }
    }

    /// Each granted call starts the same time after it became due, so that calls of all workers are as far apart as those of
    /// one would be.
    fn add_slots(&mut self, now: Duration, reply: &PaceReply) {
        let interval = Duration::try_from_secs_f64(1.0 / reply.rate).unwrap_or_default();
        let first = if reply.alone {
            now
        } else {
            // The last of them was due an interval before the next call.
            let due = reply
                .next
                .saturating_sub(interval.saturating_mul(reply.calls));
            self.row_clock.here(due + UNUSED_FOR)
        };
        self.slots.add(first, reply.calls, interval);
    }

    /// The row could not be asked: what was to be told is lost, and the next answer says who leads.
    pub(in crate::pace) fn row_is_away(&mut self, now: Duration) {
        self.asked.waiting = false;
        self.asked.urgent = false;
        self.asked.leads = false;
        self.asked.calls_at = now + IDLE_EVERY;
    }

    /// How many calls to ask for: no more than are of use until the row is asked again.
    fn wants(&mut self, now: Duration) -> u32 {
        if self.most_in_flight() == 0 || self.paused_until > now {
            return 0;
        }
        let _ = self.slots.next(now);
        let even = self.rate * ASK_EVERY.as_secs_f64() / f64::from(self.state.workers());
        let late = u32::try_from(self.slots.late(now)).unwrap_or(u32::MAX);
        whole((even * SHARES).ceil().max(1.0)).saturating_sub(late)
    }

    fn take_report(&mut self, now: Duration, demand: bool) -> WorkerReport {
        let started = std::mem::take(&mut self.started);
        let ended = std::mem::take(&mut self.ended);
        WorkerReport {
            worker: self.id,
            demand,
            out: u32::try_from(self.out).unwrap_or(u32::MAX),
            most_in_flight: u32::try_from(self.limits.in_flight.get()).unwrap_or(u32::MAX),
            most_rate: match self.limits.rate {
                Rate::PerSecond(rate) => Some(rate),
                Rate::Auto | Rate::Unlimited => None,
            },
            ended: { ended.into_iter() }
                .map(|(at, call)| ReportedCall {
                    ago: micros(now.saturating_sub(at)),
                    ..call
                })
                .collect(),
            started: { started.into_iter() }
                .filter(|_| !self.is_unlimited())
                .map(|at| micros(now.saturating_sub(at)))
                .collect(),
            ..std::mem::take(&mut self.report)
        }
    }
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
