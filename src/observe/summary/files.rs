//! The files of a run over several files, for people and for programs.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::base::error::{printable, shown};
use crate::observe::decisions_json::DecisionsJson;
use crate::observe::numbers::{counted, parts};
use crate::telemetry::row_counts::RowCounts;

/// More lines would hide the rest of the summary. The JSON has all files.
const LINES: usize = 20;

/// What became of one of several files.
#[derive(Debug, Clone)]
pub(crate) struct FileSummary {
    /// What was read.
    pub(crate) input: PathBuf,
    /// The output, or its partial file, if there is one.
    pub(crate) output: Option<PathBuf>,
    /// The rejects, or their partial file, if there are any.
    pub(crate) rejects: Option<PathBuf>,
    /// How it ended.
    pub(crate) state: FileState,
    /// What became of its rows in this run.
    pub(crate) rows: RowCounts,
    /// Why it could not be used, or not to its end.
    pub(crate) error: Option<String>,
}

/// How a file ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FileState {
    /// It cannot be used: it has no output.
    Failed,
    /// Its output has only the rows up to a stop, or up to where the input breaks.
    Partial,
    /// The run stopped before its turn.
    Left,
    /// Its output has all rows.
    Finished,
    /// An earlier run finished it.
    Skipped,
}

impl FileState {
    /// All states, the worst first.
    const ALL: [Self; 5] = [
        Self::Failed,
        Self::Partial,
        Self::Left,
        Self::Finished,
        Self::Skipped,
    ];

    const fn word(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Partial => "partial",
            Self::Left => "left",
            Self::Finished => "finished",
            Self::Skipped => "skipped",
        }
    }
}

/// The lines for people: how many files ended how, and those that matter most.
pub(super) fn file_lines(files: &[FileSummary]) -> Vec<String> {
    let states = FileState::ALL.map(|state| {
        let ended = files.iter().filter(|file| file.state == state);
        (state.word(), ended.count() as u64)
    });
    let states = parts(&states).unwrap_or_default();
    let mut lines = vec![format!("{}: {states}", counted(files.len() as u64, "file"))];
    let is_telling = |file: &&FileSummary| {
        !matches!(file.state, FileState::Left | FileState::Skipped) || file.rejects.is_some()
    };
    let mut telling: Vec<_> = files.iter().filter(is_telling).collect();
    // A stable sort: files with the same trouble stay in their order.
    telling.sort_by_key(|file| (file.state, Reverse(file.rows.failed > 0)));
    let more = telling.len().saturating_sub(LINES);
    lines.extend(telling.into_iter().take(LINES).map(FileSummary::line));
    if more > 0 {
        lines.push(format!("  and {}", counted(more as u64, "more file")));
    }
    lines
}

impl FileSummary {
    /// `  part-00000.csv: 9 rows: approve 8, failed 1; see scored/part-00000.rejects.csv`.
    fn line(&self) -> String {
        let RowCounts {
            resolved,
            approved,
            reviewed,
            blocked,
            undecided,
            failed,
        } = self.rows;
        let became = match (self.state, &self.error) {
            (FileState::Failed, Some(error)) => format!("failed: {}", printable(error)),
            (FileState::Skipped, _) => "skipped, some rows have no verdict".to_owned(),
            (state, error) => {
                let verdicts = parts(&[
                    ("approve", approved),
                    ("review", reviewed),
                    ("block", blocked),
                    ("undecided", undecided),
                    ("failed", failed),
                ]);
                let verdicts = verdicts.map(|words| format!(": {words}"));
                let state = match state {
                    FileState::Finished => "",
                    _ => "stopped after ",
                };
                let error = error.as_ref();
                let error = error.map(|error| format!("; {}", printable(error)));
                format!(
                    "{state}{}{}{}",
                    counted(resolved, "row"),
                    verdicts.unwrap_or_default(),
                    error.unwrap_or_default()
                )
            }
        };
        let rejects = { self.rejects.as_deref() }.map(|path| format!("; see {}", shown(path)));
        let name = self
            .input
            .file_name()
            .map_or(self.input.as_path(), Path::new);
        format!("  {}: {became}{}", shown(name), rejects.unwrap_or_default())
    }
}

/// The same for programs.
#[derive(Debug, Serialize)]
pub(super) struct FileEndJson<'a> {
    input: Cow<'a, str>,
    output: Option<Cow<'a, str>>,
    rejects: Option<Cow<'a, str>>,
    state: FileState,
    rows: ResolvedJson,
    decisions: DecisionsJson,
    undecided: CountJson,
    failed: CountJson,
    error: Option<&'a str>,
}

/// How many rows of a file are done.
#[derive(Debug, Serialize)]
struct ResolvedJson {
    resolved: u64,
}

/// How many rows of a file are of a kind.
#[derive(Debug, Serialize)]
struct CountJson {
    rows: u64,
}

impl<'a> FileEndJson<'a> {
    pub(super) fn new(file: &'a FileSummary) -> Self {
        let path = |path: &'a PathBuf| path.to_string_lossy();
        let rows = file.rows;
        Self {
            input: file.input.to_string_lossy(),
            output: file.output.as_ref().map(path),
            rejects: file.rejects.as_ref().map(path),
            state: file.state,
            rows: ResolvedJson {
                resolved: rows.resolved,
            },
            decisions: [rows.approved, rows.reviewed, rows.blocked].into(),
            undecided: CountJson {
                rows: rows.undecided,
            },
            failed: CountJson { rows: rows.failed },
            error: file.error.as_deref(),
        }
    }
}
