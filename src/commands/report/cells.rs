//! The verdict in a row of a scored file.

use crate::input::ScoredRow;
use crate::layout::{DECISION_COLUMN, Format, SCORE_COLUMN};
use crate::verdict::{Decision, Score};

/// What a row has of a verdict.
pub(super) struct Cells {
    /// Its score.
    pub(super) score: Option<Score>,
    /// Its decision.
    pub(super) decision: Option<Decision>,
}

impl Cells {
    /// The verdict in the columns of the last run.
    pub(super) fn of(row: &ScoredRow, format: Format) -> Self {
        Self::at(row, format, (SCORE_COLUMN, DECISION_COLUMN))
    }

    /// The verdict in these columns. A value that is not a score or a decision counts as none.
    pub(super) fn at(row: &ScoredRow, format: Format, (score, decision): (usize, usize)) -> Self {
        Self {
            score: Score::from_json_number(&row.value(score, format)).ok(),
            decision: Decision::of_word(&row.value(decision, format)),
        }
    }
}
