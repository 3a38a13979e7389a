//! A run that is over, as programs read it: its identity, its counts and its files in one JSON object. The text for people is
//! in `summary_text`.
//!
//! The reference documents every key. What is not known is null, never absent.

use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, Read as _, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::identity::RunIdentity;
use super::numbers::{indented, one_line, path, some_path, utc_seconds};
use crate::base::error::{Error, Exit};
use crate::base::numbers::Tolerance;
use crate::base::stderr::say;
use crate::raw_json::escape_unsafe;
use crate::selection::Selection;
use crate::telemetry::counts::Counts;
use crate::telemetry::part::RowCounts;

/// A run that is over.
#[derive(Debug, Serialize)]
pub(crate) struct RunSummary<'a> {
    /// What kind of object it is.
    pub(crate) r#type: &'static str,
    /// Which run it was.
    #[serde(flatten)]
    pub(crate) identity: &'a RunIdentity,
    /// When it ended, in UTC.
    pub(crate) end_time: String,
    /// How the process exits.
    pub(crate) exit_code: u8,
    /// Whether it exits as after a success although rows have failed.
    pub(crate) failures_accepted: bool,
    /// What ended it early, where its reason does not say it all. Details and hints are left out: they may quote the input.
    pub(crate) error: Option<Value>,
    /// The input.
    pub(crate) input: SizedFile,
    /// The rows that the run took, if it left others out.
    pub(crate) part: Option<Selection>,
    /// What was counted.
    #[serde(flatten)]
    pub(crate) counts: Counts,
    /// The output, or its partial file after an early stop; of several files the directory; `None` for standard output.
    pub(crate) output: Option<SizedFile>,
    /// The rejects, if there are any.
    pub(crate) rejects: Option<SizedFile>,
    /// The rows whose decision changed, if the run was asked for them.
    pub(crate) changes: Option<SizedFile>,
    /// What is left of the ledger.
    pub(crate) ledger: LedgerLeft,
    /// What became of each of several files; `None` for a run of one file.
    pub(crate) files: Option<&'a [FileSummary]>,
    /// Failed rows with which it still counts as a success.
    #[serde(skip)]
    pub(crate) accepted: Option<Tolerance>,
    /// Calls that the stand-in billed.
    #[serde(skip)]
    pub(crate) sandbox_billed: Option<u64>,
    /// The output was removed or moved during the run.
    #[serde(skip)]
    pub(crate) output_is_gone: bool,
}

impl<'a> RunSummary<'a> {
    /// Of a run that ends now; of its files nothing is known yet.
    pub(crate) fn new(identity: &'a RunIdentity, counts: Counts, exit: Exit) -> Self {
        Self {
            r#type: "summary",
            identity,
            end_time: utc_seconds(SystemTime::now()),
            exit_code: exit.code(),
            failures_accepted: exit == Exit::Complete && counts.exit() != Exit::Complete,
            error: None,
            input: SizedFile::default(),
            part: None,
            counts,
            output: None,
            rejects: None,
            changes: None,
            ledger: LedgerLeft::Nothing,
            files: None,
            accepted: None,
            sandbox_billed: None,
            output_is_gone: false,
        }
    }

    /// The object for programs, on one line.
    pub(crate) fn json_line(&self) -> String {
        escape_unsafe(&one_line(self))
    }

    /// Says the object for programs.
    pub(crate) fn say_line(&self) {
        say(&self.json_line());
    }

    /// Writes the object for programs, indented.
    ///
    /// # Errors
    /// Those of the writer.
    pub(crate) fn write_json(&self, mut to: impl Write) -> io::Result<()> {
        to.write_all(indented(self).as_bytes())?;
        to.flush()
    }
}

/// An error that ends a run, for programs.
pub(crate) fn ended_by(error: &Error) -> Value {
    json!({"message": error.message(), "causes": error.causes()})
}

/// A file that a run has read or written.
#[derive(Debug, Default, Serialize)]
pub(crate) struct SizedFile {
    /// Its name; `None` for standard input.
    #[serde(serialize_with = "some_path")]
    pub(crate) path: Option<PathBuf>,
    /// Its size, or the bytes that were read of standard input; `None` if it is not a regular file.
    pub(crate) bytes: Option<u64>,
}

impl SizedFile {
    /// The file at this path, unless it was removed or moved during the run, perhaps with its directory.
    pub(crate) fn at(path: &Path) -> Option<Self> {
        path.symlink_metadata().ok()?;
        let there = fs::metadata(path).ok().filter(fs::Metadata::is_file);
        Some(Self {
            path: Some(path.to_owned()),
            bytes: there.map(|there| there.len()),
        })
    }
}

/// What is left of a run's ledger.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LedgerLeft {
    /// Nothing: there was none.
    Nothing,
    /// Somebody has removed or moved it during the run.
    Gone,
    /// It stays here, but no run can continue with it.
    Damaged(PathBuf),
    /// It stays here.
    Kept(PathBuf),
}

impl Serialize for LedgerLeft {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Damaged(path) | Self::Kept(path) => json!({"path": path.to_string_lossy()}),
            Self::Nothing | Self::Gone => Value::Null,
        }
        .serialize(to)
    }
}

/// That a ledger has answers, but none that a run with this address and service ID can use.
pub(crate) fn only_of_others(ledger: impl Display, others: &[String]) -> String {
    let mut others = others.to_vec();
    others.sort_unstable();
    others.dedup();
    format!(
        "`{ledger}` has no answers of this address and service id, only of others at {}",
        others.join(", ")
    )
}

/// What became of one of several files.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct FileSummary {
    /// What was read.
    #[serde(serialize_with = "path")]
    pub(crate) input: PathBuf,
    /// The output, or its partial file, if there is one.
    #[serde(serialize_with = "some_path")]
    pub(crate) output: Option<PathBuf>,
    /// The rejects, or their partial file, if there are any.
    #[serde(serialize_with = "some_path")]
    pub(crate) rejects: Option<PathBuf>,
    /// How it ended.
    pub(crate) state: FileState,
    /// What became of its rows in this run.
    #[serde(flatten)]
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

/// How the summaries of `run` and `decide` start.
const STARTS: [&[u8]; 2] = [b"{\"type\":\"summary\"", b"{\"type\":\"decide\""];
/// How many bytes are read to find that out, with room for line ends and indentation.
const START_BYTES: u64 = 64;

/// Fails if there is a file whose content is not a summary: it may be anything that nobody wants to lose. An empty one has
/// nothing to lose.
///
/// # Errors
/// That, or the file cannot be read.
pub(crate) fn refuse_other_content(path: &Path) -> io::Result<()> {
    let is_empty = match fs::metadata(path) {
        // Reading a pipe would wait for somebody to write.
        Ok(there) => !there.is_file() || there.len() == 0,
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        Err(error) => return Err(error),
    };
    if is_empty {
        return Ok(());
    }
    let mut start = Vec::new();
    File::open(path)?
        .take(START_BYTES)
        .read_to_end(&mut start)?;
    start.retain(|byte| !byte.is_ascii_whitespace());
    if STARTS.iter().any(|summary| start.starts_with(summary)) {
        return Ok(());
    }
    Err(io::Error::other("its content is not a summary of rescore"))
}
