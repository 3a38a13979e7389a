//! What a run leaves: its files and what messages say of them, whether it had one input or several.

use std::path::{Path, PathBuf};

use super::super::open_input::{InputFacts, bytes_ignored};
use super::drive::EndedFiles;
use super::file::FileEnd;
use super::identity;
use super::page::file_name;
use super::parts::PartsEnd;
use super::rows::RowsEnd;
use crate::analysis::RowTally;
use crate::base::error::Error;
use crate::input::Input;
use crate::observe::{FileSummary, ReadFile};
use crate::output::{Target, Written};
use crate::selection::Selection;
use crate::telemetry::event::InputEnd;
use crate::telemetry::stats::Stats;

/// What a run leaves.
pub(super) struct LeftFiles {
    /// What became of each of several files; `None` for a run of one file.
    pub(super) files: Option<Vec<FileSummary>>,
    /// The output, complete or partial, or the directory of several; `None` for standard output.
    pub(super) output: Option<PathBuf>,
    pub(super) rejects: Option<PathBuf>,
    pub(super) changes: Option<PathBuf>,
    /// There is an output, complete or partial.
    pub(super) any: bool,
    /// What ended the run early, where its reason does not say it all.
    pub(super) error: Option<Error>,
    /// What was read: the input, or the size of several.
    pub(super) input: ReadFile,
    /// What the run took of its input, unless that turned out to be all of it.
    pub(super) part: Option<Selection>,
    /// What a report is about.
    pub(super) name: String,
    /// What the writer counted for a report.
    pub(super) tally: Option<Box<RowTally>>,
    /// Warnings of what shows only at the end.
    pub(super) warnings: Vec<String>,
}

impl LeftFiles {
    /// Of a run with these statistics.
    pub(super) fn new(files: EndedFiles, stats: &Stats) -> Self {
        match files {
            EndedFiles::One(file) => Self::of_one(*file, stats),
            EndedFiles::Parts(parts) => Self::of_parts(*parts),
        }
    }

    fn of_one(file: FileEnd, stats: &Stats) -> Self {
        let FileEnd {
            input,
            output: target,
            rows,
        } = file;
        let RowsEnd {
            written,
            error,
            tally,
            ..
        } = rows;
        let Written {
            output,
            rejects,
            changes,
            unsynced: directory,
            error: _,
        } = written;
        let unsynced = directory.as_deref().map(unsynced);
        let name = |target: Target| file_name(target.path());
        Self {
            files: None,
            any: output.is_some(),
            output,
            rejects,
            changes,
            error,
            part: part(input.selection, stats),
            input: identity::read(&input, stats),
            name: target.map_or_else(|| input.name(), name),
            tally,
            warnings: unsynced
                .into_iter()
                .chain(of_input(&input, stats))
                .collect(),
        }
    }

    fn of_parts(parts: PartsEnd) -> Self {
        let PartsEnd {
            directory,
            files,
            error,
            size,
            unsynced: unsynced_directory,
            mut warnings,
        } = parts;
        warnings.extend(unsynced_directory.as_deref().map(unsynced));
        let any = files.iter().any(|file| file.output.is_some());
        Self {
            files: Some(files),
            any,
            name: file_name(&directory),
            output: any.then_some(directory),
            rejects: None,
            changes: None,
            error,
            part: None,
            input: ReadFile {
                path: None,
                bytes: size,
            },
            tally: None,
            warnings,
        }
    }
}

/// What the run took of its input, unless that turned out to be all of it.
fn part(selection: Selection, stats: &Stats) -> Option<Selection> {
    let whole = selection.is_everything() || stats.input_end == Some(InputEnd::Whole);
    (!whole).then_some(selection)
}

/// Warnings of what shows only at the end of the input.
fn of_input(input: &InputFacts, stats: &Stats) -> impl Iterator<Item = String> + use<> {
    let ignored = !input.ignored_at_start && input.ignored.any();
    let ignored = ignored.then(|| bytes_ignored("the input"));
    let no_rows = stats.input_end.is_some() && stats.read == 0;
    let no_rows = no_rows.then(|| {
        let rows = part(input.selection, stats).unwrap_or_default();
        format!("{} has no rows", rows.of(&input.name()))
    });
    ignored
        .into_iter()
        .chain(no_rows)
        .chain(larger(input, stats))
}

/// A warning that an input is larger than it was when the run started: somebody may still be writing it.
fn larger(input: &InputFacts, stats: &Stats) -> Option<String> {
    let (Input::File(path), Some(InputEnd::Whole)) = (&input.source, stats.input_end) else {
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

/// A warning that the names of files could not be made durable, as in a directory where we may only add files.
fn unsynced(directory: &Path) -> String {
    format!(
        "`{}` cannot be synced: the files in it are complete, but a power cut now may undo their names",
        directory.display()
    )
}
