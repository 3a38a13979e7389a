//! What other thresholds would do: a table that fits a terminal, and every pair of thresholds for programs.
//!
//! A table of all pairs would fit no screen, and does not have to: the share that is approved depends only on the first
//! threshold, the share that is blocked only on the second. Only what is left for review depends on both.

use serde::Serialize;

use super::decided::unreadable;
use super::numbers::{count, counted, one_line};
use crate::analysis::{ThresholdStep, WhatIf};
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
    today: PairJson<'a>,
    pairs: Vec<PairJson<'a>>,
}

/// A pair of thresholds, as they are written, and what it would do.
#[derive(Debug, Clone, Copy, Default, Serialize)]
struct PairJson<'a> {
    approve_max: &'a str,
    review_max: &'a str,
    approve: u64,
    review: u64,
    block: u64,
    today: bool,
}

/// How wide the column of thresholds is: longer ones are only those of today.
const THRESHOLD: usize = 9;

impl WhatIfView<'_> {
    /// The tables for people, without a line end behind the last line.
    #[must_use]
    pub(crate) fn text(&self) -> String {
        let mut lines = vec![self.headline()];
        lines.extend(self.today_line());
        if self.what_if.scores() > 0 {
            lines.push(String::new());
            lines.extend(self.threshold_table());
            lines.push(String::new());
            lines.extend(self.review_table());
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
                count(rows.unreadable.rows)
            );
        }
        head
    }

    fn today_line(&self) -> Option<String> {
        let pair = self.what_if.pairs().find(|pair| pair.is_today)?;
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

    /// The share of the scores in whole percent, for a table without room for decimals.
    fn whole_percent(&self, rows: u64) -> u128 {
        let scores = u128::from(self.what_if.scores().max(1));
        (u128::from(rows) * 200 + scores) / (2 * scores)
    }

    /// What each threshold would approve or block.
    fn threshold_table(&self) -> Vec<String> {
        let width = count(self.what_if.scores()).len();
        let cell = |rows| format!("{:>width$}  {:>7}", count(rows), self.share(rows));
        let head = format!(
            "{:>THRESHOLD$}   {:<cells$}   {}",
            "threshold",
            "as --approve-max",
            "as --review-max",
            cells = (width + 9).max(16)
        );
        let under = format!(
            "{:>THRESHOLD$}   {:<cells$}   {}",
            "",
            "would approve",
            "would block",
            cells = (width + 9).max(16)
        );
        let row = |step: ThresholdStep<'_>| {
            let today = match (step.is_approve_max, step.is_review_max) {
                (true, true) => "  < both today",
                (true, false) => "  < --approve-max today",
                (false, true) => "  < --review-max today",
                (false, false) => "",
            };
            format!(
                "{:>THRESHOLD$}   {:<cells$}   {}{today}",
                step.threshold.text(),
                cell(step.up_to),
                cell(step.above),
                cells = (width + 9).max(16)
            )
        };
        [head, under]
            .into_iter()
            .chain(self.what_if.steps().map(row))
            .collect()
    }

    /// What pairs of thresholds would leave for review: whole steps and those of today, so that it fits 80 columns.
    fn review_table(&self) -> Vec<String> {
        let is_shown = |step: &ThresholdStep<'_>| {
            let is_whole = step.threshold.text().parse::<u8>().is_ok();
            is_whole || step.is_approve_max || step.is_review_max
        };
        let steps: Vec<_> = self.what_if.steps().filter(is_shown).collect();
        let width = |step: &ThresholdStep<'_>| step.threshold.text().len().max(3) + 2;
        let heads = steps.iter().map(|step| {
            let mark = if step.is_review_max { "<" } else { "" };
            let width = width(step);
            format!("{:>width$}", format!("{mark}{}", step.threshold))
        });
        let mut lines = vec![
            "left for review, in %, by --approve-max (down) and --review-max (across):".to_owned(),
            format!("{:>THRESHOLD$}{}", "", heads.collect::<String>()),
        ];
        lines.extend(steps.iter().enumerate().map(|(at, approve)| {
            let cells = steps.iter().enumerate().map(|(place, review)| {
                let width = width(review);
                if place < at {
                    return format!("{:>width$}", "");
                }
                let share = self.whole_percent(review.up_to - approve.up_to);
                let today = approve.is_approve_max && review.is_review_max;
                format!(
                    "{:>width$}",
                    format!("{}{share}", if today { "<" } else { "" })
                )
            });
            let mark = if approve.is_approve_max { "<" } else { "" };
            format!(
                "{:>THRESHOLD$}{}",
                format!("{mark}{}", approve.threshold),
                cells.collect::<String>()
            )
        }));
        lines
    }

    /// Every pair of thresholds for programs, on one line.
    #[must_use]
    pub(crate) fn json(&self) -> String {
        let pairs: Vec<_> = { self.what_if.pairs() }
            .map(|pair| PairJson {
                approve_max: pair.approve_max.text(),
                review_max: pair.review_max.text(),
                approve: pair.outcomes.approve,
                review: pair.outcomes.review,
                block: pair.outcomes.block,
                today: pair.is_today,
            })
            .collect();
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
