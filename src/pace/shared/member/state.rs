//! What a worker knows, and the pace that people are shown.

use std::time::Duration;

use crate::pace::breaker::CircuitBreaker;
use crate::pace::rate::Rate;
use crate::pace::shared::report::{ReportedCall, WorkerReport};
use crate::pace::shared::row_clock::RowClock;
use crate::pace::shared::slots::Slots;
use crate::pace::shared::state::PaceState;
use crate::pace::types::PaceLimits;
use crate::telemetry::pace::{Limit, Pace, PaceCause, SharedBy};

/// One of the workers that share a pace.
pub(in crate::pace) struct Member {
    pub(super) id: u32,
    pub(super) limits: PaceLimits,
    pub(super) random: fastrand::Rng,
    pub(super) slots: Slots,
    /// The epoch of the calls that are granted now.
    pub(super) epoch: u64,
    /// What the row said last.
    pub(super) rate: f64,
    pub(super) row_clock: RowClock,
    pub(super) state: PaceState,
    /// The most workers that there were at a time.
    pub(super) most_workers: u32,
    pub(super) paused_until: Duration,
    pub(super) hold: Hold,
    /// One call of all workers at a time.
    pub(super) alone: bool,
    /// Whether the service is down each worker decides for itself: the others may have another way to it.
    pub(super) breaker: CircuitBreaker,
    /// When the single call started that finds out whether it is back.
    pub(super) probe: Option<Duration>,
    pub(super) out: usize,
    /// What was seen since the row was last asked.
    pub(super) report: WorkerReport,
    /// When calls started that are to be reported.
    pub(super) started: Vec<Duration>,
    /// When calls ended that are to be reported.
    pub(super) ended: Vec<(Duration, ReportedCall)>,
    pub(super) asked: Asked,
}

/// Whether a refusal of this worker holds its calls until the row has answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hold {
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
pub(super) struct Asked {
    /// An answer is on its way.
    pub(super) waiting: bool,
    /// When it is asked for calls again.
    pub(super) calls_at: Duration,
    /// This worker leads, and asks for reports again then.
    pub(super) leads: bool,
    pub(super) leads_at: Duration,
    /// It had no rows to call for, and asks seldom.
    pub(super) idle: bool,
    /// Something must be told now.
    pub(super) urgent: bool,
    /// Whether calls were asked for since the last time.
    pub(super) wanted: bool,
}

impl Member {
    /// A worker with this number.
    pub(in crate::pace) fn new(limits: PaceLimits, mut random: fastrand::Rng) -> Self {
        Self {
            id: random.u32(1..),
            limits,
            random,
            slots: Slots::default(),
            epoch: 0,
            rate: 0.0,
            row_clock: RowClock::default(),
            state: PaceState::default(),
            most_workers: 1,
            paused_until: Duration::ZERO,
            hold: Hold::None,
            alone: false,
            breaker: CircuitBreaker::new(limits.outage),
            probe: None,
            out: 0,
            report: WorkerReport::default(),
            started: Vec::new(),
            ended: Vec::new(),
            asked: Asked::default(),
        }
    }

    /// Whether this worker takes the service to be down.
    pub(in crate::pace) const fn is_down(&self) -> bool {
        self.breaker.is_open()
    }

    /// This worker's part of the rate; `None` if it has no limit.
    pub(in crate::pace) fn rate(&self) -> Option<f64> {
        (!self.is_unlimited()).then(|| self.rate / f64::from(self.state.workers()))
    }

    /// The pace of all workers together, for people to read.
    pub(in crate::pace) fn pace(&self) -> Pace {
        let runs = self.state.heard.max(1);
        let most = self.most_workers.max(runs);
        self.state.pace(self.rate, SharedBy { runs, most })
    }

    /// What last changed the pace.
    pub(in crate::pace) const fn cause(&self) -> PaceCause {
        self.state.cause
    }

    /// The limits of the service that were found.
    pub(in crate::pace) fn limit(&self) -> Limit {
        self.state.limit()
    }

    /// The user asked for no rate limit: such a worker keeps to pauses only, and its calls say nothing about the pace.
    pub(super) fn is_unlimited(&self) -> bool {
        self.limits.rate == Rate::Unlimited
    }
}
