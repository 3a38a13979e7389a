//! Services whose capacity follows the calls that they get.

use super::models::{Model, Queue, Work};
use super::rows::Row;
use crate::pace::types::CallSignal;

/// Functions in a cloud: each call needs an instance, a new one takes its time to start, and there are at most so many.
pub(super) struct Instances {
    most: usize,
    /// Seconds of a cold start.
    cold: f64,
    work: Work,
    /// When each is free.
    free: Vec<f64>,
}

/// Seconds after which an instance that is not used is gone.
const IDLE: f64 = 300.0;

impl Instances {
    pub(super) const fn new(most: usize, cold: f64, work: Work) -> Self {
        Self {
            most,
            cold,
            work,
            free: Vec::new(),
        }
    }
}

impl Model for Instances {
    fn call(&mut self, now: f64, _: Row, random: &mut fastrand::Rng) -> (CallSignal, f64) {
        self.free.retain(|free| *free + IDLE > now);
        let time = self.work.time(random);
        if let Some(free) = self.free.iter_mut().find(|free| **free <= now) {
            *free = now + time;
            return (CallSignal::Answered, time);
        }
        if self.free.len() >= self.most {
            return (CallSignal::Throttled(None), self.work.refusal(random));
        }
        self.free.push(now + self.cold + time);
        (CallSignal::Answered, self.cold + time)
    }

    fn allows(&self, _: f64) -> f64 {
        self.most as f64 / self.work.mean()
    }
}

/// Envoy's adaptive concurrency before a queue: its limit of calls in flight follows the latency beside that of a few calls,
/// which it measures each minute with hardly any in flight.
pub(super) struct Adaptive {
    queue: Queue,
    work: Work,
    /// When each call in flight ends.
    busy: Vec<f64>,
    limit: f64,
    /// The latency without a queue; 0 while it is measured.
    least: f64,
    times: Vec<f64>,
    probes_at: f64,
    updates_at: f64,
}

/// Envoy's defaults: calls in flight and calls of a measurement, seconds between measurements and between updates, and the
/// share of latency that is not put down to a queue.
const IN_PROBE: usize = 3;
const CALLS_OF_A_PROBE: usize = 50;
const PROBE_EVERY: f64 = 60.0;
const UPDATE_EVERY: f64 = 0.1;
const BUFFER: f64 = 1.25;

impl Adaptive {
    pub(super) fn new(workers: usize, work: Work) -> Self {
        Self {
            queue: Queue::new(workers, work),
            work,
            busy: Vec::new(),
            limit: IN_PROBE as f64,
            least: 0.0,
            times: Vec::new(),
            probes_at: PROBE_EVERY,
            updates_at: 0.0,
        }
    }

    fn update(&mut self, now: f64) {
        if self.least > 0.0 && now >= self.probes_at {
            self.least = 0.0;
            self.times.clear();
        }
        let is_probed = self.least == 0.0 && self.times.len() >= CALLS_OF_A_PROBE;
        let is_due = self.least > 0.0 && now >= self.updates_at && !self.times.is_empty();
        if !is_probed && !is_due {
            return;
        }
        let middle = self.times.len() / 2;
        let (_, median, _) = self.times.select_nth_unstable_by(middle, f64::total_cmp);
        if is_probed {
            self.least = *median;
            self.probes_at = now + PROBE_EVERY;
        } else {
            let limit = self.limit * (self.least * BUFFER / *median).clamp(0.5, 2.0);
            self.limit = (limit + limit.sqrt()).clamp(IN_PROBE as f64, 1_000.0);
        }
        self.updates_at = now + UPDATE_EVERY;
        self.times.clear();
    }
}

impl Model for Adaptive {
    fn call(&mut self, now: f64, row: Row, random: &mut fastrand::Rng) -> (CallSignal, f64) {
        self.update(now);
        self.busy.retain(|ends| *ends > now);
        let most = if self.least == 0.0 {
            IN_PROBE
        } else {
            self.limit as usize
        };
        if self.busy.len() >= most {
            return (CallSignal::BusyOrAway, 0.001);
        }
        let (signal, time) = self.queue.call(now, row, random);
        self.busy.push(now + time);
        self.times.push(time);
        (signal, time)
    }

    /// Besides the measurements.
    fn allows(&self, now: f64) -> f64 {
        let probe = (CALLS_OF_A_PROBE / IN_PROBE) as f64 * self.work.mean();
        self.queue.allows(now) * PROBE_EVERY / (PROBE_EVERY + probe)
    }
}
