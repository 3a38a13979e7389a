//! The last phase: what became of the files of the run. It says how the run went, in files and in words, and then ends it in
//! its ledger. A run that is killed before is continued by the same command, which writes all of this again.

use std::path::{Path, PathBuf};

use super::files::{Files, PartState, RunPart};
use super::ledger::{close, explain, patience, recorder};
use super::prepare::PreparedRun;
use crate::analysis::RowTally;
use crate::base::error::{Error, Exit, Result};
use crate::base::meter::FileHashes;
use crate::base::text::shown;
use crate::commands::inputs::{no_rows, none_chosen, path_of};
use crate::commands::text::SummaryFile;
use crate::config::WatchConfig;
use crate::input::{Input, Opened, ReaderSettings};
use crate::ledger::RunningLedger;
use crate::observe::{
    FileState, FileSummary, LedgerLeft, LogLine, MetricsThread, ReportedRun, RunSummary, SizedFile,
    Style, end_log, ended_by, one_line, stamp, tell, tell_error, warn, warn_of,
};
use crate::output::{Document, DurableFile, Written};
use crate::report::{Comparison, PageContent, ShownThresholds, page};
use crate::selection::Selection;
use crate::telemetry::counts::{Counts, RowCounts};
use crate::telemetry::event::InputEnd;
use crate::telemetry::hub::Events;

/// Writes the summary, says what ended the run early, and closes the ledger, if there is one and rows were to run. Returns how
/// the process should exit.
pub(super) fn finish(
    run: PreparedRun,
    mut ended: EndedFiles,
    ledger: Option<RunningLedger>,
    events: &Events,
    metrics: Option<MetricsThread>,
) -> Exit {
    let (files, watch, identity) = (run.files, run.config.watch, run.identity);
    let accepted = run.config.budget.accept_failures;
    let counts = events.with_counts(Clone::clone);
    let shown_counts = || counts.as_of(events.elapsed(), identity.tariff.as_ref());
    let exit = match counts.accepted(accepted) {
        Some(_) => Exit::Complete,
        None => counts.exit(),
    };
    let is_remembered = ledger.is_some() && run.lock.is_some();
    let error = ended.error.take();
    let error = error.map(|error| explain(error, is_remembered, &counts));
    let left = ledger.as_ref().map(|ledger| close(ledger, &counts));
    let input = std::mem::take(&mut ended.input);
    let is_all = files.selection.is_everything() || counts.state.input_end == Some(InputEnd::Whole);
    let tally = ended.tally.take();
    let output = ended.output().and_then(SizedFile::at);
    let summary = RunSummary {
        error: error.as_ref().map(ended_by),
        accepted,
        part: (!is_all).then_some(files.selection),
        input,
        files: ended.directory.as_ref().map(|_| &*ended.parts),
        output_is_gone: ended.output().is_some() && output.is_none(),
        output,
        rejects: ended.rejects().and_then(SizedFile::at),
        changes: ended.changes.as_deref().and_then(SizedFile::at),
        blake3: ended
            .only()
            .map_or_else(FileHashes::default, |part| part.blake3.clone()),
        ledger: left.unwrap_or(LedgerLeft::Nothing),
        sandbox_billed: run.stand_in.map(|stand_in| stand_in.stop().billed),
        ..RunSummary::new(&identity, shown_counts(), exit)
    };
    tell_summary(&summary, files.summary, &watch);
    if let Some(report) = files.report {
        let tally = tally.filter(|_| counts.cancelled.is_none());
        // The ledger remembers the report, so that the same command replaces it.
        let record = recorder(ledger.as_ref(), ended.real_input.take());
        finish_report(report, tally, &summary, &watch, record);
    }
    error.iter().for_each(tell_error);
    let is_whole = counts.has_all_rows();
    let none_chosen = is_whole.then(|| none_chosen(counts.rows.resolved, counts.passed));
    let warnings = ended.warnings.iter().chain(none_chosen.iter().flatten());
    warnings.for_each(|warning| warn(warning));
    if let Some(metrics) = metrics {
        metrics.finish(exit);
    }
    let last = LogLine::RunEnded {
        exit_code: exit.code(),
        counts: Box::new(shown_counts()),
    };
    if let Some(lacks) = end_log(last) {
        warn(&lacks);
    }
    // The last act: the same command continues a run that is killed before, and makes no call for a row that has its verdict.
    if let Some(ledger) = ledger {
        ledger.finish(patience(&counts));
    }
    drop(run.lock);
    run.signals.run_is_over();
    exit
}

/// Shows the summary for people or for programs, and writes the one for `--summary`.
fn tell_summary(summary: &RunSummary<'_>, file: Option<SummaryFile>, watch: &WatchConfig) {
    match watch.style {
        _ if watch.quiet => summary.warning().iter().for_each(|line| warn(line)),
        Style::Json => summary.say_line(),
        _ => tell(&summary.text()),
    }
    if let Some(file) = file {
        file.write(summary);
    }
}

/// Writes the page of `--report`: the rows as the writer saw them, and the run as its summary describes it. Only a finished
/// run has one: a page about a part of the rows would be taken for the whole.
fn finish_report(
    document: Document,
    tally: Option<Box<RowTally>>,
    summary: &RunSummary<'_>,
    watch: &WatchConfig,
    record: impl FnOnce(&[DurableFile]),
) {
    let Some(tally) = tally else {
        if watch.shows_text() {
            tell("         no report: it is written when the run is finished");
        }
        return;
    };
    match write_report(document, *tally, summary, record) {
        Ok(path) if watch.shows_text() => tell(&format!("         wrote {path}: the report")),
        Ok(_) => {}
        // The rows are safe, so this does not change the exit code.
        Err(error) => warn_of(&error),
    }
}

