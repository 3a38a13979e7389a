//! The last phase: closes the ledger and says how the run went. The summary comes last, as it covers everything before it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::super::open_input::{IGNORED, InputFacts};
use super::drive::DrivenRun;
use super::ledger::LedgerEnd;
use super::page::{CountedReport, file_name};
use super::prepare::Context;
use super::rows::RowsEnd;
use crate::base::error::{Error, Exit, system_words};
use crate::config::WatchConfig;
use crate::input::Input;
use crate::observe::{
    self, MetricsThread, RunEnded, RunLog, RunSummary, Style, tell_error, warn, warn_of,
};
use crate::selection::Selection;
use crate::telemetry::event::InputEnd;
use crate::telemetry::stats::Stats;

/// Closes the ledger, writes the summary and says what ended the run early. Returns how the process should exit.
pub(super) fn report(driven: DrivenRun) -> Exit {
    let DrivenRun {
        context,
        ledger,
        file,
        events,
        metrics,
    } = driven;
    let (input, target, mut ended) = (file.input, file.output, file.rows);
    let Context {
        endpoint,
        stand_in,
        summary: summary_file,
        watch,
        report: document,
        metrics: _,
        log,
    } = context;
    let report = CountedReport::of(document, &mut ended);
    let RowsEnd { written, error, .. } = ended;
    let stats = events.with_stats(Clone::clone);
    let error = error.map(|error| ledger.explain(error, input.size_of_rows(), &stats));
    let was_there = written.output.is_some();
    let LedgerEnd {
        kept,
        warning: left_over,
    } = ledger.close(&stats, was_there);
    let output = still_there(written.output);
    let summary = RunSummary {
        stats: &stats,
        accepted: watch.accepted,
        elapsed: events.elapsed(),
        sandbox: stand_in.is_some(),
        tariff: watch.tariff.as_ref(),
        part: part(input.selection, &stats),
        from_stdin: input.source == Input::Stdin,
        endpoint: &endpoint.to_string(),
        output_is_gone: was_there && output.is_none(),
        output,
        rejects: still_there(written.rejects),
        changes: still_there(written.changes),
        ledger: kept.filter(|kept| is_there(&kept.path)),
        sandbox_billed: stand_in.map(|stand_in| stand_in.stop().billed),
    };
    tell(&summary, summary_file, &watch);
    if let Some(report) = report {
        let name = target.map_or_else(|| input.name(), |target| file_name(target.path()));
        report.finish(&name, &summary, &watch);
    }
    let unsynced = written.unsynced.as_deref().map(unsynced);
    let warnings = unsynced.into_iter().chain(of_input(&input, &stats));
    say_last(error.as_ref(), left_over.as_ref(), warnings);
    let exit = watch.accepted.exit(&stats);
    end_for_machines(metrics, log, exit, &stats, events.elapsed());
    exit
}

/// Leaves the end of the run in its metrics and its log.
fn end_for_machines(
    metrics: Option<MetricsThread>,
    log: Option<RunLog>,
    exit: Exit,
    stats: &Stats,
    elapsed: Duration,
) {
    if let Some(metrics) = metrics {
        metrics.finish(exit);
    }
    if let Some(log) = log {
        log.finish(RunEnded::of(stats, elapsed, exit));
    }
}

/// Says what ended the run early, then the warnings.
fn say_last(
    error: Option<&Error>,
    left_over: Option<&Error>,
    warnings: impl Iterator<Item = String>,
) {
    error.into_iter().for_each(tell_error);
    left_over.into_iter().for_each(warn_of);
    warnings.for_each(|warning| warn(&warning));
}

/// What the run took of its input, unless that turned out to be all of it.
fn part(selection: Selection, stats: &Stats) -> Option<Selection> {
    let whole = selection.is_everything() || stats.input_end == Some(InputEnd::Whole);
    (!whole).then_some(selection)
}

/// Warnings of what shows only at the end of the input.
fn of_input(input: &InputFacts, stats: &Stats) -> impl Iterator<Item = String> + use<> {
    let ignored = !input.ignored_at_start && input.ignored.any();
    let ignored = ignored.then(|| IGNORED.to_owned());
    let no_rows = stats.input_end.is_some() && stats.read == 0;
    let no_rows = no_rows.then(|| {
        let rows = part(input.selection, stats).unwrap_or_default();
        format!("{} has no rows", rows.of(&input.name()))
    });
    ignored.into_iter().chain(no_rows)
}

/// A warning that the names of files could not be made durable, as in a directory where we may only add files.
fn unsynced(directory: &Path) -> String {
    format!(
        "`{}` cannot be synced: the files in it are complete, but a power cut now may undo their names",
        directory.display()
    )
}

/// The file, unless it was removed during the run, perhaps with its directory.
fn still_there(file: Option<PathBuf>) -> Option<PathBuf> {
    file.filter(|file| is_there(file))
}

fn is_there(file: &Path) -> bool {
    file.symlink_metadata().is_ok()
}

/// Shows the summary for people or for programs, and writes the one for `--summary`.
fn tell(summary: &RunSummary<'_>, file: Option<File>, watch: &WatchConfig) {
    match watch.style {
        _ if watch.quiet => summary.warning().iter().for_each(|line| warn(line)),
        Style::Json => summary.say_line(),
        _ => observe::tell(&summary.text()),
    }
    if let Some(Err(failed)) = file.map(|file| summary.write_json(file)) {
        // The rows are safe, so this does not change the exit code.
        warn(&format!(
            "cannot write the summary: {}",
            system_words(&failed)
        ));
    }
}
