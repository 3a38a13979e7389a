//! What other thresholds would do: a table that fits a terminal, and every pair of thresholds for programs.
//!
//! A table of all pairs would fit no screen, and does not have to: the share that is approved depends only on the first
//! threshold, the share that is blocked only on the second. Only what is left for review depends on both.

use serde::Serialize;

use super::decided::unreadable;
use super::numbers::{count, counted, one_line};
use crate::analysis::{ThresholdPair, ThresholdStep, WhatIf};
use crate::base::numbers::percent_of;
use crate::raw_json::escape_unsafe;
use crate::telemetry::decide_stats::ScoredRows;
use crate::verdict::Thresholds;

/// What other thresholds would do to the rows of a file.
#[derive(Debug)]
pub(crate) struct WhatIfView<'a> {
    /// What was counted of the scores.
    pub(crate) what_if: &'a WhatIf,
    /// What was counted of the rows.
    pub(crate) rows: &'a ScoredRows,
    /// The thresholds that are marked.
    pub(crate) today: &'a Thresholds,
    /// The file's name for people.
    pub(crate) file: &'a str,
}

#[derive(Debug, Serialize)]
struct WhatIfJson<'a> {
    r#type: &'static str,
    version: u8,
    #[serde(flatten)]
    rows: &'a ScoredRows,
    scores: u64,
    today: ThresholdPair<'a>,
    pairs: Vec<ThresholdPair<'a>>,
}

/// How wide the column of thresholds is: longer ones are only those of today.
const THRESHOLD: usize = 9;

impl WhatIfView<'_> {
    /// The tables for people, without a line end behind the last line.
    pub(crate) fn text(&self) -> String {
        let mut lines = vec![self.headline()];
        lines.extend(self.today_line());
        if self.what_if.scores() > 0 {
            lines.push(String::new());
            lines.extend(self.threshold_table());
            lines.push(
                "what neither threshold takes is left for review; `--json` has every pair"
                    .to_owned(),
            );
        }
        lines.join("\n")
    }

    fn headline(&self) -> String {
        let (rows, file) = (self.rows, self.file);
        let mut head = format!(
            "{file}: {}, {} with a score",
            counted(rows.read, "row"),
            count(self.what_if.scores())
        );
        if let Some(why) = unreadable(&rows.unreadable) {
            head += &format!(
                "\nunreadable {}, not counted: {why}",
                count(rows.unreadable.named.rows)
            );
        }
        head
    }

    fn today_line(&self) -> Option<String> {
        let pair = self.what_if.pairs().find(|pair| pair.today)?;
        let part = |word: &str, rows| format!("{word} {} ({})", count(rows), self.share(rows));
        Some(format!(
            "today, with --approve-max {} and --review-max {}:\n  {}, {}, {}",
            self.today.approve_max(),
            self.today.review_max(),
            part("approve", pair.outcomes.approve),
            part("review", pair.outcomes.review),
            part("block", pair.outcomes.block)
        ))
    }

    /// `12.3 %` of the scores.
    fn share(&self, rows: u64) -> String {
        format!("{} %", percent_of(rows, self.what_if.scores()))
    }

    /// What each threshold would approve or block.
    fn threshold_table(&self) -> Vec<String> {
        let width = count(self.what_if.scores()).len();
        let cell = |rows| format!("{:>width$}  {:>7}", count(rows), self.share(rows));
        let cells = (width + 9).max(16);
        let line = |threshold: &str, approve: &str, block: &str| {
            format!("{threshold:>THRESHOLD$}   {approve:<cells$}   {block}")
        };
        let head = line("threshold", "as --approve-max", "as --review-max");
        let under = line("", "would approve", "would block");
        let row = |step: ThresholdStep<'_>| {
            let today = match (step.is_approve_max, step.is_review_max) {
                (true, true) => "  < both today",
                (true, false) => "  < --approve-max today",
                (false, true) => "  < --review-max today",
                (false, false) => "",
            };
            let (up_to, above) = (cell(step.up_to), cell(step.above));
            line(step.threshold.text(), &up_to, &above) + today
        };
        [head, under]
            .into_iter()
            .chain(self.what_if.steps().map(row))
            .collect()
    }

    /// Every pair of thresholds for programs, on one line.
    pub(crate) fn json(&self) -> String {
        let pairs: Vec<_> = self.what_if.pairs().collect();
        let line = one_line(&WhatIfJson {
            r#type: "what_if",
            version: 1,
            rows: self.rows,
            scores: self.what_if.scores(),
            today: pairs
                .iter()
                .find(|pair| pair.today)
                .copied()
                .unwrap_or_default(),
            pairs,
        });
        escape_unsafe(&line)
    }
}
