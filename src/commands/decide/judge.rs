//! From a row of a scored file to its decision. Nothing is guessed: a row that is not as rescore writes it stays as it is.

use crate::config::ColumnPolicy;
use crate::input::{OpenedScored, ScoredColumns, ScoredRow};
use crate::layout::{DECISION_COLUMN, Format, SCORE_COLUMN};
use crate::observe::warn;
use crate::verdict::{Decision, Levels, Reason, Score, is_formula};

/// What a row is.
#[derive(Debug)]
pub(super) enum Judged {
    /// It has no score: it failed in the run.
    WithoutVerdict,
    /// It has a score, and perhaps had a decision.
    Scored(Score, Option<Decision>),
}

/// Warns of a scored file that is as empty as what its run wrote of an empty input, or that has only a header.
pub(super) fn warn_if_empty(rows: u64, opened: &OpenedScored) {
    if rows == 0 {
        warn(&format!("{} has no rows", opened.name));
    }
}

/// Reads the verdict of a row.
///
/// # Errors
/// Why it cannot be decided.
pub(super) fn judge(scored: &ScoredRow, format: Format) -> Result<Judged, Reason> {
    if let Err(failure) = &scored.cells {
        return Err(failure.reason);
    }
    let decision = Decision::of_word(&scored.value(DECISION_COLUMN, format));
    let score = scored.value(SCORE_COLUMN, format);
    if score.is_empty() {
        // A decision that has no score is not ours to remove.
        return match decision {
            None => Ok(Judged::WithoutVerdict),
            Some(_) => Err(Reason::ExistingColumns),
        };
    }
    let score = Score::from_json_number(&score).map_err(|_| Reason::ExistingColumns)?;
    Ok(Judged::Scored(score, decision))
}

/// The decision about a row with this score; `None` if its level is in no list.
pub(super) fn decide(
    policy: &ColumnPolicy,
    score: &Score,
    scored: &ScoredRow,
    format: Format,
) -> Option<Decision> {
    match policy {
        ColumnPolicy::Score(thresholds) => Some(thresholds.decide(score)),
        ColumnPolicy::Level { levels, .. } => {
            let level = scored.value(ScoredColumns::first_further(), format);
            decide_level(levels, &level, format)
        }
    }
}

/// The decision that a level stands for, as it is written or as the service gave it; `None` if it is in no list.
fn decide_level(levels: &Levels, written: &str, format: Format) -> Option<Decision> {
    let level = match format {
        Format::Delimited { .. } => as_given(written),
        Format::Jsonl => written,
    };
    levels.decide(written).or_else(|| levels.decide(level))
}

/// A cell's text without the quote that a run puts before what a spreadsheet would take for a formula.
fn as_given(written: &str) -> &str {
    let protected = written.strip_prefix('\'').filter(|text| is_formula(text));
    protected.unwrap_or(written)
}
