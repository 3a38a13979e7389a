//! Decisions for programs: how many there are, how many are missing, and how they changed.

use serde::Serialize;

use crate::analysis::{Outcomes, UnknownLevels};
use crate::drift::Drift;
use crate::verdict::Decision;

/// Numbers of rows by decision.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(super) struct DecisionsJson {
    pub(super) approve: u64,
    pub(super) review: u64,
    pub(super) block: u64,
}

/// Rows without a decision, and the numbers of the first ones that are written.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct UndecidedJson {
    pub(super) rows: u64,
    first: Vec<u64>,
}

/// The rows of each earlier decision, by their decision now.
#[derive(Debug, Clone, Serialize)]
pub(super) struct DriftJson {
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

impl UndecidedJson {
    /// For this many rows, of which these are written.
    pub(super) fn new(rows: u64, levels: &UnknownLevels) -> Self {
        Self {
            rows,
            first: levels.first().collect(),
        }
    }
}

impl DriftJson {
    /// `None` if nothing was compared.
    pub(super) fn new(drift: &Drift) -> Option<Self> {
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
