//! What a run says when the second signal ends it: which files are there at that moment, not which there should be.

use std::path::PathBuf;

use super::ledger::PreparedLedger;
use super::run_files::PreparedFiles;
use crate::base::error::shown;
use crate::output::partial_of;

/// What a run that starts may leave.
pub(super) struct LastWords {
    /// The output's file or directory; `None` where rows go to a stream.
    output: Option<LeftOutput>,
    /// `None` where no answers stay.
    ledger: Option<String>,
}

enum LeftOutput {
    /// The partial file of one output.
    Partial(PathBuf),
    /// The directory of several.
    Directory(PathBuf),
}

impl LastWords {
    pub(super) fn of(files: &PreparedFiles, ledger: &PreparedLedger) -> Self {
        let output = match files {
            PreparedFiles::One(file) => {
                let output = file.output.as_ref();
                let output = output.filter(|target| !target.is_special());
                output.map(|target| LeftOutput::Partial(partial_of(target.path())))
            }
            PreparedFiles::Parts(parts) => Some(LeftOutput::Directory(parts.directory.clone())),
        };
        let ledger = ledger.last_words();
        Self { output, ledger }
    }

    /// The words. `rows_are_done`: all rows are in files with their final names.
    pub(super) fn say(&self, rows_are_done: bool) -> String {
        let left = match &self.output {
            _ if rows_are_done => Some("all rows are done".to_owned()),
            Some(LeftOutput::Partial(partial)) if partial.exists() => Some(format!(
                "`{}` has the rows that were written so far",
                shown(partial)
            )),
            Some(LeftOutput::Directory(directory)) if directory.exists() => Some(format!(
                "`{}` has the files that were written so far",
                shown(directory)
            )),
            _ => None,
        };
        let left = left.map(|left| format!("; {left}")).unwrap_or_default();
        let kept = self
            .ledger
            .as_ref()
            .map(|kept| format!("\n         {kept}"));
        format!(
            "rescore: stopped immediately{left}{}",
            kept.unwrap_or_default()
        )
    }
}
