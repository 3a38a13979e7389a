//! `rescore decide`: new decisions for a scored file, without a call.
//!
//! A reader's thread finds the verdict in each row; the thread that called decides, and either writes the rows again or
//! counts what other thresholds would do. Nothing is guessed: a row that is not as rescore writes it stays as it is.

use std::path::PathBuf;

use tokio::time::Instant;

use super::files::{Targets, check_name, refuse_clashes};
use super::inputs::{
    open_scored, outcome_of, read_ahead, read_summary, refuse_other_run, value_of, warn_if_empty,
};
use super::signals::StopSignals;
use super::text::{SummaryFile, print};
use crate::analysis::WhatIf;
use crate::base::error::{Error, Exit, Result};
use crate::config::{AskedThresholds, DecideConfig, DecideOutput, DecideTask};
use crate::input::{FileSettings, refuse_missing};
use crate::layout::{DECISION_COLUMN, Layout, SCORE_COLUMN};
use crate::observe::{DecideSummary, ReportedRun, ScoredRows, WhatIfView, tell, warn};
use crate::output::{Replace, RowFiles, Target, WriteError, Writer, Written};
use crate::row_state::{Row, RowBatch, RowState};
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
    refuse_missing(&file.input)?;
    let signals = StopSignals::start(false)?;
    match task {
        DecideTask::Rewrite {
            policy,
            level,
            output,
        } => rewrite(&file, &prefix, policy, level, &output, &signals),
        DecideTask::WhatIf { asked, json } => what_if(&file, &prefix, &asked, json),
    }
}

/// Writes the file with new decisions. All other bytes stay as they are.
fn rewrite(
    file: &FileSettings,
    prefix: &str,
    policy: DecisionPolicy,
    level: Option<String>,
    places: &DecideOutput,
    signals: &StopSignals,
) -> Result<Exit> {
    let started = Instant::now();
    let written = [
        ("output", places.output.as_deref()),
        ("changes", places.changes.as_deref()),
        ("summary", places.summary.as_deref()),
    ];
    refuse_clashes(&file.input, &written)?;
    let replace = Replace::by(places.overwrite);
    let target = |path: &Option<PathBuf>| {
        let target = path.as_ref().map(|path| Target::new(path, replace));
        target.transpose()
    };
    let targets = Targets {
        output: target(&places.output)?,
        changes: target(&places.changes)?,
        ..Targets::default()
    };
    let (reader, opened) = open_scored(file, prefix, level.iter().cloned().collect())?;
    for (flag, target) in [
        ("--output", &targets.output),
        ("--changes", &targets.changes),
    ] {
        if let Some(target) = target.as_ref().filter(|target| !target.is_special()) {
            check_name(flag, target.path(), opened.layout.format)?;
        }
    }
    let summary_file = places.summary.as_deref();
    let summary_file = summary_file.map(|path| SummaryFile::create(path, opened.readers));
    let summary_file = summary_file.transpose()?;
    let open = |target: &Target, readers| signals.open(target, readers);
    let files = targets.open_with(opened.readers, open)?;
    let mut layout = opened.layout.clone();
    layout.columns.only_decisions = true;
    let mut stage = Decider {
        writer: Writer::new(layout, policy.clone(), files),
        policy,
        layout: &opened.layout,
        summary: DecideSummary::new(level),
    };
    let mut batches = read_ahead(reader)?.into_iter();
    let passed = batches.try_for_each(|batch| stage.batch(batch.map_err(WriteError::Failed)?));
    let (mut summary, files) = stage.end();
    let written = match end_files(passed, &summary, files) {
        Ok(written) => written,
        // The reader of standard output has gone away, which is not an error.
        Err(WriteError::Closed) => return Ok(Exit::Stopped),
        Err(WriteError::Failed(error)) => return Err(error),
    };
    let exit = summary.exit();
    (summary.exit_code, summary.elapsed) = (exit.code(), started.elapsed());
    (summary.output, summary.changes) = (written.output, written.changes);
    if places.quiet {
        summary.problems().for_each(|problem| warn(&problem));
    } else {
        tell(&summary.text());
    }
    if let Some(file) = summary_file {
        file.write(&summary);
    }
    warn_if_empty(&opened.name, summary.scored.rows);
    Ok(exit)
}

/// Gives the files their names once all rows are written and the numbers add up; otherwise nothing of them is left.
fn end_files(
    passed: Result<(), WriteError>,
    summary: &DecideSummary,
    files: RowFiles,
) -> Result<Written, WriteError> {
    let checked = passed.and_then(|()| {
        summary.check_invariants().map_err(|numbers| {
            WriteError::Failed(Error::internal(numbers).hint("this is a bug in rescore"))
        })
    });
    if let Err(error) = checked {
        files.discard();
        return Err(error);
    }
    let mut written = files.commit(|_| {});
    let error = written.error.take();
    error.map_or(Ok(written), |error| Err(*error))
}

