//! The page of `--report`: the rows as the writer saw them, and the run as its summary describes it.
//!
//! Only a finished run has one. A page about a part of the rows would be taken for the whole.

use std::path::Path;
use std::time::SystemTime;

use crate::analysis::RowTally;
use crate::base::error::{Error, Result, shown};
use crate::config::WatchConfig;
use crate::observe::{RunSummary, stamp, tell, warn_of};
use crate::output::Document;
use crate::report::{Comparison, PageContent, RunFacts, page};

/// An open report, and what the writer counted for it.
pub(super) struct CountedReport {
    document: Document,
    /// `None` if the writer is lost, or the run did not end.
    tally: Option<Box<RowTally>>,
}

impl CountedReport {
    /// The report, with what the writer counted.
    pub(super) const fn new(document: Document, tally: Option<Box<RowTally>>) -> Self {
        Self { document, tally }
    }

    /// Writes the report of a run that is finished, and says where it is. `name` is the name of the file that it is about.
    pub(super) fn finish(self, name: &str, summary: &RunSummary<'_>, watch: &WatchConfig) {
        let tally = self.tally.filter(|_| summary.stats.cancelled.is_none());
        let Some(tally) = tally else {
            if watch.shows_text() {
                tell("         no report: it is written when the run is finished");
            }
            return;
        };
        match complete(self.document, name, *tally, summary) {
            Ok(path) if watch.shows_text() => tell(&format!("         wrote {path}: the report")),
            Ok(_) => {}
            // The rows are safe, so this does not change the exit code.
            Err(error) => warn_of(&without_report(error)),
        }
    }
}

/// The error as the cause of there being no report.
fn without_report(error: Error) -> Error {
    let hint = error.hint_text().map(ToOwned::to_owned);
    let no_report = Error::stopped("no report").because(error);
    match hint {
        Some(hint) => no_report.hint(hint),
        None => no_report,
    }
}

fn complete(
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

/// The name of a file without its directory, which has no place in a page that is passed on.
pub(super) fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    name.to_string_lossy().into_owned()
}
