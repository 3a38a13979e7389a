//! Which run it is, as all objects about it say. Most of it is known before anything is opened, and so also of a run that
//! cannot start.

use std::time::SystemTime;

use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::numbers::utc_seconds;
use crate::base::money::Tariff;
use crate::raw_json::Pointer;
use crate::verdict::{Decision, DecisionPolicy};

/// The version of what programs read about a run. Within one, keys are only added.
const VERSION: u8 = 1;

/// Which run it is, and how it decides.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct RunIdentity {
    /// Of the object's keys.
    pub(crate) version: u8,
    /// Of the program.
    pub(crate) rescore_version: &'static str,
    /// The output's name, which is the same every night.
    pub(crate) job: String,
    /// The profile of the settings file.
    pub(crate) profile: Option<String>,
    /// When the command started.
    #[serde(serialize_with = "in_utc")]
    pub(crate) start_time: SystemTime,
    /// The stand-in answers, not the service.
    pub(crate) sandbox: bool,
    /// The service's address, if it is known.
    pub(crate) endpoint: Option<String>,
    /// Which column is which field, in words, where it is the same in all inputs.
    pub(crate) mapping: Option<String>,
    /// What decides.
    #[serde(flatten)]
    pub(crate) rule: DecisionRule,
    /// What calls cost, if the user says so.
    #[serde(skip)]
    pub(crate) tariff: Option<Tariff>,
}

/// What decides, for programs: thresholds with all their digits, or levels and where in an answer they are; neither if it is
/// not known.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct DecisionRule {
    thresholds: Value,
    levels: Value,
}

impl RunIdentity {
    /// A run of this job that starts now; nothing else is known of it.
    pub(crate) fn new(job: String) -> Self {
        Self {
            version: VERSION,
            rescore_version: env!("CARGO_PKG_VERSION"),
            job,
            profile: None,
            start_time: SystemTime::now(),
            sandbox: false,
            endpoint: None,
            mapping: None,
            rule: DecisionRule::default(),
            tariff: None,
        }
    }
}

fn in_utc<S: Serializer>(time: &SystemTime, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&utc_seconds(*time))
}

impl DecisionRule {
    /// What this policy decides by; `captured` are the fields of answers that it may use.
    pub(crate) fn of(policy: &DecisionPolicy, captured: &[Pointer]) -> Self {
        match policy {
            DecisionPolicy::Score(thresholds) => Self {
                thresholds: json!({
                    "approve_max": thresholds.approve_max().text(),
                    "review_max": thresholds.review_max().text(),
                }),
                levels: Value::Null,
            },
            DecisionPolicy::Level { levels, field } => Self {
                thresholds: Value::Null,
                levels: json!({
                    "place": captured.get(*field).map(ToString::to_string),
                    "approve": levels.listed(Decision::Approve).collect::<Vec<_>>(),
                    "review": levels.listed(Decision::Review).collect::<Vec<_>>(),
                    "block": levels.listed(Decision::Block).collect::<Vec<_>>(),
                }),
            },
        }
    }

    /// Where in an answer the level is, if levels decide.
    pub(super) fn level_place(&self) -> Option<&str> {
        self.levels.get("place")?.as_str()
    }
}
