//! What `decide --what-if` and a report show of other thresholds: in words, as a table, and as an object for programs.
//!
//! People see a table that fits a terminal, and programs every pair. A table of all pairs would fit no screen, and does not
//! have to: the share that is approved depends only on the first threshold, the share that is blocked only on the second. The
//! share that is left for review depends on both.

use serde_json::{Value, json};

use super::decide::ScoredRows;
use super::numbers::{count, counted, one_line};
use super::sample::{sample_json, sample_lines};
use crate::analysis::{DecisionCounts, SampleSize, ThresholdPair, WhatIf};
use crate::base::money::Tariff;
use crate::base::numbers::{percent_of, rounded};
use crate::verdict::{Decision, Thresholds};

/// The version of the object. Within one, keys are only added.
const VERSION: u8 = 1;

/// What other thresholds would do to the rows of a file, and what else is asked about that.
#[derive(Debug)]
pub(crate) struct WhatIfView<'a> {
    /// The counts.
    pub(crate) what_if: &'a WhatIf,
    /// All rows of the file.
    pub(crate) rows: &'a ScoredRows,
    /// The column of the outcomes, if they are known.
    pub(crate) outcome: Option<&'a str>,
    /// The share of the bad rows to be caught, in percent.
    pub(crate) catch: Option<f64>,
    /// The size of the sample, if the file is one.
    pub(crate) sample: Option<SampleSize>,
    /// The price of a call, if it is known.
    pub(crate) tariff: Option<&'a Tariff>,
}

/// What is asked about thresholds, in lines of which some are indented below others: what those of today do, which ones catch
/// enough, and what a candidate would do.
pub(crate) fn threshold_lines(
    what_if: &WhatIf,
    outcome: Option<&str>,
    catch: Option<f64>,
    candidate: Option<&Thresholds>,
) -> Vec<String> {
    let (mut lines, today) = (Vec::new(), what_if.todays_pair());
    if let Some(column) = outcome {
        let (bad, good) = (today.bad.rows(), today.good.rows());
        let [bad, good, unknown] = [bad, good, today.all.rows() - bad - good].map(count);
        lines.push(format!(
            "outcomes in `{column}`: {bad} bad, {good} good, {unknown} not known"
        ));
        lines.push("  outcomes are known only of users who were let in".to_owned());
    }
    let mut add = |why: &str, pair: &ThresholdPair| {
        lines.push(format!("{why}: {}", in_words(&pair.thresholds)));
        lines.extend(pair_lines(pair, outcome.is_some()));
    };
    add("today", &today);
    if let Some(pair) = candidate.map(|it| what_if.pair(it)) {
        add("instead", &pair);
    }
    if let Some(percent) = catch {
        let why = format!("to catch {percent}% with the fewest reviews");
        match what_if.catching(percent) {
            Some(pair) => add(&why, &pair),
            None => lines.push(format!("no thresholds catch {percent}% of the bad rows")),
        }
    }
    lines
}

/// `approve up to 2, review up to 5`.
pub(crate) fn in_words(thresholds: &Thresholds) -> String {
    let (approve, review) = (thresholds.approve_max(), thresholds.review_max());
    format!("approve up to {approve}, review up to {review}")
}

/// What a pair of thresholds would do, whom it would catch, and whose decision would change.
fn pair_lines(pair: &ThresholdPair, has_outcomes: bool) -> Vec<String> {
    let all = &pair.all;
    let [approve, review, block] =
        [all.approve, all.review, all.block].map(|rows| with_share(rows, all.rows()));
    let mut lines = vec![format!(
        "  approve {approve}, review {review}, block {block}"
    )];
    let stopped = |word: &str, of: &DecisionCounts, noun: &str| {
        let (all, stopped) = (
            counted(of.rows(), noun),
            with_share(of.stopped(), of.rows()),
        );
        let (block, review) = (count(of.block), count(of.review));
        format!("  {word} {stopped} of {all}: {block} blocked, {review} to review")
    };
    if has_outcomes {
        let missed = with_share(pair.bad.approve, pair.bad.rows());
        let caught = stopped("caught", &pair.bad, "bad row");
        lines.push(format!("{caught}; missed {missed}"));
        lines.push(stopped("false alarms", &pair.good, "good row"));
    }
    let changes = &pair.changes;
    let mut moved = Vec::new();
    for (before, rows) in changes.rows() {
        for (now, rows) in Decision::ALL.into_iter().zip(rows) {
            if now != before && rows > 0 {
                moved.push(format!(
                    "{} from {} to {}",
                    count(rows),
                    before.word(),
                    now.word()
                ));
            }
        }
    }
    if changes.changed > 0 {
        let (others, users) = (count(changes.changed), counted(changes.compared, "user"));
        let moved = moved.join(", ");
        lines.push(format!(
            "  {others} of {users} would get another decision: {moved}"
        ));
    }
    lines
}

/// `149 (74.5%)`.
fn with_share(rows: u64, all: u64) -> String {
    format!("{} ({})", count(rows), percent_of(rows, all))
}

