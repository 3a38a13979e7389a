//! The last phase: says how the run went, in files and in words, and then ends it in its ledger. A run that is killed before
//! is continued by the same command, which writes all of this again.

use std::time::SystemTime;

use super::super::files::SummaryFile;
use super::drive::DrivenRun;
use super::ended_files::EndedFiles;
use super::prepare::Context;
use crate::analysis::RowTally;
use crate::base::error::{Error, Exit, Result, shown};
use crate::config::WatchConfig;
use crate::observe::{
    LogLine, RunSummary, SizedFile, Style, stamp, tell, tell_error, warn, warn_of,
};
use crate::output::Document;
use crate::report::{Comparison, PageContent, RunFacts, page};

/// Writes the summary, says what ended the run early, and closes the ledger. Returns how the process should exit.
pub(super) fn finish(driven: DrivenRun) -> Exit {
    let DrivenRun {
        context,
        ledger,
        mut files,
        events,
        metrics,
        signals,
    } = driven;
    let Context {
        identity,
        endpoint: _,
        stand_in,
        watch,
        metrics: _,
        log,
    } = context;
    let counts = events.with_counts(Clone::clone);
    let shown_counts = || counts.as_of(events.elapsed(), identity.tariff.as_ref());
    let exit = watch.accepted.exit(&counts);
    let error = { files.error.take() }.map(|error| ledger.explain(error, &counts));
    let left = ledger.settle(&counts);
    let input = std::mem::take(&mut files.input);
    let summary_file = files.summary.take();
    let (report, tally) = (files.report.take(), files.tally.take());
    let output = files.output().and_then(SizedFile::at);
    let summary = RunSummary {
        error: error.as_ref().map(Into::into),
        accepted: watch.accepted,
        part: files.selection,
        input,
        files: files.directory.as_ref().map(|_| &*files.parts),
        output_is_gone: files.output().is_some() && output.is_none(),
        output,
        rejects: files.rejects().and_then(SizedFile::at),
        changes: files.changes.as_deref().and_then(SizedFile::at),
        ledger: left,
        sandbox_billed: stand_in.map(|stand_in| stand_in.stop().billed),
        ..RunSummary::new(&identity, shown_counts(), exit)
    };
    tell_summary(&summary, summary_file, &watch);
    if let Some(report) = report {
        let tally = tally.filter(|_| counts.cancelled.is_none());
        finish_report(report, tally, &files, &summary, &watch);
    }
    error.iter().for_each(tell_error);
    files.warnings().for_each(|warning| warn(&warning));
    if let Some(metrics) = metrics {
        metrics.finish(exit);
    }
    if let Some(log) = log {
        log.finish(LogLine::RunEnded {
            exit_code: exit.code(),
            counts: Box::new(shown_counts()),
        });
    }
    ledger.finish(&counts);
    signals.run_is_over();
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
        file.write(|file| summary.write_json(file));
    }
}

/// Writes the page of `--report`: the rows as the writer saw them, and the run as its summary describes it. Only a finished
/// run has one: a page about a part of the rows would be taken for the whole.
fn finish_report(
    document: Document,
    tally: Option<Box<RowTally>>,
    files: &EndedFiles,
    summary: &RunSummary<'_>,
    watch: &WatchConfig,
) {
    let Some(tally) = tally else {
        if watch.shows_text() {
            tell("         no report: it is written when the run is finished");
        }
        return;
    };
    match write_report(document, &files.name, *tally, summary) {
        Ok(path) if watch.shows_text() => tell(&format!("         wrote {path}: the report")),
        Ok(_) => {}
        // The rows are safe, so this does not change the exit code.
        Err(error) => {
            let hint = error.hint_text().map(ToOwned::to_owned);
            let no_report = Error::stopped("no report").because(error);
            warn_of(&match hint {
                Some(hint) => no_report.hint(hint),
                None => no_report,
            });
        }
    }
}

fn write_report(
    document: Document,
    name: &str,
    tally: RowTally,
    summary: &RunSummary<'_>,
) -> Result<String> {
    // The summary's JSON is documented, and all that is known of the run is in it.
    let run = RunFacts::parse(&summary.json_line())
        .map_err(|why| Error::internal(format!("cannot read the summary back: {why}")))?;
    let content = PageContent {
        file: name.to_owned(),
        made: stamp(SystemTime::now()),
        sandbox: run.is_sandbox(),
        comparison: (tally.drift.decisions.compared() > 0).then_some(Comparison::Own),
        tally,
        groups: Vec::new(),
        run: Some(run),
        redecided: false,
    };
    let path = document.complete(&page(&content))?;
    Ok(path.as_deref().map(shown).unwrap_or_default())
}
