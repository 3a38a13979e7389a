//! What is shown when the rows of a scored file have been decided again: a few lines for people, a JSON object for programs.

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use super::numbers::{count, counted, indented, parts, rate, some_path, time};
use super::summary_text::{drift_table, undecided};
use crate::base::error::shown;
use crate::base::numbers::{rounded, seconds};
use crate::telemetry::decide_stats::{DecideStats, UnreadableRows};

/// Rows that were decided again.
#[derive(Debug)]
pub(crate) struct DecideSummary<'a> {
    /// What was counted.
    pub(crate) stats: &'a DecideStats,
    /// How long it took.
    pub(crate) elapsed: Duration,
    /// The output; `None` for standard output.
    pub(crate) output: Option<PathBuf>,
    /// The rows whose decision changed, if they were asked for.
    pub(crate) changes: Option<PathBuf>,
    /// The column of the level that decides, if one does.
    pub(crate) level: Option<&'a str>,
}

/// The object for programs.
#[derive(Debug, Serialize)]
struct DecideJson<'a> {
    r#type: &'static str,
    version: u8,
    exit_code: u8,
    #[serde(with = "seconds")]
    elapsed_seconds: Duration,
    rows_per_second: Option<f64>,
    #[serde(flatten)]
    stats: &'a DecideStats,
    #[serde(serialize_with = "some_path")]
    output: &'a Option<PathBuf>,
    #[serde(serialize_with = "some_path")]
    changes: &'a Option<PathBuf>,
}

/// `ragged 2, not_json 1; the first are rows 5, 9 and 12`; `None` if all rows can be read.
pub(super) fn unreadable(unreadable: &UnreadableRows) -> Option<String> {
    let reasons = unreadable.reasons.iter();
    let reasons: Vec<_> = reasons
        .map(|(reason, rows)| format!("{reason} {}", count(*rows)))
        .collect();
    let numbers: Vec<_> = { unreadable.first.iter() }
        .map(|row| count(row.get()))
        .collect();
    let (last, others) = numbers.split_last()?;
    let all = unreadable.rows == numbers.len() as u64;
    let which = match (all, others) {
        (true, []) => format!("row {last}"),
        (true, others) => format!("rows {} and {last}", others.join(", ")),
        (false, others) => format!("the first are rows {} and {last}", others.join(", ")),
    };
    Some(format!("{}; {which}", reasons.join(", ")))
}

impl DecideSummary<'_> {
    fn rows_per_second(&self) -> Option<f64> {
        let (rows, seconds) = (self.stats.rows.read, self.elapsed.as_secs_f64());
        #[allow(clippy::cast_precision_loss, reason = "shown with three digits")]
        (seconds > 0.0 && rows > 0).then(|| rows as f64 / seconds)
    }

    fn undecided(&self) -> Option<String> {
        let levels = &self.stats.unknown_levels;
        let first: Vec<_> = levels.first().collect();
        undecided(levels.rows(), &first, self.level)
    }

    /// The lines for people.
    #[must_use]
    pub(crate) fn text(&self) -> String {
        let DecideStats {
            rows,
            decisions,
            unknown_levels,
            drift,
        } = self.stats;
        let speed = self.rows_per_second();
        let speed = speed.map(|speed| format!(", {} rows/s", rate(speed)));
        let mut lines = vec![format!(
            "{} decided in {}{}",
            counted(rows.read, "row"),
            time(self.elapsed),
            speed.unwrap_or_default()
        )];
        lines.extend(parts(&[
            ("approve", decisions.approve),
            ("review", decisions.review),
            ("block", decisions.block),
        ]));
        let why = self.undecided();
        lines.extend(why.map(|why| format!("undecided {}: {why}", count(unknown_levels.rows()))));
        if rows.without_verdict > 0 {
            let failed = counted(rows.without_verdict, "row");
            lines.push(format!("no score and so no decision: {failed}"));
        }
        lines.extend(drift_table(Some(drift), self.changes.as_deref()));
        let why = unreadable(&rows.unreadable);
        lines.extend(why.map(|why| {
            let number = count(rows.unreadable.rows);
            format!("unreadable {number}, left as they are: {why}")
        }));
        let output = self.output.as_deref();
        lines.extend(output.map(|path| format!("wrote {}", shown(path))));
        format!("rescore: {}", lines.join("\n         "))
    }

    /// The warnings of a quiet command, which shows nothing else: none if every row with a verdict has a decision.
    pub(crate) fn warnings(&self) -> impl Iterator<Item = String> {
        let DecideStats {
            rows,
            unknown_levels,
            ..
        } = self.stats;
        let all = counted(rows.read, "row");
        let without = self.undecided().map(|why| {
            let number = count(unknown_levels.rows());
            format!("{number} of {all} have no decision: {why}")
        });
        let unreadable = unreadable(&rows.unreadable).map(|why| {
            let number = count(rows.unreadable.rows);
            format!("{number} of {all} are left as they are: {why}")
        });
        without.into_iter().chain(unreadable)
    }

    /// Writes the object for programs.
    ///
    /// # Errors
    /// Those of the writer.
    pub(crate) fn write_json(&self, mut to: impl Write) -> io::Result<()> {
        let object = DecideJson {
            r#type: "decide",
            version: 1,
            exit_code: self.stats.exit().code(),
            elapsed_seconds: self.elapsed,
            rows_per_second: self.rows_per_second().map(rounded),
            stats: self.stats,
            output: &self.output,
            changes: &self.changes,
        };
        to.write_all(indented(&object).as_bytes())?;
        to.flush()
    }
}
