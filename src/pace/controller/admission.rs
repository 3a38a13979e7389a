//! Whether a call may start now.

use std::time::Duration;

use super::state::Controller;
use crate::pace::types::{Admission, Call};

impl Controller {
    /// Whether a call may start now. `Admitted` counts it as started.
    pub(in crate::pace) fn admit(&mut self, now: Duration) -> Admission {
        self.end_interval(now);
        if let Some(until) = self.pauses.until(now) {
            return Admission::NotBefore(until);
        }
        let probe = self.breaker.next_probe();
        if let Some(next) = probe.filter(|next| now < *next) {
            return Admission::NotBefore(next);
        }
        let alone = self.half_open || probe.is_some();
        if alone && self.single.is_some() {
            return Admission::AfterAnother;
        }
        if self.out >= self.most_in_flight() {
            self.interval.in_flight_used = true;
            return Admission::AfterAnother;
        }
        if let Err(wait) = self.limiter.check(now) {
            self.interval.rate_used |= self.is_search_used(now);
            return Admission::NotBefore(now + wait);
        }
        self.out += 1;
        self.calls += 1;
        self.interval.calls += 1;
        if alone {
            self.single = Some(now);
        }
        Admission::Admitted(Call {
            began: now,
            number: self.calls,
            level: self.out.try_into().unwrap_or(u32::MAX),
            probe: probe.is_some(),
        })
    }

    /// Whether the rate that is searched for holds calls back. Where headers ask for less, nothing is learnt about it.
    fn is_search_used(&self, now: Duration) -> bool {
        let hinted = self.quota_hint.rate(now);
        hinted.is_none_or(|hinted| self.rate.value() <= hinted)
    }
}