/// The cells of the table of thresholds, by the pair of a threshold with itself: what the threshold alone would approve and
/// block, and which known outcomes are above it. Each cell has the name of its column, a number of rows, and of how many.
pub(crate) fn threshold_cells(
    pair: &ThresholdPair,
    has_outcomes: bool,
) -> Vec<(&'static str, u64, u64)> {
    let (all, bad, good) = (pair.all.rows(), pair.bad.rows(), pair.good.rows());
    let mut cells = vec![
        ("would approve", pair.all.approve, all),
        ("would block", pair.all.block, all),
    ];
    if has_outcomes {
        cells.push(("bad above", pair.bad.block, bad));
        cells.push(("good above", pair.good.block, good));
    }
    cells
}

impl WhatIfView<'_> {
    /// The lines for people, without a line end behind the last one.
    pub(crate) fn text(&self, file: &str) -> String {
        let today = self.what_if.todays_pair();
        let (rows, scores) = (counted(self.rows.rows, "row"), today.all.rows());
        let mut lines = vec![format!("{file}: {rows}, {} with a score", count(scores))];
        let (why, number) = (self.rows.why_unreadable(), count(self.rows.unreadable()));
        lines.extend(why.map(|why| format!("unreadable {number}, not counted: {why}")));
        let sample = self.sample.iter();
        lines.extend(sample.flat_map(|size| sample_lines(size, &today.all, self.tariff)));
        let asked = threshold_lines(self.what_if, self.outcome, self.catch, None);
        lines.extend(asked);
        if scores > 0 {
            lines.extend(self.table(&today));
            lines.push("what neither threshold takes is left for review".to_owned());
        }
        lines.join("\n")
    }

    /// A line for each threshold, under one with the names of the columns.
    fn table(&self, today: &ThresholdPair) -> Vec<String> {
        let cells_of = |pair: &_| threshold_cells(pair, self.outcome.is_some()).into_iter();
        let names = cells_of(today).map(|(name, ..)| name.to_owned());
        let mut table = vec![("threshold".to_owned(), names.collect::<Vec<_>>())];
        table.extend(self.what_if.single().map(|pair| {
            let today = self.what_if.is_todays(&pair).then_some("today ");
            let threshold =
                today.unwrap_or_default().to_owned() + pair.thresholds.approve_max().text();
            let cells = cells_of(&pair).map(|(_, rows, all)| with_share(rows, all));
            (threshold, cells.collect())
        }));
        // Wide enough for the longest cell.
        let cells = table.iter().flat_map(|(_, cells)| cells);
        let width = cells.map(|cell| cell.chars().count()).max().unwrap_or(0);
        let line = |(threshold, cells): &(String, Vec<String>)| {
            let cells = cells.iter().map(|cell| format!("  {cell:>width$}"));
            format!("{threshold:>10}") + &cells.collect::<String>()
        };
        table.iter().map(line).collect()
    }

    /// Every pair of thresholds for programs, on one line.
    pub(crate) fn json(&self) -> String {
        let today = self.what_if.todays_pair();
        let (scores, bad, good) = (today.all.rows(), today.bad.rows(), today.good.rows());
        one_line(&json!({
            "type": "what_if",
            "version": VERSION,
            "rows": self.rows.rows,
            "without_verdict": self.rows.without_verdict,
            "unreadable": self.rows.unreadable,
            "scores": scores,
            "outcomes": self.outcome.map(|column| {
                json!({"column": column, "bad": bad, "good": good, "unknown": scores - bad - good})
            }),
            "sample": self.sample.map(|size| sample_json(&size, &today.all, self.tariff)),
            "today": self.pair_json(&today),
            "catch": self.catch.map(|percent| {
                let pair = self.what_if.catching(percent);
                json!({"percent": percent, "pair": pair.map(|it| self.pair_json(&it))})
            }),
            "pairs": self.what_if.pairs().map(|it| self.pair_json(&it)).collect::<Vec<_>>(),
        }))
    }

    fn pair_json(&self, pair: &ThresholdPair) -> Value {
        // JSON has null for a share of nothing, which is no number.
        let percent = |part: u64, whole: u64| rounded(part as f64 / whole as f64 * 100.0);
        let (bad, good) = (pair.bad.rows(), pair.good.rows());
        json!({
            "approve_max": pair.thresholds.approve_max().text(),
            "review_max": pair.thresholds.review_max().text(),
            "approve": pair.all.approve,
            "review": pair.all.review,
            "block": pair.all.block,
            "today": pair.thresholds == *self.what_if.today(),
            "outcomes": self.outcome.map(|_| json!({
                "bad": pair.bad,
                "good": pair.good,
                "caught": pair.bad.stopped(),
                "caught_percent": percent(pair.bad.stopped(), bad),
                "missed": pair.bad.approve,
                "missed_percent": percent(pair.bad.approve, bad),
                "false_alarms": pair.good.stopped(),
                "false_alarms_percent": percent(pair.good.stopped(), good),
            })),
        })
    }
}
