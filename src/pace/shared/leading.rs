//! Whether this worker leads, as the row says with each answer, and what it does then.

use std::time::Duration;

use super::leader::Leader;
use super::report::WorkerReport;
use crate::pace::types::PaceLimits;
use crate::telemetry::shared_pace::{PaceDecision, PaceReply};

/// The part of a worker that leads when the row says so. It stays on the thread that asks the row.
pub(in crate::pace) struct Leading {
    limits: PaceLimits,
    random: fastrand::Rng,
    leader: Option<Leader>,
}

/// Whether a worker leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::pace) enum Lead {
    /// Another one does.
    Follows,
    /// It does.
    Leads {
        /// All should hear soon of what it has decided.
        urgent: bool,
    },
}

impl Leading {
    pub(in crate::pace) const fn new(limits: PaceLimits, random: fastrand::Rng) -> Self {
        Self {
            limits,
            random,
            leader: None,
        }
    }

    /// What it decides for all, if it leads.
    pub(in crate::pace) fn decision(&self) -> Option<PaceDecision> {
        self.leader.as_ref().map(Leader::decision)
    }

    /// The row answered. If this worker leads, it takes in what the others reported, and its `own` report.
    pub(in crate::pace) fn read(&mut self, reply: &PaceReply, own: WorkerReport) -> Lead {
        let Some(reports) = &reply.lead else {
            self.leader = None;
            return Lead::Follows;
        };
        let read: Vec<(Duration, WorkerReport)> = { reports.iter() }
            .filter_map(|report| Some((report.at, WorkerReport::from_text(&report.text)?)))
            .chain([(reply.now, own)])
            .collect();
        let limits = self.limits;
        let is_new = self.leader.is_none();
        let leader = self
            .leader
            .get_or_insert_with(|| Leader::new(limits, reply));
        let is_urgent = leader.step(reply.now, &read, || self.random.f64());
        Lead::Leads {
            urgent: is_urgent || is_new,
        }
    }

    /// The row could not be asked: its next answer says who leads.
    pub(in crate::pace) fn row_is_away(&mut self) {
        self.leader = None;
    }
}
