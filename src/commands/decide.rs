//! `rescore decide`: new decisions for a scored file, without a call.
//!
//! A reader's thread finds the verdict in each row; the thread that called decides, and either writes the rows again or
//! counts what other thresholds would do. Nothing is guessed: a row that is not as rescore writes it stays as it is.

use std::path::{Path, PathBuf};

use tokio::time::Instant;

use super::files::{NamedFile, SummaryFile, check_name, naming_the_other_run, refuse_clashes};
use super::interrupt::Interrupts;
use super::open_input::{bytes_ignored, open_scored};
use super::read_ahead::read_ahead;
use crate::analysis::WhatIf;
use crate::base::error::{Error, Exit, Result};
use crate::base::stdout::print;
use crate::config::{DecideConfig, DecideOutput, DecideTask, RewriteTask};
use crate::input::{AskedColumns, FileSettings, Input, Opened, ReadRow, RowBatch};
use crate::layout::Layout;
use crate::observe::{self, DecideSummary, WhatIfView, warn};
use crate::output::{DoneRow, OutputFile, Replace, RowFiles, Target, WriteError, Writer, Written};
use crate::row::Row;
use crate::telemetry::decide_stats::{DecideStats, ScoredRows};
use crate::verdict::{
    Answer, Decision, DecisionPolicy, Failure, Reason, Score, Thresholds, TransactionId, Verdict,
    is_formula,
};

/// Decides the rows of a scored file again, or counts what other thresholds would do. A signal removes the files that are
/// not complete.
///
/// # Errors
/// Exit code 2: the file is not a scored file, or the output cannot be made. Exit code 3: it cannot be written. Nothing is
/// left then.
pub(crate) fn execute(config: DecideConfig) -> Result<Exit> {
    let DecideConfig { file, prefix, task } = config;
    let interrupts = Interrupts::listen()?;
    match task {
        DecideTask::Rewrite(task) => rewrite(&file, &prefix, *task, &interrupts),
        DecideTask::WhatIf { today, json } => what_if(&file, &prefix, &today, json),
    }
}

/// Writes the file with new decisions. All other bytes stay as they are.
fn rewrite(
    file: &FileSettings,
    prefix: &str,
    task: RewriteTask,
    interrupts: &Interrupts,
) -> Result<Exit> {
    let started = Instant::now();
    let RewriteTask {
        policy,
        level,
        output,
        quiet,
    } = task;
    let files = DecideFiles::check(output, &file.input)?;
    let asked = AskedColumns::new(level.as_slice(), []);
    let (reader, opened) = open_scored(file, prefix, asked)?;
    let (rows, summary) =
        interrupts.opening(files.partial(), || files.open(&opened.layout, opened.mode))?;
    let mut layout = opened.layout.clone();
    layout.columns = layout.columns.decided_again();
    let mut stage = Decider {
        writer: Writer::new(layout, policy.clone(), rows),
        policy,
        layout: &opened.layout,
        stats: DecideStats::default(),
    };
    let mut batches = read_ahead(reader)?.into_iter();
    let passed = batches.try_for_each(|batch| stage.batch(batch.map_err(WriteError::Failed)?));
    let (stats, files) = stage.end();
    let written = match end_files(passed, &stats, files) {
        Ok(written) => written,
        // The reader of standard output has gone away, which is not an error.
        Err(WriteError::Closed) => return Ok(Exit::Stopped),
        Err(WriteError::Failed(error)) => return Err(error),
    };
    let summary_of_rows = DecideSummary {
        stats: &stats,
        elapsed: started.elapsed(),
        output: written.output,
        changes: written.changes,
        level: level.as_deref(),
    };
    if quiet {
        summary_of_rows
            .warnings()
            .for_each(|warning| warn(&warning));
    } else {
        observe::tell(&summary_of_rows.text());
    }
    if let Some(file) = summary {
        file.write(|file| summary_of_rows.write_json(file));
    }
    warn_of_input(stats.rows.read, &opened);
    Ok(stats.exit())
}

