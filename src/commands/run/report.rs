//! The last phase: says how the run went, in files and in words, and then ends it in its ledger. A run that is killed before
//! is continued by the same command, which writes all of this again.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use super::super::files::SummaryFile;
use super::drive::DrivenRun;
use super::left_files::LeftFiles;
use super::page::CountedReport;
use super::prepare::Context;
use crate::base::error::{Error, Exit};
use crate::config::WatchConfig;
use crate::observe::{
    self, MetricsThread, RunEnded, RunLog, RunSummary, Style, WrittenFile, tell_error, warn,
};
use crate::telemetry::stats::Stats;

/// Writes the summary, says what ended the run early, and closes the ledger. Returns how the process should exit.
pub(super) fn report(driven: DrivenRun) -> Exit {
    let DrivenRun {
        context,
        ledger,
        files,
        events,
        metrics,
        signals,
    } = driven;
    let Context {
        identity,
        endpoint,
        stand_in,
        summary: summary_file,
        watch,
        report: document,
        metrics: _,
        log,
    } = context;
    let stats = events.with_stats(Clone::clone);
    let left = LeftFiles::new(files, &stats);
    let error = { left.error }.map(|error| ledger.explain(error, &stats));
    let ledger_left = ledger.settle(&stats);
    let output = still_there(left.output);
    let summary = RunSummary {
        identity: &identity,
        end: SystemTime::now(),
        error: error.as_ref(),
        stats: &stats,
        accepted: watch.accepted,
        elapsed: events.elapsed(),
        sandbox: stand_in.is_some(),
        tariff: watch.tariff.as_ref(),
        part: left.part,
        endpoint: Some(&endpoint.to_string()),
        input: left.input,
        files: left.files.as_deref(),
        output_is_gone: left.any && output.is_none(),
        output,
        rejects: still_there(left.rejects),
        changes: still_there(left.changes),
        ledger: ledger_left,
        sandbox_billed: stand_in.map(|stand_in| stand_in.stop().billed),
    };
    tell(&summary, summary_file, &watch);
    if let Some(document) = document {
        CountedReport::new(document, left.tally).finish(&left.name, &summary, &watch);
    }
    say_last(error.as_ref(), left.warnings.into_iter());
    let exit = watch.accepted.exit(&stats);
    end_for_machines(metrics, log, exit, &stats, events.elapsed());
    ledger.finish(&stats);
    signals.run_is_over();
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
fn say_last(error: Option<&Error>, warnings: impl Iterator<Item = String>) {
    error.into_iter().for_each(tell_error);
    warnings.for_each(|warning| warn(&warning));
}

/// The file, unless it was removed or moved during the run, perhaps with its directory.
fn still_there(file: Option<PathBuf>) -> Option<WrittenFile> {
    file.and_then(WrittenFile::at)
}

/// Shows the summary for people or for programs, and writes the one for `--summary`.
fn tell(summary: &RunSummary<'_>, file: Option<SummaryFile>, watch: &WatchConfig) {
    match watch.style {
        _ if watch.quiet => summary.warning().iter().for_each(|line| warn(line)),
        Style::Json => summary.say_line(),
        _ => observe::tell(&summary.text()),
    }
    if let Some(file) = file {
        file.write(|file| summary.write_json(file));
    }
}
