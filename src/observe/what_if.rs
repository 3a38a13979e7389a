//! What `decide --what-if` shows: what other thresholds would do, as a text for people and an object for programs.
//!
//! People see a table that fits a terminal, and programs every pair. A table of all pairs would fit no screen, and does not
//! have to: the share that is approved depends only on the first threshold, the share that is blocked only on the second. The
//! share that is left for review depends on both.

use serde::Serialize;
use serde_json::{Value, json};

use super::decide::ScoredRows;
use super::numbers::{count, counted, one_line};
use super::sample::{between, ranges, sample_lines};
use crate::analysis::{SampleSize, ThresholdPair, ThresholdStep, WhatIf};
use crate::base::money::Tariff;
use crate::base::numbers::{percent_of, rounded};

/// The version of the object. Within one, keys are only added.
const VERSION: u8 = 1;
/// What no number can say.
pub(crate) const ONLY_LET_IN: &str = "outcomes are known only of users who were let in";

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

/// The same for programs.
#[derive(Serialize)]
#[serde(tag = "type", rename = "what_if")]
struct WhatIfObject<'a> {
    version: u8,
    #[serde(flatten)]
    rows: &'a ScoredRows,
    scores: u64,
    outcomes: Option<Value>,
    sample: Option<Value>,
    today: Option<Value>,
    catch: Option<Value>,
    pairs: Vec<Value>,
}

/// What a pair of thresholds would catch, in words, and whom it would alarm for nothing.
pub(crate) fn outcome_lines(pair: &ThresholdPair<'_>) -> [String; 2] {
    let (bad, good) = (pair.bad.rows(), pair.good.rows());
    let with_share = |part, whole| with_share(part, whole, None);
    [
        format!(
            "caught {} of {}: {} blocked, {} to review; missed {}",
            with_share(pair.caught(), bad),
            counted(bad, "bad row"),
            count(pair.bad.block),
            count(pair.bad.review),
            with_share(pair.bad.approve, bad),
        ),
        format!(
            "false alarms {} of {}: {} blocked, {} to review",
            with_share(pair.false_alarms(), good),
            counted(good, "good row"),
            count(pair.good.block),
            count(pair.good.review),
        ),
    ]
}

/// `--approve-max 2 and --review-max 5`.
fn options_of(pair: &ThresholdPair<'_>) -> String {
    let (approve, review) = (pair.approve_max, pair.review_max);
    format!("--approve-max {approve} and --review-max {review}")
}