/// Gives the files their names once all rows are written and the numbers add up; otherwise nothing of them is left.
fn end_files(
    passed: Result<(), WriteError>,
    stats: &DecideStats,
    files: RowFiles,
) -> Result<Written, WriteError> {
    let passed = passed.and_then(|()| {
        let broken = |numbers| Error::internal(numbers).hint("this is a bug in rescore");
        { stats.check_invariants() }.map_err(|numbers| WriteError::Failed(broken(numbers)))
    });
    if let Err(error) = passed {
        files.discard();
        return Err(error);
    }
    let mut written = files.commit(|_| {});
    written
        .error
        .take()
        .map_or(Ok(written), |error| Err(*error))
}

/// Counts the scores and prints what each pair of thresholds would do, from one pass that writes nothing.
fn what_if(file: &FileSettings, prefix: &str, today: &Thresholds, json: bool) -> Result<Exit> {
    let (reader, opened) = open_scored(file, prefix, AskedColumns::default())?;
    let (mut what_if, mut rows) = (WhatIf::new(today), ScoredRows::default());
    for batch in read_ahead(reader)? {
        for ReadRow { row, request, .. } in batch?.rows {
            rows.read += 1;
            match request.and_then(|_| score_of(&row, &opened.layout)) {
                Err(failure) => rows.unreadable(row.number, failure.reason),
                Ok(None) => rows.without_verdict += 1,
                Ok(Some(score)) => what_if.count(&score),
            }
        }
    }
    let view = WhatIfView {
        what_if: &what_if,
        rows: &rows,
        today,
        file: &file.input.shown(),
    };
    warn_of_input(rows.read, &opened);
    print(&if json { view.json() } else { view.text() })?;
    Ok(if rows.unreadable.rows > 0 {
        Exit::SomeFailed
    } else {
        Exit::Complete
    })
}

/// Warns of a scored file that is as empty as what its run wrote of an empty input, and of bytes behind compressed data.
fn warn_of_input(rows: u64, opened: &Opened) {
    if rows == 0 {
        warn(&format!("{} has no rows", opened.name));
    }
    if opened.ignored.any() {
        warn(&bytes_ignored("the input"));
    }
}

/// The score of a row; `None` if it has none, as it failed in the run.
fn score_of(row: &Row, layout: &Layout) -> Result<Option<Score>, Failure> {
    let foreign = |message| Failure::new(Reason::ExistingColumns, message);
    let score = layout.value(row.slice(row.earlier.score));
    if !score.is_empty() {
        return Score::from_json_number(&score).map(Some).map_err(foreign);
    }
    // A decision that has no score is not ours to remove.
    match Decision::of_word(&layout.value(row.slice(row.earlier.decision))) {
        None => Ok(None),
        Some(_) => Err(foreign("a decision without a score")),
    }
}

/// Decides rows and passes them on to the writer.
struct Decider<'a> {
    policy: DecisionPolicy,
    layout: &'a Layout,
    writer: Writer,
    stats: DecideStats,
}

