//! The last phase: closes the ledger and says how the run went. The summary comes last, as it covers everything before it.

use std::fs::File;
use std::path::{Path, PathBuf};

use super::drive::DrivenRun;
use super::ledger::LedgerEnd;
use super::left_files::LeftFiles;
use super::page::CountedReport;
use super::prepare::Context;
use crate::base::error::{Exit, system_words};
use crate::base::stderr::say;
use crate::config::WatchConfig;
use crate::observe::{RunSummary, Style};

/// Closes the ledger, writes the summary and says what ended the run early. Returns how the process should exit.
pub(super) fn report(driven: DrivenRun) -> Exit {
    let DrivenRun {
        context,
        ledger,
        files,
        events,
        metrics,
    } = driven;
    let Context {
        endpoint,
        stand_in,
        summary: summary_file,
        watch,
        report: document,
        metrics: _,
    } = context;
    let stats = events.with_stats(Clone::clone);
    let left = LeftFiles::new(files, &stats);
    let error = { left.error }.map(|error| ledger.explain(error, left.far, &stats));
    let LedgerEnd {
        kept,
        warning: left_over,
    } = ledger.close(&stats, left.any);
    let output = still_there(left.output);
    let summary = RunSummary {
        stats: &stats,
        elapsed: events.elapsed(),
        sandbox: stand_in.is_some(),
        tariff: watch.tariff.as_ref(),
        part: left.part,
        from_stdin: left.from_stdin,
        endpoint: &endpoint.to_string(),
        files: left.files.as_deref(),
        output_is_gone: left.any && output.is_none(),
        output,
        rejects: still_there(left.rejects),
        changes: still_there(left.changes),
        ledger: kept.filter(|kept| is_there(&kept.path)),
        sandbox_billed: stand_in.map(|stand_in| stand_in.stop().billed),
    };
    tell(&summary, summary_file, &watch);
    if let Some(document) = document {
        CountedReport::new(document, left.tally).finish(&left.name, &summary, &watch);
    }
    if let Some(error) = error {
        say(&error.report());
    }
    for warning in left_over.into_iter().chain(left.warnings) {
        say(&warning);
    }
    let exit = stats.exit();
    if let Some(metrics) = metrics {
        metrics.finish(exit);
    }
    exit
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
        _ if watch.quiet => summary.warnings().for_each(|line| say(&line)),
        Style::Json => say(&summary.json_line()),
        _ => say(&summary.text()),
    }
    if let Some(Err(failed)) = file.map(|file| summary.write_json(file)) {
        // The rows are safe, so this does not change the exit code.
        say(&format!(
            "warning: cannot write the summary: {}",
            system_words(&failed)
        ));
    }
}
