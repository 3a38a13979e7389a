//! Whether this worker may start a call now.

use std::time::Duration;

use super::state::Member;
use crate::pace::types::{Admission, Call};

/// The calls in flight that a worker may have before anybody has decided.
const FIRST_IN_FLIGHT: u32 = 1;

impl Member {
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
        self.started.push(now);
        if probe.is_some() {
            self.probe = Some(now);
        }
        Admission::Admitted(Call {
            began: now,
            // The leader finds out both.
            number: 0,
            level: 0,
            epoch: self.epoch,
            probe: probe.is_some(),
        })
    }

    /// The calls in flight that this worker may have now.
    pub(in crate::pace) fn most_in_flight(&self) -> usize {
        if self.is_unlimited() {
            return self.limits.in_flight.get();
        }
        let parts = &self.state.parts;
        let first = if parts.is_empty() { FIRST_IN_FLIGHT } else { 0 };
        let part = parts.get(&self.id).copied().unwrap_or(first);
        self.limits.in_flight.get().min(part as usize)
    }
}
