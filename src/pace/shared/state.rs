//! What the leader decided, for workers to read: what each may have in flight, and what people are shown.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::pace::controller::Handover;
use crate::telemetry::pace::{FoundLimit, Hint, Limit, Pace, PaceCause, Search, SharedBy};

/// What the leader decided, except for what the row itself acts on.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct PaceState {
    /// The workers that the leader has heard of, which is what people are shown: the others may be gone.
    #[serde(default)]
    pub(super) heard: u32,
    /// Calls in flight of all workers together.
    pub(super) in_flight: u32,
    /// Calls in flight that each worker may have; one that is not in it may have one.
    pub(super) parts: BTreeMap<u32, u32>,
    /// The service refuses some calls at any pace, and this share of them.
    pub(super) random: Option<f64>,
    /// The limit in calls a second, and how often it was seen.
    pub(super) limit: Option<(f64, u32)>,
    /// The limit in calls in flight, and how often it was seen.
    pub(super) limit_in_flight: Option<(f64, u32)>,
    /// What the search for the limit is doing.
    pub(super) search: Search,
    /// What last changed the pace.
    #[serde(default)]
    pub(super) cause: PaceCause,
    /// For the next worker that leads.
    pub(super) led: Option<Led>,
    /// The rate that headers ask for.
    pub(super) headers: Option<f64>,
    /// The rate is the highest that a worker's user allows.
    pub(super) at_ceiling: bool,
}

/// What the next worker that leads goes on from.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Led {
    /// The start of the controller's time, on the row's clock.
    pub(super) origin: Duration,
    /// What it knew.
    pub(super) controller: Handover,
}

impl PaceState {
    /// Workers that have rows to call for; at least one.
    pub(super) fn workers(&self) -> u32 {
        u32::try_from(self.parts.len()).unwrap_or(u32::MAX).max(1)
    }

    /// What is known of the service's limits.
    pub(super) fn limit(&self) -> Limit {
        let found = |(value, times)| FoundLimit { value, times };
        Limit {
            rate: self.limit.map(found),
            in_flight: self.limit_in_flight.map(found),
        }
    }

    /// Sets what is known of the service's limits.
    pub(super) fn set_limit(&mut self, limit: Limit) {
        let pair = |found: FoundLimit| (found.value, found.times);
        self.limit = limit.rate.map(pair);
        self.limit_in_flight = limit.in_flight.map(pair);
    }

    /// The pace of all workers together, for people to read.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "from 1 to the users' ceilings"
    )]
    pub(super) fn pace(&self, rate: f64, shared_by: SharedBy) -> Pace {
        let limit = self.limit().seen_as_limit();
        Pace {
            rate: Some(rate),
            in_flight: self.in_flight as usize,
            search: self.search,
            limit: limit.rate.map(|found| found.value),
            limit_in_flight: limit.in_flight.map(|found| found.value as usize),
            headers: self.headers.map_or(Hint::Silent, Hint::Asks),
            at_ceiling: self.at_ceiling,
            refused_at_any: self.random,
            shared_by: Some(shared_by),
        }
    }

    pub(super) fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// What was decided; nothing if there is nothing yet, or if another version wrote it in another way.
    pub(super) fn from_text(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}
