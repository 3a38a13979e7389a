//! The third moment of a run's files: the rows of its parts have run, as far as the run came.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::super::files::{SummaryFile, UnfinishedFiles};
use super::super::open_input::{InputFacts, bytes_ignored};
use super::open_files::OpenFiles;
use super::part::{RunPart, Turn};
use crate::analysis::RowTally;
use crate::base::error::Error;
use crate::input::Input;
use crate::observe::{FileState, FileSummary, SizedFile};
use crate::output::{Document, Written};
use crate::selection::Selection;
use crate::telemetry::counts::Counts;
use crate::telemetry::event::InputEnd;
use crate::telemetry::part::RowCounts;

/// The files of a run that is over.
pub(super) struct EndedFiles {
    /// What became of each part.
    pub(super) parts: Vec<FileSummary>,
    /// The directory of several outputs.
    pub(super) directory: Option<PathBuf>,
    /// The only input, or the size of several.
    pub(super) input: SizedFile,
    /// What the run took of its input, unless that turned out to be all of it.
    pub(super) selection: Option<Selection>,
    pub(super) changes: Option<PathBuf>,
    /// What ended the run early, where its reason does not say it all.
    pub(super) error: Option<Error>,
    /// Warnings of what shows only at the end.
    pub(super) warnings: Vec<String>,
    /// A directory that could not be synced.
    unsynced: Option<PathBuf>,
    /// Where the summary goes as JSON.
    pub(super) summary: Option<SummaryFile>,
    /// Where the report goes, and the name of the file that it is about.
    pub(super) report: Option<Document>,
    pub(super) name: String,
    /// What the writer counted for the report; `None` if it is lost.
    pub(super) tally: Option<Box<RowTally>>,
}

impl EndedFiles {
    /// No part has had its turn yet. The list of the parts stays with `files`.
    pub(super) fn of(files: &mut OpenFiles) -> Self {
        let only = files.to_run().next().filter(|_| files.directory.is_none());
        let input = only.map(|part| named(&part.facts.source));
        let output = files.parts.first().and_then(|part| part.output.as_deref());
        let name = match (files.directory.as_deref().or(output), only) {
            (Some(path), _) => file_name(path),
            (None, Some(part)) => part.facts.name(),
            (None, None) => String::new(),
        };
        let any = files.to_run().next().is_some();
        Self {
            input: SizedFile {
                bytes: files.size().filter(|_| any),
                ..input.unwrap_or_default()
            },
            name,
            parts: Vec::with_capacity(files.parts.len()),
            directory: files.directory.clone(),
            selection: None,
            changes: None,
            error: None,
            warnings: Vec::new(),
            unsynced: None,
            summary: files.summary.take(),
            report: files.report.take(),
            tally: None,
        }
    }

    /// A part whose rows did not run.
    pub(super) fn add_unrun(&mut self, part: RunPart) {
        let mut summary = unwritten(part.input.path);
        match part.turn {
            Turn::Run(_) => {}
            Turn::Skip { rejects } => {
                summary.state = FileState::Skipped;
                summary.output = part.output;
                summary.rejects = rejects;
            }
            Turn::Unusable(error) => {
                summary.state = FileState::Failed;
                summary.error = Some(in_a_line(&error));
            }
        }
        self.parts.push(summary);
    }

    /// A part that could not be opened when its turn had come.
    pub(super) fn add_failed(&mut self, input: PathBuf, error: &Error) {
        self.parts.push(FileSummary {
            state: FileState::Failed,
            error: Some(in_a_line(error)),
            ..unwritten(input)
        });
    }

    /// A part whose rows ran, and these counts after them. `error` says why it broke.
    pub(super) fn add_run(
        &mut self,
        (input, facts): (PathBuf, &InputFacts),
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
        let is_all = facts.selection.is_everything() || counts.input_end == Some(InputEnd::Whole);
        self.selection = (!is_all).then_some(facts.selection);
        if self.directory.is_none() {
            self.input.bytes = facts.size.or(Some(counts.position));
        }
        if is_whole && rows.resolved == 0 {
            let selection = self.selection.unwrap_or_default();
            let name = selection.of(&facts.name());
            self.warnings.push(format!("{name} has no rows"));
        }
        if facts.ignored.any() {
            self.warnings.push(bytes_ignored(&facts.name()));
        }
        self.warnings.extend(larger(facts, counts));
        self.unsynced = self.unsynced.take().or(written.unsynced);
        self.changes = written.changes;
        self.parts.push(FileSummary {
            output: written.output,
            rejects: written.rejects,
            state: ended,
            rows,
            error: error.map(in_a_line),
            ..unwritten(input)
        });
    }

    /// The output, complete or partial, or the directory of several; `None` for standard output.
    pub(super) fn output(&self) -> Option<&Path> {
        let output = self.parts.iter().find_map(|part| part.output.as_deref());
        output.and(self.directory.as_deref()).or(output)
    }

    /// The rows without a verdict of the only output.
    pub(super) fn rejects(&self) -> Option<&Path> {
        let only = self.parts.first().filter(|_| self.directory.is_none())?;
        only.rejects.as_deref()
    }

    /// What this run and others have left unfinished in the directory.
    pub(super) fn unfinished_beside(&self) -> UnfinishedFiles {
        let Some(directory) = &self.directory else {
            return UnfinishedFiles::default();
        };
        let is_done =
            |file: &&FileSummary| matches!(file.state, FileState::Finished | FileState::Skipped);
        let ours: HashSet<&Path> = { self.parts.iter().filter(is_done) }
            .flat_map(|file| [file.output.as_deref(), file.rejects.as_deref()])
            .flatten()
            .collect();
        UnfinishedFiles::find(directory, &ours)
    }

    /// All warnings. The names of files may not be durable, as in a directory where we may only add files.
    pub(super) fn warnings(&self) -> impl Iterator<Item = String> {
        let unsynced = self.unsynced.as_deref().map(|directory| {
            format!(
                "`{}` cannot be synced: the files in it are complete, but a power cut now may undo their names",
                directory.display()
            )
        });
        self.warnings.iter().cloned().chain(unsynced)
    }
}

/// An input of which nothing is written.
fn unwritten(input: PathBuf) -> FileSummary {
    FileSummary {
        input,
        output: None,
        rejects: None,
        state: FileState::Left,
        rows: RowCounts::default(),
        error: None,
    }
}

/// The error with its cause, without details and hint.
fn in_a_line(error: &Error) -> String {
    let words = error.log_words();
    words.lines().next().unwrap_or_default().to_owned()
}

/// A warning that an input is larger than it was when it was opened: somebody may still be writing it.
fn larger(input: &InputFacts, counts: &Counts) -> Option<String> {
    let (Input::File(path), Some(InputEnd::Whole)) = (&input.source, counts.input_end) else {
        return None;
    };
    let now = path.metadata().ok()?.len();
    (now > input.size?).then(|| {
        format!(
            "{} is larger than when the run started: rows that were added since were not read",
            input.name()
        )
    })
}

/// The input, before it is read.
pub(super) fn named(input: &Input) -> SizedFile {
    let path = match input {
        Input::File(path) => Some(path.clone()),
        Input::Stdin => None,
    };
    SizedFile { path, bytes: None }
}

/// The name of a file without its directory, which has no place in a page that is passed on.
fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    name.to_string_lossy().into_owned()
}