fn write_report(
    document: Document,
    tally: RowTally,
    summary: &RunSummary<'_>,
    record: impl FnOnce(&[DurableFile]),
) -> Result<String> {
    // Without its directory, which has no place in a page that is passed on.
    let about = summary.output.as_ref().unwrap_or(&summary.input);
    let name = about.path.as_deref().and_then(Path::file_name);
    let name = name.map_or("standard input".into(), |name| name.to_string_lossy());
    // The summary's JSON is documented, and all that is known of the run is in it.
    let run = ReportedRun::parse(&one_line(summary))
        .map_err(|why| Error::internal(format!("cannot read the summary back: {why}")))?;
    let content = PageContent {
        file: name.into_owned(),
        made: stamp(),
        sandbox: run.sandbox,
        comparison: (tally.drift.decisions.compared > 0).then_some(Comparison::Own),
        tally,
        groups: Vec::new(),
        run: Some(run),
        redecided: false,
        thresholds: ShownThresholds::default(),
    };
    let path = document.complete(&page(&content), record)?;
    Ok(path.as_deref().map(shown).unwrap_or_default())
}

/// What became of the files of a run.
pub(super) struct EndedFiles {
    /// What became of each part.
    pub(super) parts: Vec<FileSummary>,
    /// The directory of several outputs.
    pub(super) directory: Option<PathBuf>,
    /// The only input, or the size of several.
    pub(super) input: SizedFile,
    pub(super) changes: Option<PathBuf>,
    /// The path of the first input with links followed; `None` for a stream.
    pub(super) real_input: Option<PathBuf>,
    /// The error that ended the run early, if there is one.
    pub(super) error: Option<Error>,
    /// Warnings that are known only at the end.
    pub(super) warnings: Vec<String>,
    /// The writer's counts for the report; `None` if they are lost.
    pub(super) tally: Option<Box<RowTally>>,
}

impl EndedFiles {
    /// No part has run yet.
    pub(super) fn of(files: &Files) -> Self {
        let only = files.only().map(|part| &part.input.file.input);
        let any = files.to_run().next().is_some();
        Self {
            input: SizedFile {
                path: only.and_then(Input::path).map(Into::into),
                bytes: files.size().filter(|_| any),
            },
            parts: Vec::with_capacity(files.parts.len()),
            directory: files.directory.clone(),
            changes: None,
            real_input: None,
            error: None,
            warnings: Vec::new(),
            tally: None,
        }
    }

    /// A part whose rows did not run.
    pub(super) fn add_unrun(&mut self, part: RunPart) {
        let (state, error) = match part.state {
            PartState::None | PartState::Run(_) => (FileState::Left, None),
            PartState::Skip => (FileState::Skipped, None),
            PartState::Unusable(error) => (FileState::Failed, Some(error.in_a_line())),
        };
        let is_there = state == FileState::Skipped;
        self.parts.push(FileSummary {
            output: part.output.filter(|_| is_there),
            rejects: part.rejects.filter(|_| is_there),
            error,
            ..without_output(&part.input, state)
        });
    }

    /// A part that cannot be used, and why.
    pub(super) fn add_failed(&mut self, input: &ReaderSettings, error: String) {
        self.parts.push(FileSummary {
            error: Some(error),
            ..without_output(input, FileState::Failed)
        });
    }

    /// A part whose rows ran, and the counts after them. `error` says why it broke.
    pub(super) fn add_run(
        &mut self,
        input: &ReaderSettings,
        opened: &Opened,
        written: Written,
        rows: RowCounts,
        counts: &Counts,
        error: Option<&Error>,
    ) {
        let is_whole = counts.has_all_rows();
        let ended = match (is_whole, &written.output, error) {
            (true, ..) => FileState::Finished,
            (false, Some(_), _) => FileState::Partial,
            (false, None, Some(_)) => FileState::Failed,
            (false, None, None) => FileState::Left,
        };
        if self.directory.is_none() {
            self.input.bytes = opened.size.or(Some(counts.state.position));
        }
        // Of an input without rows, the first ones are all.
        let selection = Selection {
            limit: None,
            ..input.selection
        };
        let name = selection.of(&input.file.input.shown());
        let resolved = if is_whole { rows.resolved } else { u64::MAX };
        self.warnings.extend(no_rows(&name, resolved));
        // As in a directory where we may only add files.
        self.warnings.extend(written.unsynced.map(|directory| {
            format!(
                "`{}` cannot be synced: the files in it are complete, but a power cut now may undo their names",
                directory.display()
            )
        }));
        self.warnings.dedup();
        self.changes = written.changes;
        self.parts.push(FileSummary {
            output: written.output,
            rejects: written.rejects,
            blake3: FileHashes {
                input: opened.meter.hash().filter(|_| is_whole),
                ..*written.hashes
            },
            rows,
            error: error.map(Error::in_a_line),
            ..without_output(input, ended)
        });
    }

    /// The output, complete or partial, or the directory of several; `None` for standard output.
    pub(super) fn output(&self) -> Option<&Path> {
        let output = self.parts.iter().find_map(|part| part.output.as_deref());
        output.and(self.directory.as_deref()).or(output)
    }

    /// The rows without a verdict of the only output.
    pub(super) fn rejects(&self) -> Option<&Path> {
        self.only()?.rejects.as_deref()
    }

    /// The part of a run that has only one.
    fn only(&self) -> Option<&FileSummary> {
        self.parts.first().filter(|_| self.directory.is_none())
    }
}

fn without_output(input: &ReaderSettings, state: FileState) -> FileSummary {
    FileSummary {
        input: path_of(input).to_owned(),
        output: None,
        rejects: None,
        state,
        blake3: FileHashes::default(),
        rows: RowCounts::default(),
        error: None,
    }
}
