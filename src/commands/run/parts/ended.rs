//! What became of each of several inputs.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::super::file::FileEnd;
use super::super::unfinished_files::UnfinishedFiles;
use super::plan::{PartPlan, PlannedPart};
use crate::base::error::Error;
use crate::observe::{FileState, FileSummary};
use crate::output::Written;
use crate::telemetry::row_counts::RowCounts;

/// Several inputs whose rows have run, as far as the run came.
pub(in crate::commands::run) struct PartsEnd {
    /// The directory of the outputs.
    pub(in crate::commands::run) directory: PathBuf,
    /// What became of each.
    pub(in crate::commands::run) files: Vec<FileSummary>,
    /// What ended the run early, where its reason does not say it all.
    pub(in crate::commands::run) error: Option<Error>,
    /// The size of all inputs whose rows were to run, where it is known.
    pub(in crate::commands::run) size: Option<u64>,
    /// A directory that could not be synced.
    pub(in crate::commands::run) unsynced: Option<PathBuf>,
    /// What is worth a word about single inputs.
    pub(in crate::commands::run) warnings: Vec<String>,
}

impl PartsEnd {
    /// No input had its turn yet.
    pub(super) const fn new(directory: PathBuf, size: Option<u64>) -> Self {
        Self {
            directory,
            size,
            unsynced: None,
            files: Vec::new(),
            error: None,
            warnings: Vec::new(),
        }
    }

    /// An input whose rows did not run.
    pub(super) fn add_unrun(&mut self, part: PlannedPart) {
        let PlannedPart {
            input,
            output,
            plan,
        } = part;
        let (state, output, rejects, error) = match plan {
            PartPlan::Run(_) => (FileState::Left, None, None, None),
            PartPlan::Skip { rejects } => (FileState::Skipped, Some(output), rejects, None),
            PartPlan::Unusable(error) => (FileState::Failed, None, None, Some(in_a_line(&error))),
        };
        self.files.push(FileSummary {
            input,
            output,
            rejects,
            state,
            rows: RowCounts::default(),
            error,
        });
    }

    /// An input that could not be opened when its turn had come.
    pub(super) fn add_failed(&mut self, input: PathBuf, error: &Error) {
        self.files.push(FileSummary {
            input,
            output: None,
            rejects: None,
            state: FileState::Failed,
            rows: RowCounts::default(),
            error: Some(in_a_line(error)),
        });
    }

    /// An input whose rows ran. `is_whole`: its output has all of them. `error` says why it broke.
    pub(super) fn add_run(
        &mut self,
        input: PathBuf,
        end: FileEnd,
        rows: RowCounts,
        is_whole: bool,
        error: Option<&Error>,
    ) {
        let Written {
            output,
            rejects,
            unsynced,
            ..
        } = end.rows.written;
        self.unsynced = self.unsynced.take().or(unsynced);
        let state = match (is_whole, &output, error) {
            (true, _, _) => FileState::Finished,
            (false, Some(_), _) => FileState::Partial,
            (false, None, Some(_)) => FileState::Failed,
            (false, None, None) => FileState::Left,
        };
        self.files.push(FileSummary {
            input,
            output,
            rejects,
            state,
            rows,
            error: error.map(in_a_line),
        });
    }

    /// What this run and others have left unfinished in the directory.
    pub(in crate::commands::run) fn unfinished_beside(&self) -> UnfinishedFiles {
        let is_done =
            |file: &&FileSummary| matches!(file.state, FileState::Finished | FileState::Skipped);
        let ours: HashSet<&Path> = { self.files.iter().filter(is_done) }
            .flat_map(|file| [file.output.as_deref(), file.rejects.as_deref()])
            .flatten()
            .collect();
        UnfinishedFiles::find(&self.directory, &ours)
    }
}

/// The error with its cause, without details and hint.
fn in_a_line(error: &Error) -> String {
    let words = error.log_words();
    words.lines().next().unwrap_or_default().to_owned()
}