impl Decider<'_> {
    fn batch(&mut self, batch: RowBatch) -> Result<(), WriteError> {
        let rows: Vec<_> = { batch.rows.into_iter() }
            .map(|read| self.row(read))
            .collect();
        self.writer.write(&rows)?;
        self.writer.trailer(&batch.trailer);
        Ok(())
    }

    fn row(&mut self, read: ReadRow) -> DoneRow {
        let ReadRow {
            row,
            request,
            asked,
        } = read;
        self.stats.rows.read += 1;
        let verdict = match request.and_then(|_| score_of(&row, self.layout)) {
            Err(failure) => {
                self.stats.rows.unreadable(row.number, failure.reason);
                Verdict::Failed(failure)
            }
            Ok(None) => {
                self.stats.rows.without_verdict += 1;
                Verdict::Failed(Failure::new(Reason::NoAnswer, "the row has no score"))
            }
            Ok(Some(score)) => {
                let level = asked
                    .first()
                    .map(|span| self.layout.value(row.slice(*span)));
                let (answer, decision) = self.decide(score, level.as_deref());
                if let Some(decision) = decision {
                    self.stats.decisions.count(decision);
                }
                Verdict::Scored(answer, decision)
            }
        };
        DoneRow {
            row,
            verdict,
            old: None,
        }
    }

    /// The decision about a row with this score and this level, as the level is written or as the service gave it: in a cell,
    /// a run puts a quote before what a spreadsheet would take for a formula.
    fn decide(&self, score: Score, level: Option<&str>) -> (Answer, Option<Decision>) {
        let given = level.map(|written| {
            let protected = written.strip_prefix('\'').filter(|text| is_formula(text));
            protected.unwrap_or(written)
        });
        let json = given.map(|level| serde_json::Value::from(level).to_string().into());
        let answer = Answer {
            // The row keeps its own.
            transaction_id: TransactionId::default(),
            score,
            captured: Box::new([json]),
        };
        let as_written = match (&self.policy, level) {
            (DecisionPolicy::Level { levels, .. }, Some(level)) => levels.decide(level),
            _ => None,
        };
        let decision = as_written.or_else(|| self.policy.decide(&answer));
        (answer, decision)
    }

    /// What was counted, and the files.
    fn end(mut self) -> (DecideStats, RowFiles) {
        self.stats.drift = self.writer.take_drift();
        self.stats.unknown_levels = self.writer.take_unknown_levels();
        (self.stats, self.writer.into_files())
    }
}

/// The files that are written: checked before the input is read, opened when it is known to be a scored file.
struct DecideFiles {
    /// `None` is standard output.
    output: Option<Target>,
    changes: Option<Target>,
    summary: Option<PathBuf>,
}

impl DecideFiles {
    /// Checks the files.
    ///
    /// # Errors
    /// Exit code 2: two of them are one file, or one exists and may not be replaced, or cannot be made there.
    fn check(config: DecideOutput, input: &Input) -> Result<Self> {
        let DecideOutput {
            path,
            changes,
            summary,
            overwrite,
        } = config;
        let mut files = Vec::from_iter(NamedFile::input(input));
        files.extend(path.as_deref().map(NamedFile::output));
        let named = |path| NamedFile::partial("changes", path);
        files.extend(changes.as_deref().map(named));
        let named = |path| NamedFile::new("summary", path);
        files.extend(summary.as_deref().map(named));
        refuse_clashes(&files)?;
        let target = |path: PathBuf| {
            let mut real = path.clone();
            let target = Target::new(&path, |followed: &Path| {
                followed.clone_into(&mut real);
                Replace::by(overwrite)
            });
            target.map_err(|error| naming_the_other_run(error, &real))
        };
        Ok(Self {
            output: path.map(target).transpose()?,
            changes: changes.map(target).transpose()?,
            summary,
        })
    }

    /// The files that are there under another name until they are complete.
    fn partial(&self) -> Vec<PathBuf> {
        let files = [&self.output, &self.changes].into_iter().flatten();
        files.filter_map(Target::partial).collect()
    }

    /// Opens the files for rows with this layout. Only those who can read the input may read them.
    ///
    /// # Errors
    /// Exit code 2: a file has the name of another format, or cannot be made. Exit code 3: the disk is full.
    fn open(self, layout: &Layout, mode: u32) -> Result<(RowFiles, Option<SummaryFile>)> {
        let (output, changes) = (self.output.as_ref(), self.changes.as_ref());
        for (flag, target) in [("--output", output), ("--changes", changes)] {
            if let Some(target) = target.filter(|target| !target.is_special()) {
                check_name(flag, target.path(), layout.format)?;
            }
        }
        let summary = self.summary.map(|path| SummaryFile::create(&path, mode));
        // Next to an output whose mode was narrowed by hand, the changes are as narrow.
        let beside = mode & output.and_then(Target::mode).unwrap_or(mode);
        let open = |target: &Target| {
            let opened = target.open(mode);
            opened.map_err(|error| naming_the_other_run(error, target.path()))
        };
        let output = output.map_or_else(OutputFile::stdout, open)?;
        let changes = changes.map(|target| target.open(beside)).transpose()?;
        Ok((RowFiles::new(output, None, changes), summary.transpose()?))
    }
}
