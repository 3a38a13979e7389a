//! How fast calls may start, and why: the controller reports it, others show or store it.
//!
//! Plain values. Nothing here decides anything about the pace.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::base::numbers::{rounded, seconds};

/// A pause of all calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Pause {
    /// How long.
    #[serde(rename = "seconds", serialize_with = "seconds::serialize")]
    pub(crate) length: Duration,
    /// How long the service asked for; `None` if it named no time and we chose one.
    #[serde(rename = "asked_seconds", serialize_with = "seconds::serialize_some")]
    pub(crate) asked: Option<Duration>,
}

/// How fast calls may start.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Pace {
    /// At most this many calls a second; `None` if the rate is not limited.
    pub rate: Option<f64>,
    /// At most this many calls in flight.
    pub(crate) in_flight: usize,
    /// The stage of the search for the limit.
    pub(crate) search: Search,
    /// The service's limit in calls a second, if the service has refused calls at some rate.
    pub(crate) limit: Option<f64>,
    /// The service's limit in calls in flight, if it has refused more.
    pub(crate) limit_in_flight: Option<usize>,
    /// What the service's headers ask for.
    pub(crate) headers: Hint,
    /// The rate is the highest that the user allows.
    pub(crate) at_ceiling: bool,
    /// The share of calls that the service refuses at any pace, if it does.
    pub(crate) refused_at_any: Option<f64>,
}

/// A new pace, and what brought it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PaceChange {
    /// The pace from now on.
    #[serde(flatten)]
    pub pace: Pace,
    /// What brought it.
    pub(crate) cause: PaceCause,
}

/// What changed the pace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PaceCause {
    /// The run started with it.
    Start,
    /// Nothing was refused for a while, so more is tried; or the search enters its next stage.
    #[default]
    Search,
    /// The service throttled a call.
    Throttled,
    /// The service throttles some calls at any pace, or more than that.
    RandomRefusals,
    /// Answers take longer the more calls are in flight: they wait in a queue.
    Queueing,
    /// The service was down and is back.
    Outage,
    /// The service's headers ask for another rate, or for none any more.
    Headers,
}

impl Pace {
    /// Rounded for people and for the counts.
    pub(crate) fn rounded(self) -> Self {
        Self {
            rate: self.rate.map(rounded),
            limit: self.limit.map(rounded),
            headers: match self.headers {
                Hint::Asks(rate) => Hint::Asks(rounded(rate)),
                other => other,
            },
            refused_at_any: self.refused_at_any.map(rounded),
            ..self
        }
    }

    /// The rate that the service's headers ask for, if calls keep to it.
    pub(crate) fn asked_for(&self) -> Option<f64> {
        match self.headers {
            Hint::Asks(rate) if self.rate.is_none_or(|most| rate <= most) => Some(rate),
            _ => None,
        }
    }
}

/// The stage of the search for the service's limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Search {
    /// Nothing has been refused yet: the pace doubles.
    #[default]
    Growing,
    /// Calls have been refused: the pace closes in on the limit.
    ClosingIn,
    /// The pace stays just below the limit.
    #[serde(rename = "holding")]
    Plateau,
    /// The search tries whether the service accepts more by now.
    #[serde(rename = "looking")]
    ProbingUp,
}

impl Search {
    /// Why the pace changes, or does not.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Growing => "growing until calls are throttled",
            Self::ClosingIn => "closing in on the limit",
            Self::Plateau => "just below the limit",
            Self::ProbingUp => "trying whether more is accepted by now",
        }
    }
}

/// What the service's `FoundLimit` headers ask for.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Hint {
    /// Nothing.
    Silent,
    /// At most this many calls a second.
    Asks(f64),
    /// Something that is not believed: the remaining quota does not change while calls are accepted.
    Disbelieved,
}

/// The service's limits of calls, if they were found for certain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct FoundLimit {
    /// The most calls a second that the service accepts.
    pub rate: Option<f64>,
    /// The most calls in flight that it accepts.
    pub in_flight: Option<u32>,
}