/// Counts the scores and prints what each pair of thresholds would do, from one pass that writes nothing.
fn what_if(file: &FileSettings, prefix: &str, asked: &AskedThresholds, json: bool) -> Result<Exit> {
    let run = asked.run.as_deref().map(read_summary).transpose()?;
    let outcome = asked.outcome.as_ref();
    let column = outcome.map(|outcome| outcome.column.clone());
    let (reader, opened) = open_scored(file, prefix, column.into_iter().collect())?;
    let layout = &opened.layout;
    let (mut what_if, mut scored) = (WhatIf::new(&asked.today), ScoredRows::default());
    for batch in read_ahead(reader)? {
        for row in batch?.rows {
            scored.rows += 1;
            let known = outcome.map(|is_bad| outcome_of(&value_of(&row, layout, 0), is_bad));
            match score_of(&row, layout) {
                Err(failure) => scored.count_unreadable(row.number, failure.reason),
                Ok(None) => scored.without_verdict += 1,
                Ok(Some(score)) => {
                    let decision = layout.value(row.raw.slice(row.raw.value_of(DECISION_COLUMN)));
                    what_if.count(
                        &score,
                        Decision::of_word(&decision),
                        known.unwrap_or_default(),
                    );
                }
            }
        }
    }
    warn_if_empty(&opened.name, scored.rows);
    if let Some(run) = &run {
        refuse_other_run(run, scored.rows, &opened.name)?;
    }
    // Other thresholds than the usual ones are meant.
    if asked.today == Thresholds::default() {
        what_if.read_thresholds();
    }
    let view = WhatIfView {
        what_if: &what_if,
        rows: &scored,
        outcome: outcome.map(|outcome| &*outcome.column),
        catch: asked.catch,
        sample: run.as_ref().and_then(ReportedRun::sample),
        tariff: run.as_ref().and_then(ReportedRun::tariff),
    };
    print(&if json {
        view.json()
    } else {
        view.text(&file.input.display())
    })?;
    Ok(match scored.unreadable() {
        0 => Exit::Complete,
        _ => Exit::SomeFailed,
    })
}

/// The score of a row; `None` if it failed in the run.
fn score_of(row: &Row, layout: &Layout) -> Result<Option<Score>, Failure> {
    if let RowState::Invalid(failure) = &row.state {
        return Err(failure.clone());
    }
    let foreign = |message| Failure::new(Reason::ExistingColumns, message);
    let value = |column| layout.value(row.raw.slice(row.raw.value_of(column)));
    let score = value(SCORE_COLUMN);
    if !score.is_empty() {
        return Score::from_json_number(&score).map(Some).map_err(foreign);
    }
    // A decision that has no score is not ours to remove.
    match Decision::of_word(&value(DECISION_COLUMN)) {
        None => Ok(None),
        Some(_) => Err(foreign("a decision without a score")),
    }
}

/// Decides rows and passes them on to the writer.
struct Decider<'a> {
    policy: DecisionPolicy,
    layout: &'a Layout,
    writer: Writer,
    summary: DecideSummary,
}

impl Decider<'_> {
    fn batch(&mut self, mut batch: RowBatch) -> Result<(), WriteError> {
        for row in &mut batch.rows {
            let verdict = self.verdict(row);
            row.state = RowState::Done { verdict, old: None };
        }
        self.writer.write(&batch.rows)?;
        self.writer.trailer(&batch.trailer);
        Ok(())
    }

    fn verdict(&mut self, row: &Row) -> Verdict {
        let scored = &mut self.summary.scored;
        scored.rows += 1;
        match score_of(row, self.layout) {
            Err(failure) => {
                scored.count_unreadable(row.number, failure.reason);
                Verdict::Failed(failure)
            }
            Ok(None) => {
                scored.without_verdict += 1;
                Verdict::Failed(Failure::new(Reason::NoAnswer, "the row has no score"))
            }
            Ok(Some(score)) => {
                let decision = self.decide(&score, &value_of(row, self.layout, 0));
                match decision {
                    Some(_) => self.summary.decisions.count(decision),
                    None => self.summary.undecided.count(row.number),
                }
                let answer = Answer {
                    // The row keeps its own.
                    transaction_id: TransactionId::default(),
                    score,
                    captured: Box::default(),
                };
                Verdict::Scored(answer, decision)
            }
        }
    }

    /// The decision about a row with this score and this level, as the level is written or as the service gave it: in a cell,
    /// a run puts a quote before what a spreadsheet would take for a formula.
    fn decide(&self, score: &Score, level: &str) -> Option<Decision> {
        match &self.policy {
            DecisionPolicy::Score(thresholds) => Some(thresholds.decide(score)),
            DecisionPolicy::Level { levels, .. } => levels.decide(level).or_else(|| {
                let given = level.strip_prefix('\'').filter(|text| is_formula(text));
                levels.decide(given?)
            }),
        }
    }

    /// What was counted, and the files.
    fn end(mut self) -> (DecideSummary, RowFiles) {
        self.summary.drift = self.writer.take_drift();
        (self.summary, self.writer.into_files())
    }
}
