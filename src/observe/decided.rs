//! What is shown when the rows of a scored file have been decided again: a few lines for people, a JSON object for programs.

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use super::numbers::{count, counted, indented, named, parts, reasons, some_path, time};
use super::summary_text::{drift_table, undecided};
use crate::base::numbers::seconds;
use crate::base::text::shown;
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
    #[serde(flatten)]
    stats: &'a DecideStats,
    #[serde(serialize_with = "some_path")]
    output: &'a Option<PathBuf>,
    #[serde(serialize_with = "some_path")]
    changes: &'a Option<PathBuf>,
}

/// `ragged 2, not_json 1; rows 5, 9, 12`; `None` if all rows can be read.
pub(super) fn unreadable(unreadable: &UnreadableRows) -> Option<String> {
    let which = named(&unreadable.named)?;
    Some(format!("{}; {which}", reasons(&unreadable.reasons)))
}

impl DecideSummary<'_> {
    fn undecided(&self) -> Option<String> {
        undecided(&self.stats.undecided, self.level)
    }

    /// The lines for people.
    pub(crate) fn text(&self) -> String {
        let DecideStats {
            rows,
            decisions,
            drift,
            ..
        } = self.stats;
        let mut lines = vec![format!(
            "{} decided in {}",
            counted(rows.read, "row"),
            time(self.elapsed)
        )];
        lines.extend(parts(&[
            ("approve", decisions.approve),
            ("review", decisions.review),
            ("block", decisions.block),
        ]));
        let why = self.undecided();
        lines.extend(
            why.map(|why| format!("undecided {}: {why}", count(self.stats.undecided.rows))),
        );
        if rows.without_verdict > 0 {
            let failed = counted(rows.without_verdict, "row");
            lines.push(format!("no score and so no decision: {failed}"));
        }
        lines.extend(drift_table(Some(drift), self.changes.as_deref()));
        let why = unreadable(&rows.unreadable);
        lines.extend(why.map(|why| {
            let number = count(rows.unreadable.named.rows);
            format!("unreadable {number}, left as they are: {why}")
        }));
        let output = self.output.as_deref();
        lines.extend(output.map(|path| format!("wrote {}", shown(path))));
        format!("rescore: {}", lines.join("\n         "))
    }

    /// The warnings of a quiet command, which shows nothing else: none if every row with a verdict has a decision.
    pub(crate) fn warnings(&self) -> impl Iterator<Item = String> {
        let rows = &self.stats.rows;
        let all = counted(rows.read, "row");
        let without = self.undecided().map(|why| {
            let number = count(self.stats.undecided.rows);
            format!("{number} of {all} have no decision: {why}")
        });
        let unreadable = unreadable(&rows.unreadable).map(|why| {
            let number = count(rows.unreadable.named.rows);
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
            stats: self.stats,
            output: &self.output,
            changes: &self.changes,
        };
        to.write_all(indented(&object).as_bytes())?;
        to.flush()
    }
}
