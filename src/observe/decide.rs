//! What `decide` shows: what was counted while the rows of a scored file were decided again, and what other thresholds would
//! do. Both are a text for people and an object for programs.
//!
//! Of other thresholds people see a table that fits a terminal, and programs every pair. A table of all pairs would fit no
//! screen, and does not have to: the share that is approved depends only on the first threshold, the share that is blocked
//! only on the second. The share that is left for review depends on both.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Serialize, Serializer};

use super::numbers::{count, counted, named, one_line, parts, some_path, time, verdicts};
use super::summary_text::{drift_lines, undecided};
use crate::analysis::{CountedRows, DecisionCounts, Drift, ThresholdPair, WhatIf};
use crate::base::error::Exit;
use crate::base::numbers::{percent_of, seconds};
use crate::base::text::display;
use crate::row::RowNumber;
use crate::verdict::{Reason, Thresholds};

/// The version of both objects. Within one, keys are only added.
const VERSION: u8 = 1;

/// The rows of a scored file, and those that have no score or cannot be read.
#[derive(Debug, Default, Serialize)]
pub(crate) struct ScoredRows {
    /// All rows.
    pub(crate) rows: u64,
    /// Rows without a score, which failed in the run.
    pub(crate) without_verdict: u64,
    unreadable: UnreadableRows,
}

/// Rows that cannot be read: how many, the first ones, and why.
#[derive(Debug, Default, Serialize)]
struct UnreadableRows {
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
    fn why_unreadable(&self) -> Option<String> {
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

/// What other thresholds would do to the rows of a file.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "what_if")]
pub(crate) struct WhatIfView<'a> {
    version: u8,
    #[serde(flatten)]
    rows: &'a ScoredRows,
    scores: u64,
    today: ThresholdPair<'a>,
    pairs: Vec<ThresholdPair<'a>>,
    #[serde(skip)]
    what_if: &'a WhatIf,
    /// Today's thresholds as they were given.
    #[serde(skip)]
    given: &'a Thresholds,
    /// The file's name for people.
    #[serde(skip)]
    file: String,
}

/// A threshold, and how many of the scored rows it alone would approve and block: `2`, `149 (74.5%)`, `51 (25.5%)`.
pub(crate) struct ThresholdRow {
    /// The threshold.
    pub(crate) threshold: String,
    /// Approved with it as `--approve-max`.
    pub(crate) approved: String,
    /// Blocked with it as `--review-max`.
    pub(crate) blocked: String,
    /// Which of today's thresholds it is.
    pub(crate) today: Option<&'static str>,
}

/// What each threshold would do.
pub(crate) fn threshold_rows(what_if: &WhatIf) -> impl Iterator<Item = ThresholdRow> {
    let all = what_if.scores();
    what_if.steps().map(move |step| ThresholdRow {
        threshold: step.threshold.to_string(),
        approved: with_share(step.up_to, all),
        blocked: with_share(step.above, all),
        today: match (step.is_approve_max, step.is_review_max) {
            (true, true) => Some("both today"),
            (true, false) => Some("--approve-max today"),
            (false, true) => Some("--review-max today"),
            (false, false) => None,
        },
    })
}

/// `149 (74.5%)`.
fn with_share(rows: u64, all: u64) -> String {
    format!("{} ({})", count(rows), percent_of(rows, all))
}

impl<'a> WhatIfView<'a> {
    /// The counts of this file, with today's thresholds marked.
    pub(crate) fn new(
        what_if: &'a WhatIf,
        rows: &'a ScoredRows,
        given: &'a Thresholds,
        file: String,
    ) -> Self {
        let pairs: Vec<_> = what_if.pairs().collect();
        let today = pairs.iter().find(|pair| pair.today).copied();
        Self {
            version: VERSION,
            rows,
            scores: what_if.scores(),
            today: today.unwrap_or_default(),
            pairs,
            what_if,
            given,
            file,
        }
    }

    /// The tables for people, without a line end behind the last line.
    pub(crate) fn text(&self) -> String {
        let (rows, scores) = (counted(self.rows.rows, "row"), count(self.scores));
        let mut lines = vec![format!("{}: {rows}, {scores} with a score", self.file)];
        let (why, number) = (self.rows.why_unreadable(), count(self.rows.unreadable()));
        lines.extend(why.map(|why| format!("unreadable {number}, not counted: {why}")));
        let (approve, review) = (self.given.approve_max(), self.given.review_max());
        let now = self.today.outcomes;
        lines.push(format!(
            "today, with --approve-max {approve} and --review-max {review}:\n  approve {}, review {}, block {}",
            with_share(now.approve, self.scores),
            with_share(now.review, self.scores),
            with_share(now.block, self.scores)
        ));
        if self.scores > 0 {
            let line = |threshold: &str, approved: &str, blocked: &str| {
                format!("{threshold:>9}   {approved:>18}   {blocked:>18}")
            };
            lines.push(String::new());
            lines.push(line("threshold", "as --approve-max", "as --review-max"));
            lines.push(line("", "would approve", "would block"));
            lines.extend(threshold_rows(self.what_if).map(|row| {
                let today = row.today.map(|today| format!("  < {today}"));
                line(&row.threshold, &row.approved, &row.blocked) + &today.unwrap_or_default()
            }));
            lines.push(
                "what neither threshold takes is left for review; `--json` has every pair"
                    .to_owned(),
            );
        }
        lines.join("\n")
    }

    /// Every pair of thresholds for programs, on one line.
    pub(crate) fn json(&self) -> String {
        one_line(self)
    }
}
