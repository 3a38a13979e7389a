//! What a report needs of a run's summary, as it is written in its JSON.
//!
//! The summary's keys are an interface: what is read here is the same in all versions. So a report can be made of the summary
//! of any version, and a run makes its own report of the same text.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::base::error::quoted;
use crate::selection::{Sample, Selection};

/// How a run went.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct RunFacts {
    /// The part of its input that it took. Not in the summaries of older versions, and null for all rows.
    #[serde(default)]
    part: Option<PartFacts>,
    /// The stand-in answered.
    pub(crate) sandbox: bool,
    /// Why the run stopped early.
    pub(super) stopped: Option<String>,
    /// How long it took.
    pub(super) elapsed_seconds: f64,
    /// Its speed.
    pub(super) rows_per_second: Option<f64>,
    /// Rows.
    pub(crate) rows: RowFacts,
    /// Rows whose answer an earlier run had paid for.
    pub(super) known: u64,
    /// Rows that share the answer of an identical row.
    pub(super) duplicates: u64,
    /// Rows by decision.
    pub(crate) decisions: DecisionFacts,
    /// Rows without a verdict.
    pub(super) failed: FailedFacts,
    /// Calls.
    pub(super) calls: CallFacts,
    /// Time in pauses.
    pub(super) paused_seconds: f64,
    /// How often the service was down.
    pub(super) outages: u64,
    /// For how long.
    pub(super) down_seconds: f64,
    /// The limit that was found.
    pub(super) limit: LimitFacts,
    /// The rate over time.
    pub(super) pace: PaceFacts,
    /// How long answers took.
    pub(super) latency_ms: LatencyFacts,
    /// Not in the summaries of older versions, and null without a price.
    #[serde(default)]
    pub(super) cost: Option<CostFacts>,
    /// The levels that have decided. Not in the summaries of older versions, and null where thresholds have.
    #[serde(default)]
    levels: Option<IgnoredAny>,
}

/// A part of the input.
#[derive(Debug, Clone, Deserialize)]
struct PartFacts {
    /// Only the first rows.
    limit: Option<NonZeroU64>,
    /// Only a sample.
    sample_percent: Option<f64>,
}

/// Rows.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct RowFacts {
    /// In the output.
    pub(crate) written: u64,
}

/// Decisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(crate) struct DecisionFacts {
    /// To approve.
    pub(crate) approve: u64,
    /// To review.
    pub(crate) review: u64,
    /// To block.
    pub(crate) block: u64,
}

/// Rows without a verdict.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct FailedFacts {
    /// All of them.
    pub(super) rows: u64,
    /// By their reason's word.
    pub(super) reasons: BTreeMap<String, u64>,
}

/// Calls.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct CallFacts {
    /// Made.
    pub(super) sent: u64,
    /// With a verdict.
    pub(super) answered: u64,
    /// Retries.
    pub(super) retries: u64,
    /// Answered by asking for fewer.
    pub(super) throttled: u64,
    /// Retries of calls without an answer.
    pub(super) maybe_billed_twice: u64,
    /// Answered without a usable verdict.
    pub(super) billed_without_verdict: u64,
}

/// The limit that was found.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct LimitFacts {
    /// Calls a second.
    pub(super) calls_per_second: Option<f64>,
    /// Calls in flight.
    pub(super) in_flight: Option<u64>,
}

/// The rate over time.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct PaceFacts {
    /// The length of a period.
    pub(super) slot_seconds: u64,
    /// Calls in each.
    pub(super) calls: Vec<u64>,
}

/// How long answers took, in milliseconds.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct LatencyFacts {
    /// The median.
    pub(super) p50: Option<f64>,
    /// The 95th percentile.
    pub(super) p95: Option<f64>,
    /// The 99th percentile.
    pub(super) p99: Option<f64>,
}

/// What calls cost.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct CostFacts {
    /// With all its digits.
    pub(super) spent: Box<RawValue>,
    /// With the calls whose outcome is unknown.
    #[serde(default)]
    pub(super) spent_at_most: Option<Box<RawValue>>,
    /// By answers that were there already.
    pub(super) saved: Box<RawValue>,
    /// What amounts are in.
    pub(super) currency: Option<String>,
}

impl RunFacts {
    /// Whether levels have decided, and not thresholds.
    #[must_use]
    pub(crate) const fn is_by_level(&self) -> bool {
        self.levels.is_some()
    }

    /// Reads a summary.
    ///
    /// # Errors
    /// Why it is not one.
    pub(crate) fn parse(json: &str) -> Result<Self, String> {
        /// Read first: the other keys of another object mean nothing here.
        #[derive(Deserialize)]
        struct Kind {
            r#type: Option<String>,
            version: Option<u64>,
        }
        let kind: Kind =
            serde_json::from_str(json).map_err(|_| "it is not a JSON object".to_owned())?;
        match (kind.r#type.as_deref(), kind.version) {
            (Some("summary"), Some(1..=2)) => {}
            (Some("summary"), Some(version)) => {
                return Err(format!("it has version {version} and not 1 or 2"));
            }
            (Some(other), _) => return Err(format!("its type is {}", quoted(other))),
            _ => return Err("it has no type".to_owned()),
        }
        let facts: Self = serde_json::from_str(json).map_err(|error| error.to_string())?;
        if facts.stopped.as_deref() == Some("not_started") {
            return Err("its run could not start".to_owned());
        }
        Ok(facts)
    }

    /// The rows that the run took, if not all: `the first 100 rows`.
    pub(super) fn part(&self) -> Option<String> {
        let part = self.part.as_ref()?;
        let selection = Selection {
            limit: part.limit,
            sample: part.sample_percent.and_then(Sample::of_percent),
        };
        selection.words()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::example::SUMMARY;
    use super::*;

    #[test]
    fn summaries_of_both_versions_are_read_and_others_are_refused() {
        let version =
            |number: u8| SUMMARY.replace("\"version\":1", &format!("\"version\":{number}"));
        for number in [1, 2] {
            let facts = RunFacts::parse(&version(number)).unwrap();
            assert_eq!(
                facts.calls.sent,
                RunFacts::parse(SUMMARY).unwrap().calls.sent
            );
        }
        let refused = RunFacts::parse(&version(3)).unwrap_err();
        assert_eq!(refused, "it has version 3 and not 1 or 2");
        let not_started = SUMMARY.replace("\"stopped\":null", "\"stopped\":\"not_started\"");
        let refused = RunFacts::parse(&not_started).unwrap_err();
        assert_eq!(refused, "its run could not start");
    }
}
