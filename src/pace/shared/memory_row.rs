//! The row of a shared pace in memory, for the simulator and for tests. What a database keeps does the same
//! (`ledger/postgres/pace.rs`).

use std::time::Duration;

use crate::telemetry::shared_pace::{
    FIRST_RATE, HOLD, LEAD, PaceAsk, PaceReply, PaceReport, SINGLE,
};

/// A row of a shared pace.
#[derive(Debug)]
pub(in crate::pace) struct MemoryRow {
    rate: f64,
    epoch: u64,
    /// When the next call is due at this rate.
    tat: Duration,
    paused_until: Duration,
    alone: bool,
    /// When a single call was granted last.
    single_at: Duration,
    /// When a worker reported a refusal in the present epoch.
    held_at: Duration,
    /// Up to when the leader knew what workers reported.
    seen: Duration,
    leader: u32,
    led_until: Duration,
    asked_at: Duration,
    state: String,
    reports: Vec<PaceReport>,
}

impl Default for MemoryRow {
    fn default() -> Self {
        Self {
            rate: FIRST_RATE,
            epoch: 0,
            tat: Duration::ZERO,
            paused_until: Duration::ZERO,
            alone: false,
            single_at: Duration::ZERO,
            held_at: Duration::ZERO,
            seen: Duration::ZERO,
            leader: 0,
            led_until: Duration::ZERO,
            asked_at: Duration::ZERO,
            state: String::new(),
            reports: Vec::new(),
        }
    }
}

impl MemoryRow {
    /// What the row answers at `now`.
    pub(in crate::pace) fn ask(&mut self, now: Duration, ask: &PaceAsk) -> PaceReply {
        let leads = self.leader == ask.worker || now >= self.led_until;
        if let Some(decision) = ask.decision.as_ref().filter(|_| self.leader == ask.worker) {
            if decision.epoch > self.epoch || (self.alone && !decision.alone) {
                self.tat = now;
            }
            self.rate = decision.rate;
            self.epoch = decision.epoch;
            self.paused_until = decision.paused_until;
            self.alone = decision.alone;
            self.seen = decision.seen;
            self.state.clone_from(&decision.state);
        }
        if ask.refused == Some(self.epoch) {
            self.held_at = now;
        }
        let held = if self.held_at > self.seen {
            self.held_at + HOLD
        } else {
            Duration::ZERO
        };
        let paused_until = self.paused_until.max(held);
        let calls = if paused_until > now {
            0
        } else if self.alone {
            self.grant_single(now, ask.calls)
        } else {
            self.grant(now, ask)
        };
        let lead = if leads {
            self.leader = ask.worker;
            self.led_until = now + LEAD;
            Some(std::mem::take(&mut self.reports))
        } else {
            self.reports.push(PaceReport {
                at: now,
                text: ask.report.clone(),
            });
            None
        };
        let idle = now.saturating_sub(std::mem::replace(&mut self.asked_at, now));
        PaceReply {
            now,
            calls,
            rate: self.rate,
            epoch: self.epoch,
            paused_until,
            alone: self.alone,
            next: self.tat,
            state: self.state.clone(),
            lead,
            idle,
        }
    }

    fn grant_single(&mut self, now: Duration, calls: u32) -> u32 {
        let is_free = self.single_at < self.paused_until || now > self.single_at + SINGLE;
        if calls == 0 || !is_free {
            return 0;
        }
        self.single_at = now;
        1
    }

    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a few calls"
    )]
    /// The calls that have become due and were not granted, but not those of longer ago than the worker asks for.
    fn grant(&mut self, now: Duration, ask: &PaceAsk) -> u32 {
        let from = self
            .tat
            .max(self.paused_until)
            .max(now.saturating_sub(ask.unused_for));
        if from > now || ask.calls == 0 {
            return 0;
        }
        let due = now.saturating_sub(from).as_secs_f64() * self.rate;
        let calls = ask.calls.min(due as u32 + 1);
        self.tat = from + Duration::from_secs_f64(f64::from(calls) / self.rate);
        calls
    }
}
