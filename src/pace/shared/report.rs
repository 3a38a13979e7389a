//! What a worker saw since it last asked, as text for the row to pass on.
//!
//! Times are relative to when the report was sent, as machines' clocks differ.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::pace::types::{Allowance, Try};

/// What a worker saw since it last asked. Its keys are short, as there are many such reports.
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(in crate::pace) struct WorkerReport {
    /// Who saw it.
    #[serde(rename = "w")]
    pub(super) worker: u32,
    /// It has rows to call for.
    #[serde(rename = "d")]
    pub(super) demand: bool,
    /// Calls that started: how many microseconds before the report was sent.
    #[serde(rename = "s", skip_serializing_if = "Vec::is_empty", default)]
    pub(super) started: Vec<u64>,
    /// Calls that are in flight.
    #[serde(rename = "o")]
    pub(super) out: u32,
    /// Its user's ceiling of calls in flight.
    #[serde(rename = "m")]
    pub(super) most_in_flight: u32,
    /// Its user's ceiling of calls a second.
    #[serde(rename = "r", skip_serializing_if = "Option::is_none", default)]
    pub(super) most_rate: Option<f64>,
    /// A call had to wait for the rate.
    #[serde(rename = "ru")]
    pub(super) rate_used: bool,
    /// A call had to wait for another one to end.
    #[serde(rename = "iu")]
    pub(super) in_flight_used: bool,
    /// What an answer's headers said last: calls, and the milliseconds that they must last.
    #[serde(rename = "a", skip_serializing_if = "Option::is_none", default)]
    pub(super) allowance: Option<(u64, u64)>,
    /// To this worker the service was down and is back.
    #[serde(rename = "up", skip_serializing_if = "std::ops::Not::not", default)]
    pub(super) resumed: bool,
    /// To this worker the service is down.
    #[serde(rename = "dn", skip_serializing_if = "std::ops::Not::not", default)]
    pub(super) down: bool,
    /// Calls that ended.
    #[serde(rename = "e", skip_serializing_if = "Vec::is_empty", default)]
    pub(super) ended: Vec<ReportedCall>,
}

/// A call that ended. Times are in microseconds.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct ReportedCall {
    /// How long before the report was sent.
    #[serde(rename = "a")]
    pub(super) ago: u64,
    #[serde(rename = "t")]
    pub(super) took: u64,
    /// The epoch in which it started.
    #[serde(rename = "n")]
    pub(super) epoch: u64,
    #[serde(rename = "y", skip_serializing_if = "is_first", default)]
    pub(super) tried: Try,
    #[serde(rename = "h", skip_serializing_if = "is_answered", default)]
    pub(super) how: Ended,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) enum Ended {
    /// The service did its work.
    #[default]
    #[serde(rename = "a")]
    Answered,
    /// It asked for fewer calls, and perhaps named a time to wait, in milliseconds.
    #[serde(rename = "r")]
    Refused(Option<u64>),
    /// It answered with a bare 503.
    #[serde(rename = "b")]
    BusyOrAway,
    /// It failed, or could not be reached.
    #[serde(rename = "f")]
    Failed,
    /// There was no answer in time.
    #[serde(rename = "t")]
    TimedOut,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_first(tried: &Try) -> bool {
    *tried == Try::First
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_answered(how: &Ended) -> bool {
    *how == Ended::Answered
}

impl WorkerReport {
    pub(super) fn allowance(&self) -> Option<Allowance> {
        self.allowance.map(|(calls, lasts)| Allowance {
            calls,
            lasts: Duration::from_millis(lasts),
        })
    }

    pub(super) fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// What was reported; `None` if another version wrote it in another way.
    pub(super) fn from_text(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}

/// Microseconds; half a million years fit.
pub(super) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
