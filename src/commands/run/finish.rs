//! The end of a run: what became of its parts, and how it went, in files and in words; and then its end in the ledger. The same
//! command continues a run that is killed before that, and writes all of this again.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::open::{OpenPart, OpenParts};
use super::plan::{PartState, RunBase, RunPart, real_input};
use crate::analysis::RowTally;
use crate::base::error::{Error, Exit, Result};
use crate::base::meter::FileHashes;
use crate::base::text::display;
use crate::commands::files::full_disk;
use crate::commands::inputs::{no_rows, none_chosen, path_of};
use crate::commands::text::SummaryFile;
use crate::config::WatchConfig;
use crate::input::{Input, Opened, ReaderSettings};
use crate::ledger::{RunEnd, RunningLedger};
use crate::observe::{
    FileState, FileSummary, LedgerLeft, LogLine, MetricsThread, ReportedRun, RunIdentity,
    RunSummary, SizedFile, Style, end_log, ended_by, is_known, one_line, report_summary,
    sample_size, stamp, tell, tell_error, warn, warn_of,
};
use crate::output::{Document, DurableFile, Written, partial_of};
use crate::report::{Comparison, PageContent, ShownThresholds, page};
use crate::selection::Selection;
use crate::telemetry::counts::{Counts, Events, RowCounts};
use crate::telemetry::event::{CancelReason, InputEnd};

/// A run whose rows have ended.
pub(super) struct EndedRun {
    pub(super) base: RunBase,
    pub(super) identity: RunIdentity,
    pub(super) parts: EndedParts,
    /// `None` without a ledger, and where no row was to run.
    pub(super) ledger: Option<RunningLedger>,
    pub(super) events: Events,
    pub(super) metrics: Option<MetricsThread>,
    pub(super) summary: Option<SummaryFile>,
    pub(super) report: Option<Document>,
}

impl EndedRun {
    /// The rows of the next round, where a sample grows until enough is known: `None` once it is, or if the run was stopped.
    pub(super) fn next_round(&self) -> Option<Selection> {
        let selection = self.parts.selection;
        let precision = selection.precision.filter(|_| selection.sample.is_some())?;
        let counts = self.events.with_counts(Clone::clone);
        let requests = self.identity.expected.as_ref()?.sampled_requests;
        let size = sample_size(Some(selection), requests, &counts);
        let is_known = size.is_some_and(|size| is_known(&size, &counts.decisions, precision));
        let is_stopped = counts.cancelled.is_some() || counts.limited.is_some();
        (!is_known && !is_stopped).then(|| selection.next_round())
    }

    /// Writes the summary and the report, tells what ended the run early, and ends the run in its ledger. Returns how the process
    /// should exit.
    pub(super) fn finish(self) -> Exit {
        let (base, mut parts, ledger) = (self.base, self.parts, self.ledger);
        let watch = &base.config.watch;
        let accepted = base.config.count.budget.accept_failures;
        let counts = self.events.with_counts(Clone::clone);
        let counts_now = || counts.as_of(self.events.elapsed(), self.identity.tariff.as_ref());
        let exit = match counts.accepted(accepted) {
            Some(_) => Exit::Complete,
            None => counts.exit(),
        };
        let is_remembered = ledger.is_some() && base.lock.is_some();
        let error = parts.error.take();
        let error = error.map(|error| explain(error, is_remembered, &counts));
        let (tally, first_input) = (parts.tally.take(), parts.first_input.take());
        let left = ledger.as_ref().map(|ledger| close(ledger, &counts));
        let is_all =
            parts.selection.is_everything() || counts.state.input_end == Some(InputEnd::Whole);
        let summary = RunSummary {
            error: error.as_ref().map(ended_by),
            accepted,
            part: (!is_all).then_some(parts.selection),
            ledger: left.unwrap_or(LedgerLeft::Nothing),
            sandbox_billed: base.stand_in.map(|stand_in| stand_in.stop().billed),
            ..parts.summary(RunSummary::new(&self.identity, counts_now(), exit))
        }
        .with_sample();
        tell_summary(&summary, self.summary, watch);
        let words = [summary.text()].into_iter();
        let words: Vec<_> = words.chain(error.as_ref().map(Error::in_a_line)).collect();
        report_summary(&words.join("\n"), &summary);
        if let Some(report) = self.report {
            let tally = tally.filter(|_| counts.cancelled.is_none());
            // The ledger remembers the report, so that the same command replaces it.
            let record = recorder(ledger.as_ref(), first_input);
            finish_report(report, tally, &summary, watch, record);
        }
        error.iter().for_each(tell_error);
        let is_whole = counts.has_all_rows();
        let none_chosen = is_whole.then(|| none_chosen(counts.rows.resolved, counts.passed));
        let warnings = parts.warnings.iter().chain(none_chosen.iter().flatten());
        warnings.for_each(|warning| warn(warning));
        if let Some(metrics) = self.metrics {
            metrics.finish(exit);
        }
        let last = LogLine::RunEnded {
            exit_code: exit.code(),
            counts: Box::new(counts_now()),
        };
        if let Some(lacks) = end_log(last) {
            warn(&lacks);
        }
        // The last act: the same command continues a run that is killed before, and makes no call for a row that has its
        // verdict.
        if let Some(ledger) = ledger {
            ledger.finish(patience(&counts));
        }
        drop(base.lock);
        exit
    }
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

/// Writes the page of `--report`, about the rows as the writer saw them and the run as its summary describes it. Only a finished
/// run has a page: one about a part of the rows would be taken for the whole.
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
    // Without its directory, which does not belong in a page that is passed on.
    let about = summary.output.as_ref().unwrap_or(&summary.input);
    let name = about.path.as_deref().and_then(Path::file_name);
    let name = name.map_or("standard input".into(), |name| name.to_string_lossy());
    // The summary's JSON is documented, and has all about the run.
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
    Ok(path.as_deref().map(display).unwrap_or_default())
}