/// Which of today's thresholds it is.
pub(crate) const fn today(step: &ThresholdStep<'_>) -> Option<&'static str> {
    match (step.is_approve_max, step.is_review_max) {
        (true, true) => Some("both today"),
        (true, false) => Some("--approve-max today"),
        (false, true) => Some("--review-max today"),
        (false, false) => None,
    }
}

/// `149 (74.5%)`; of a sample `74.5%, 68.0% to 80.1%`.
fn with_share(rows: u64, all: u64, sample: Option<&SampleSize>) -> String {
    let share = percent_of(rows, all);
    match sample {
        Some(sample) => format!("{share}, {}", interval(sample, rows, all)),
        None => format!("{} ({share})", count(rows)),
    }
}

/// The interval of a share in all rows.
pub(crate) fn interval(sample: &SampleSize, rows: u64, all: u64) -> String {
    let found = sample.interval(rows, all);
    between(found.low * 100.0, found.high * 100.0)
}

impl WhatIfView<'_> {
    /// The tables for people, without a line end behind the last line.
    pub(crate) fn text(&self, file: &str) -> String {
        let total = self.what_if.total();
        let (rows, scores) = (counted(self.rows.rows, "row"), total.all.rows());
        let mut lines = vec![format!("{file}: {rows}, {} with a score", count(scores))];
        let (why, number) = (self.rows.why_unreadable(), count(self.rows.unreadable()));
        lines.extend(why.map(|why| format!("unreadable {number}, not counted: {why}")));
        let today = self.what_if.pair(self.what_if.today());
        if let Some((size, today)) = self.sample.as_ref().zip(today) {
            lines.extend(sample_lines(size, &today.all, self.tariff));
        }
        if let Some(column) = self.outcome {
            let (bad, good) = (total.bad.rows(), total.good.rows());
            let [bad, good, unknown] = [bad, good, scores - bad - good].map(count);
            lines.push(format!(
                "outcomes in `{column}`: {bad} bad, {good} good, {unknown} not known\n  {ONLY_LET_IN}"
            ));
        }
        if let Some(pair) = &today {
            let [approve, review, block] = [pair.all.approve, pair.all.review, pair.all.block]
                .map(|rows| with_share(rows, scores, None));
            lines.push(format!(
                "today, with {}:\n  approve {approve}, review {review}, block {block}",
                options_of(pair)
            ));
            lines.extend(self.caught(pair));
        }
        if let Some(percent) = self.catch {
            let pair = self.what_if.catching(percent);
            lines.push(match &pair {
                Some(pair) => format!(
                    "to catch {percent}% with the fewest reviews, and block no more rows than today:\n  {}: {}",
                    options_of(pair),
                    counted(pair.all.review, "review")
                ),
                None => format!("no thresholds catch {percent}% of the bad rows"),
            });
            lines.extend(pair.iter().flat_map(|pair| self.caught(pair)));
        }
        if scores > 0 {
            self.tables(&mut lines);
        }
        lines.join("\n")
    }

    /// What each threshold would approve and block, and which outcomes are above it.
    fn tables(&self, lines: &mut Vec<String>) {
        let total = self.what_if.total();
        let (scores, bad, good) = (total.all.rows(), total.bad.rows(), total.good.rows());
        self.table(lines, ["would approve", "would block"], |step| {
            [
                (step.up_to.all.rows(), scores),
                (step.above.all.rows(), scores),
            ]
        });
        if self.outcome.is_some() {
            self.table(lines, ["bad rows above", "good rows above"], |step| {
                [(step.above.bad.rows(), bad), (step.above.good.rows(), good)]
            });
        }
        let words = match self.outcome {
            Some(_) => {
                "above --approve-max they are caught or false alarms, and above --review-max blocked"
            }
            None => "what neither threshold takes is left for review; `--json` has every pair",
        };
        lines.push(words.to_owned());
    }

    /// What a pair would catch, if outcomes are known.
    fn caught(&self, pair: &ThresholdPair<'_>) -> Vec<String> {
        let lines = self.outcome.iter().flat_map(|_| outcome_lines(pair));
        lines.map(|line| format!("  {line}")).collect()
    }

    /// A line for each threshold, with two numbers of rows and of how many.
    fn table(
        &self,
        lines: &mut Vec<String>,
        heads: [&str; 2],
        cells: impl Fn(&ThresholdStep<'_>) -> [(u64, u64); 2],
    ) {
        let width = if self.sample.is_some() { 21 } else { 18 };
        let line = |threshold: &str, [first, second]: [&str; 2]| {
            format!("{threshold:>9}   {first:>width$}   {second:>width$}")
        };
        lines.extend([String::new(), line("threshold", heads)]);
        lines.extend(self.what_if.steps().map(|step| {
            let [first, second] =
                cells(&step).map(|(rows, all)| with_share(rows, all, self.sample.as_ref()));
            let today = today(&step).map(|today| format!("  < {today}"));
            line(step.threshold.text(), [&first, &second]) + &today.unwrap_or_default()
        }));
    }

    /// Every pair of thresholds for programs, on one line.
    pub(crate) fn json(&self) -> String {
        let total = self.what_if.total();
        let (scores, bad, good) = (total.all.rows(), total.bad.rows(), total.good.rows());
        let pair = |pair: ThresholdPair<'_>| self.pair_json(&pair);
        let today = self.what_if.pair(self.what_if.today());
        let sample = self.sample.as_ref().zip(today).map(|(size, today)| {
            let cost = self
                .tariff
                .map(|tariff| tariff.price.of(size.in_all(size.requests)));
            json!({
                "percent": size.percent,
                "rows": size.rows,
                "requests": size.requests,
                "rows_in_all": size.in_all(size.rows),
                "cost_in_all": cost,
                "shares": ranges(size, &today.all),
            })
        });
        one_line(&WhatIfObject {
            version: VERSION,
            rows: self.rows,
            scores,
            outcomes: self.outcome.map(|column| {
                json!({"column": column, "bad": bad, "good": good, "unknown": scores - bad - good})
            }),
            sample,
            today: today.map(pair),
            catch: self.catch.map(|percent| {
                json!({"percent": percent, "pair": self.what_if.catching(percent).map(pair)})
            }),
            pairs: self.what_if.pairs().map(pair).collect(),
        })
    }

    fn pair_json(&self, pair: &ThresholdPair<'_>) -> Value {
        let percent = |part: u64, whole: u64| {
            (whole > 0).then(|| rounded(part as f64 / whole as f64 * 100.0))
        };
        let (bad, good) = (pair.bad.rows(), pair.good.rows());
        json!({
            "approve_max": pair.approve_max.text(),
            "review_max": pair.review_max.text(),
            "approve": pair.all.approve,
            "review": pair.all.review,
            "block": pair.all.block,
            "today": pair.is_today,
            "outcomes": self.outcome.map(|_| json!({
                "caught": pair.caught(),
                "caught_blocked": pair.bad.block,
                "caught_reviewed": pair.bad.review,
                "caught_percent": percent(pair.caught(), bad),
                "missed": pair.bad.approve,
                "missed_percent": percent(pair.bad.approve, bad),
                "false_alarms": pair.false_alarms(),
                "false_alarms_blocked": pair.good.block,
                "false_alarms_reviewed": pair.good.review,
                "false_alarms_percent": percent(pair.false_alarms(), good),
            })),
            "shares": self.sample.map(|size| ranges(&size, &pair.all)),
        })
    }
}
