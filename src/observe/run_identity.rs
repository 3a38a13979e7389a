//! Which run it is, as all objects about it say: known before anything is opened, and so also of a run that cannot start.

use std::time::SystemTime;

use serde::Serialize;

use super::json::VERSION;
use super::numbers::utc_seconds;
use crate::raw_json::Pointer;
use crate::verdict::{Decision, DecisionPolicy, Levels, Thresholds};

/// Which run it is, and how it decides.
#[derive(Debug, Clone)]
pub(crate) struct RunIdentity {
    /// The job's name, which is the same every night.
    pub(crate) job: String,
    /// The profile of the settings file.
    pub(crate) profile: Option<String>,
    /// When the command started.
    pub(crate) start: SystemTime,
    /// How it decides.
    pub(crate) rule: DecisionRule,
}

/// What decides, for programs: thresholds or levels, never both, and neither if it is not known.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct DecisionRule {
    thresholds: Option<ThresholdsJson>,
    levels: Option<LevelsJson>,
}

/// The thresholds, with all their digits.
#[derive(Debug, Clone, Serialize)]
struct ThresholdsJson {
    approve_max: String,
    review_max: String,
}

/// The levels, and where in an answer they are.
#[derive(Debug, Clone, Serialize)]
struct LevelsJson {
    place: Option<String>,
    approve: Vec<String>,
    review: Vec<String>,
    block: Vec<String>,
}

/// What every object about a run starts with.
#[derive(Debug, Serialize)]
pub(super) struct RunHead<'a> {
    version: u8,
    job: &'a str,
    start_time: String,
    pub(super) stopped: Option<&'static str>,
    sandbox: bool,
}

impl RunIdentity {
    /// The head of an object about this run. `stopped` is the word for what stops it early.
    pub(super) fn head(&self, stopped: Option<&'static str>, sandbox: bool) -> RunHead<'_> {
        RunHead {
            version: VERSION,
            job: &self.job,
            start_time: utc_seconds(self.start),
            stopped,
            sandbox,
        }
    }
}

impl DecisionRule {
    /// What a run would decide by is not known.
    pub(crate) const UNKNOWN: Self = Self {
        thresholds: None,
        levels: None,
    };

    /// What this policy decides by; `captured` are the fields of answers that it may use.
    pub(crate) fn of(policy: &DecisionPolicy, captured: &[Pointer]) -> Self {
        match policy {
            DecisionPolicy::Score(thresholds) => Self {
                thresholds: Some(ThresholdsJson::of(thresholds)),
                levels: None,
            },
            DecisionPolicy::Level { levels, field } => Self {
                thresholds: None,
                levels: Some(LevelsJson::of(levels, captured.get(*field))),
            },
        }
    }

    /// Where in an answer the level is, if levels decide.
    pub(super) fn level_place(&self) -> Option<&str> {
        self.levels.as_ref()?.place.as_deref()
    }
}

impl ThresholdsJson {
    fn of(thresholds: &Thresholds) -> Self {
        Self {
            approve_max: thresholds.approve_max().text().to_owned(),
            review_max: thresholds.review_max().text().to_owned(),
        }
    }
}

impl LevelsJson {
    fn of(levels: &Levels, place: Option<&Pointer>) -> Self {
        let listed = |decision| levels.listed(decision).map(str::to_owned).collect();
        Self {
            place: place.map(ToString::to_string),
            approve: listed(Decision::Approve),
            review: listed(Decision::Review),
            block: listed(Decision::Block),
        }
    }
}