/// What became of the parts of a run.
pub(super) struct EndedParts {
    all: Vec<FileSummary>,
    /// The directory of several outputs.
    directory: Option<PathBuf>,
    /// Which rows of each input the run took.
    selection: Selection,
    /// The path of the only input, if it has one.
    input: Option<PathBuf>,
    /// The size of all inputs, if it is known.
    input_bytes: Option<u64>,
    /// The path of the first input with links followed; `None` for a stream.
    first_input: Option<PathBuf>,
    changes: Option<PathBuf>,
    /// The error that ended the run early, if there is one.
    pub(super) error: Option<Error>,
    /// Warnings that are known only at the end.
    warnings: Vec<String>,
    /// The writer's counts for the report; `None` if they are lost.
    pub(super) tally: Option<Box<RowTally>>,
}

impl EndedParts {
    /// No part has run yet.
    pub(super) fn of(parts: &OpenParts) -> Self {
        let only = parts.only().map(|part| &part.input.file.input);
        let any = parts.to_run().next().is_some();
        Self {
            all: Vec::with_capacity(parts.all.len()),
            directory: parts.directory.clone(),
            selection: parts.selection(),
            input: only.and_then(Input::path).map(Into::into),
            input_bytes: parts.size().filter(|_| any),
            first_input: parts.all.first().and_then(|part| real_input(&part.input)),
            changes: None,
            error: None,
            warnings: Vec::new(),
            tally: None,
        }
    }

    /// The summary with what became of the files.
    fn summary<'a>(&'a self, summary: RunSummary<'a>) -> RunSummary<'a> {
        let path = self.all.iter().find_map(|part| part.output.as_deref());
        // Of several outputs their directory.
        let path = path.and(self.directory.as_deref()).or(path);
        let output = path.and_then(SizedFile::at);
        let only = self.all.first().filter(|_| self.directory.is_none());
        let rejects = only.and_then(|part| part.rejects.as_deref());
        RunSummary {
            input: SizedFile {
                path: self.input.clone(),
                bytes: self.input_bytes,
            },
            files: self.directory.as_ref().map(|_| &*self.all),
            output_is_gone: path.is_some() && output.is_none(),
            output,
            rejects: rejects.and_then(SizedFile::at),
            changes: self.changes.as_deref().and_then(SizedFile::at),
            blake3: only.map_or_else(FileHashes::default, |part| part.blake3.clone()),
            ..summary
        }
    }

