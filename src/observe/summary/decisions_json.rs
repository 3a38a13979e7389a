//! Decisions for programs: how many there are, how many are missing, and how they changed.

use serde::Serialize;

use super::undecided::NAMED;
use crate::analysis::{Outcomes, UnknownLevels};
use crate::drift::Drift;
use crate::verdict::Decision;

/// Numbers of rows by decision.
#[derive(Debug, Default, Serialize)]
pub(in crate::observe) struct DecisionsJson {
    approve: u64,
    review: u64,
    block: u64,
}

/// Rows without a decision, and the most frequent of their levels.
#[derive(Debug, Serialize)]
pub(in crate::observe) struct UndecidedJson<'a> {
    rows: u64,
    levels: Vec<LevelJson<'a>>,
}

/// A level that is in no list.
#[derive(Debug, Serialize)]
struct LevelJson<'a> {
    level: Option<&'a str>,
    rows: u64,
}

/// The rows of each earlier decision, by their decision now.
#[derive(Debug, Serialize)]
pub(in crate::observe) struct DriftJson {
    compared: u64,
    changed: u64,
    approve: DecisionsJson,
    review: DecisionsJson,
    block: DecisionsJson,
}

impl From<[u64; 3]> for DecisionsJson {
    fn from([approve, review, block]: [u64; 3]) -> Self {
        Self {
            approve,
            review,
            block,
        }
    }
}

impl<'a> UndecidedJson<'a> {
    pub(in crate::observe) fn new(levels: &'a UnknownLevels) -> Self {
        let frequent = levels.most_frequent(NAMED).into_iter();
        Self {
            rows: levels.rows(),
            levels: frequent
                .map(|(level, rows)| LevelJson { level, rows })
                .collect(),
        }
    }
}

impl DriftJson {
    /// `None` if nothing was compared.
    pub(in crate::observe) fn new(drift: &Drift) -> Option<Self> {
        let now = |before| {
            let mut rows = drift.rows();
            let row = rows.find(|(decision, _)| *decision == before);
            row.map(|(_, now)| now.into()).unwrap_or_default()
        };
        (drift.compared() > 0).then(|| Self {
            compared: drift.compared(),
            changed: drift.changed(),
            approve: now(Decision::Approve),
            review: now(Decision::Review),
            block: now(Decision::Block),
        })
    }
}

impl From<Outcomes> for DecisionsJson {
    fn from(outcomes: Outcomes) -> Self {
        let Outcomes {
            approve,
            review,
            block,
        } = outcomes;
        Self {
            approve,
            review,
            block,
        }
    }
}
