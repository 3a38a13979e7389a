//! What `decide` shows: what was counted while the rows of a scored file were decided again, as a text for people and an
//! object for programs.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Serialize, Serializer};

use super::numbers::{count, counted, named, parts, some_path, verdicts};
use super::summary_text::{drift_lines, undecided};
use crate::analysis::{CountedRows, DecisionCounts, Drift};
use crate::base::error::Exit;
use crate::base::numbers::{seconds, time};
use crate::base::text::display;
use crate::row::RowNumber;
use crate::verdict::Reason;

/// The version of the object. Within one, keys are only added.
const VERSION: u8 = 1;

/// The rows of a scored file, and those that have no score or cannot be read.
#[derive(Debug, Default, Serialize)]
pub(crate) struct ScoredRows {
    /// All rows.
    pub(crate) rows: u64,
    /// Rows without a score, which failed in the run.
    pub(crate) without_verdict: u64,
    pub(super) unreadable: UnreadableRows,
}

/// Rows that cannot be read: how many, the first ones, and why.
#[derive(Debug, Default, Serialize)]
pub(super) struct UnreadableRows {
    #[serde(flatten)]
    named: CountedRows,
    reasons: BTreeMap<Reason, u64>,
}

impl ScoredRows {
    /// Counts a row that cannot be read.
    pub(crate) fn count_unreadable(&mut self, row: RowNumber, reason: Reason) {
        self.unreadable.named.count(row);
        *self.unreadable.reasons.entry(reason).or_default() += 1;
    }

    /// Rows that cannot be read.
    pub(crate) const fn unreadable(&self) -> u64 {
        self.unreadable.named.rows
    }

    /// `ragged 2, not_json 1; rows 5, 9, 12`; `None` if all rows can be read.
    pub(super) fn why_unreadable(&self) -> Option<String> {
        let why = parts(&self.unreadable.reasons)?;
        Some(format!("{why}; {}", named(&self.unreadable.named)?))
    }
}

/// Rows that were decided again: everything that was counted, and the object for programs.
#[derive(Debug, Default, Serialize)]
#[serde(tag = "type", rename = "decide")]
pub(crate) struct DecideSummary {
    version: u8,
    /// How the command ended.
    pub(crate) exit_code: u8,
    /// How long it took.
    #[serde(rename = "elapsed_seconds", with = "seconds")]
    pub(crate) elapsed: Duration,
    /// The rows.
    #[serde(flatten)]
    pub(crate) scored: ScoredRows,
    /// The decisions.
    pub(crate) decisions: DecisionCounts,
    /// Rows without a decision, as their level is in no list.
    pub(crate) undecided: CountedRows,
    /// Decisions before, compared with those now.
    #[serde(serialize_with = "if_compared")]
    pub(crate) drift: Drift,
    /// The output; `None` for standard output.
    #[serde(serialize_with = "some_path")]
    pub(crate) output: Option<PathBuf>,
    /// The rows whose decision changed, if they were asked for.
    #[serde(serialize_with = "some_path")]
    pub(crate) changes: Option<PathBuf>,
    /// The column of the level that decides, if one does.
    #[serde(skip)]
    level: Option<String>,
}

fn if_compared<S: Serializer>(drift: &Drift, to: S) -> Result<S::Ok, S::Error> {
    Some(drift).filter(|drift| drift.compared > 0).serialize(to)
}

impl DecideSummary {
    /// Nothing counted yet. `level` is the column of the level that decides, if one does.
    pub(crate) fn new(level: Option<String>) -> Self {
        Self {
            version: VERSION,
            level,
            ..Self::default()
        }
    }

    /// How the command ended.
    pub(crate) const fn exit(&self) -> Exit {
        match self.undecided.rows + self.scored.unreadable() {
            0 => Exit::Complete,
            _ => Exit::SomeFailed,
        }
    }

    /// Checks that every row is accounted for.
    ///
    /// # Errors
    /// The numbers that do not add up, which is always a bug.
    pub(crate) fn check_invariants(&self) -> Result<(), String> {
        let (all, decided) = (self.scored.rows, self.decisions.rows());
        let (without, unreadable) = (self.scored.without_verdict, self.scored.unreadable());
        let undecided = self.undecided.rows;
        if all == decided + undecided + without + unreadable {
            return Ok(());
        }
        Err(format!(
            "rows do not add up: {all} read, {decided} decided, {undecided} undecided, {without} without a verdict, {unreadable} unreadable"
        ))
    }

    /// Why rows have no decision, or are left as they are. A quiet command shows nothing else.
    pub(crate) fn problems(&self) -> impl Iterator<Item = String> {
        let [rows, left] = [self.undecided.rows, self.scored.unreadable()].map(count);
        let undecided = undecided(&self.undecided, self.level.as_deref());
        let undecided = undecided.map(|why| format!("undecided {rows}: {why}"));
        let unreadable = self.scored.why_unreadable();
        let unreadable =
            unreadable.map(|why| format!("unreadable {left}, left as they are: {why}"));
        undecided.into_iter().chain(unreadable)
    }

    /// The lines for people.
    pub(crate) fn text(&self) -> String {
        let [without, all] = [self.scored.without_verdict, self.scored.rows];
        let head = format!("{} decided in {}", counted(all, "row"), time(self.elapsed));
        let mut lines = vec![head];
        lines.extend(verdicts(&self.decisions, 0, 0));
        if without > 0 {
            let without = counted(without, "row");
            lines.push(format!("no score and so no decision: {without}"));
        }
        lines.extend(self.problems());
        lines.extend(drift_lines(&self.drift, self.changes.as_deref()));
        let output = self.output.as_deref();
        lines.extend(output.map(|path| format!("wrote {}", display(path))));
        format!("rescore: {}", lines.join("\n         "))
    }
}