    /// A part whose rows did not run.
    pub(super) fn add_unrun(&mut self, part: RunPart<PartState<OpenPart>>) {
        let unrun = |state| without_output(&part.input, state);
        self.all.push(match part.state {
            PartState::Run(_) => unrun(FileState::Left),
            PartState::Finished { rejects } => FileSummary {
                output: part.output,
                rejects,
                ..unrun(FileState::Skipped)
            },
            PartState::Unusable(error) => FileSummary {
                error: Some(error.in_a_line()),
                ..unrun(FileState::Failed)
            },
        });
    }

    /// A part that cannot be used, and why.
    pub(super) fn add_failed(&mut self, input: &ReaderSettings, error: String) {
        self.all.push(FileSummary {
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
            self.input_bytes = opened.size.or(Some(counts.state.position));
        }
        // Of an input without rows, the first ones are all.
        let selection = Selection {
            limit: None,
            ..input.selection
        };
        let name = selection.of(&input.file.input.display());
        let resolved = if is_whole { rows.resolved } else { u64::MAX };
        self.warnings.extend(no_rows(&name, resolved));
        // As in a directory to which rescore may only add files.
        self.warnings.extend(written.unsynced.map(|directory| {
            format!(
                "`{}` cannot be synced: the files in it are complete, but a power cut now may undo their names",
                directory.display()
            )
        }));
        self.warnings.dedup();
        self.changes = written.changes;
        self.all.push(FileSummary {
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

/// How long closing the ledger may take when a service manager waits: a run must end within 30 s.
const TERMINATED_CLOSE: Duration = Duration::from_millis(1_500);
/// How long it may take otherwise: a large log is merged into the database first. Ctrl-C ends the wait.
const LEDGER_CLOSE: Duration = Duration::from_secs(60);

/// Records in the ledger, if there is one, how the run over this input is about to leave its files.
pub(super) fn recorder(
    ledger: Option<&RunningLedger>,
    input: Option<PathBuf>,
) -> impl Fn(&[DurableFile]) + use<> {
    let record = ledger.map(RunningLedger::recorder);
    move |files| {
        let Some(record) = &record else {
            return;
        };
        // A file keeps its partial name if another program has put a file at its path.
        let partial = |(path, state): &DurableFile| (partial_of(path), state.clone());
        let files: Vec<_> = files
            .iter()
            .cloned()
            .chain(files.iter().map(partial))
            .collect();
        record(&files, input.as_deref());
    }
}

/// What ended the run early, with what to do. A run without a ledger, or to a stream, is not remembered.
pub(super) fn explain(error: Error, is_remembered: bool, counts: &Counts) -> Error {
    match counts.cancelled {
        Some(CancelReason::MaxCalls | CancelReason::MaxCost) => error.or_hint(if is_remembered {
            "the budget is for all starts of the run: the same command with a higher one, or without it, continues"
        } else {
            "without a ledger, and to standard output, each start writes all rows and has the whole budget"
        }),
        Some(CancelReason::Until | CancelReason::MaxTime) if !is_remembered => {
            error.hint("without a ledger, and to standard output, each start writes all rows")
        }
        _ => full_disk(error),
    }
}

/// Waits until everything in the ledger is durable, once its writer is gone. Returns its state.
pub(super) fn close(ledger: &RunningLedger, counts: &Counts) -> LedgerLeft {
    ledger.wait_until_stored(patience(counts));
    let path = ledger.path().to_owned();
    if ledger.is_gone() {
        LedgerLeft::Gone
    } else if counts.cancelled == Some(CancelReason::Ledger) && ledger.is_damaged() {
        LedgerLeft::Damaged(path)
    } else {
        LedgerLeft::Kept(path)
    }
}

/// How the run has ended, for the ledger.
pub(super) fn run_end(counts: &Counts) -> RunEnd {
    let is_part = counts.state.input_end == Some(InputEnd::Part);
    let unfinished = [counts.cancelled, counts.limited, counts.state.file_failed];
    if is_part || unfinished.iter().any(Option::is_some) {
        return RunEnd::Stopped;
    }
    RunEnd::Finished {
        failed: counts.failed.rows + counts.state.skipped_with_rejects,
    }
}

/// How long closing the ledger may take.
pub(super) const fn patience(counts: &Counts) -> Duration {
    if counts.state.terminated {
        TERMINATED_CLOSE
    } else {
        LEDGER_CLOSE
    }
}
