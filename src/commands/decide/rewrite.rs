//! Writes a scored file with new decisions. All other bytes stay as they are.

use tokio::time::Instant;

use super::super::files::SummaryFile;
use super::super::interrupt::Interrupts;
use super::super::open_input::bytes_ignored;
use super::super::read_ahead::{ReadAhead, read_ahead};
use super::files::{DecideFiles, OpenDecideFiles};
use super::judge::{Judged, decide, judge, warn_if_empty};
use crate::base::error::{Error, Exit, Result};
use crate::config::{ColumnPolicy, RewriteTask};
use crate::input::{FileSettings, RowBatch, ScoredColumns, ScoredReader, ScoredRow};
use crate::layout::{DECISION_COLUMN, Format};
use crate::observe::{self, DecideSummary, warn};
use crate::output::{DecidedRow, OldVerdict, Rewriter, WriteError, Written};
use crate::telemetry::decide_stats::DecideStats;

/// What rows pass through.
struct Rewriting {
    policy: ColumnPolicy,
    format: Format,
    writer: Rewriter,
    stats: DecideStats,
}

/// How writing ended: `None` when the reader of standard output has gone away, which is not an error.
type End<T> = Result<Option<T>>;

/// Decides the rows again, and says how it went. A signal removes the files that are not complete.
///
/// # Errors
/// Exit code 2: the file is not a scored file, or the output cannot be made. Exit code 3: it cannot be written.
pub(super) fn rewrite(
    file: &FileSettings,
    prefix: &str,
    task: RewriteTask,
    interrupts: &Interrupts,
) -> Result<Exit> {
    let started = Instant::now();
    let files = DecideFiles::check(task.output, &file.input)?;
    let level = match &task.policy {
        ColumnPolicy::Score(_) => None,
        ColumnPolicy::Level { column, .. } => Some(column.clone()),
    };
    let columns = ScoredColumns::new(prefix, level.as_slice());
    let (mut reader, opened) = ScoredReader::open(file, columns)?;
    let OpenDecideFiles { rows, summary } = interrupts.opening(files.partial(), || {
        files.open(opened.layout.format, opened.mode)
    })?;
    let rewriting = Rewriting {
        policy: task.policy,
        format: opened.layout.format,
        writer: Rewriter::new(&opened.layout, rows),
        stats: DecideStats::default(),
    };
    let Some((stats, written)) = rewriting.all(&read_ahead(move || reader.next_batch())?)? else {
        return Ok(Exit::Stopped);
    };
    let decided = DecideSummary {
        stats: &stats,
        elapsed: started.elapsed(),
        output: written.output,
        changes: written.changes,
    };
    tell(&decided, task.quiet, summary);
    warn_if_empty(stats.rows.read, &opened);
    if opened.ignored.any() {
        warn(&bytes_ignored("the input"));
    }
    Ok(stats.exit())
}

fn tell(decided: &DecideSummary<'_>, quiet: bool, file: Option<SummaryFile>) {
    if quiet {
        decided.warnings().for_each(|warning| warn(&warning));
    } else {
        observe::tell(&decided.text());
    }
    if let Some(file) = file {
        file.write(|file| decided.write_json(file));
    }
}

impl Rewriting {
    /// Takes all rows and completes the files. After an error, nothing is left of them.
    fn all(mut self, rows: &ReadAhead<ScoredRow>) -> End<(DecideStats, Written)> {
        for batch in rows {
            let written = batch.and_then(|batch| self.batch(&batch));
            match written {
                Ok(Some(())) => {}
                Ok(None) => return Ok(None),
                Err(error) => {
                    self.writer.into_files().discard();
                    return Err(error);
                }
            }
        }
        if let Err(broken) = self.stats.check_invariants() {
            self.writer.into_files().discard();
            return Err(Error::internal(broken).hint("this is a bug in rescore"));
        }
        let mut written = self.writer.into_files().commit(|_| {});
        match written.error.take() {
            None => Ok(Some((self.stats, written))),
            Some(error) => ended(Err(*error)).map(|_| None),
        }
    }

    fn batch(&mut self, batch: &RowBatch<ScoredRow>) -> End<()> {
        for scored in &batch.rows {
            self.row(scored);
        }
        self.writer.trailer(&batch.trailer);
        ended(self.writer.write_out())
    }

    fn row(&mut self, scored: &ScoredRow) {
        let (stats, row) = (&mut self.stats, &scored.row);
        stats.rows.read += 1;
        let mut decided = DecidedRow {
            row,
            new: None,
            old: None,
        };
        match judge(scored, self.format) {
            Err(reason) => stats.rows.unreadable(row.number, reason),
            Ok(Judged::WithoutVerdict) => stats.rows.without_verdict += 1,
            Ok(Judged::Scored(score, before)) => {
                let now = match decide(&self.policy, &score, scored, self.format) {
                    Ok(now) => {
                        stats.decisions.count(now);
                        Some(now)
                    }
                    Err(level) => {
                        stats.unknown_levels.count(level.as_deref());
                        None
                    }
                };
                if let (Some(before), Some(now)) = (before, now) {
                    stats.drift.count(before, now);
                }
                if before != now {
                    let cells = scored.cells.as_deref().unwrap_or_default();
                    decided.new = cells.get(DECISION_COLUMN).map(|span| (*span, now));
                    decided.old = before.map(|decision| OldVerdict { decision, score });
                }
            }
        }
        self.writer.add(&decided);
    }
}

fn ended(written: Result<(), WriteError>) -> End<()> {
    match written {
        Ok(()) => Ok(Some(())),
        Err(WriteError::Closed) => Ok(None),
        Err(WriteError::Failed(error)) => Err(error),
    }
}
