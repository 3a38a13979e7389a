//! The log of a run: its file, and what it says of the run before the first call.

use std::num::NonZeroUsize;
use std::path::Path;

use serde_json::{Value, json};

use super::files::RunPart;
use crate::base::error::{Error, Result, shown};
use crate::base::own_file;
use crate::observe::{LogFile, LogLine, RunIdentity, RunLog};

/// Opens the log at this path, and logs the start of the run.
///
/// # Errors
/// Exit code 2: it cannot be opened, or it is not a log of ours.
pub(super) fn open_log(
    path: &Path,
    identity: &RunIdentity,
    (parts, output): (&[RunPart], Option<&Path>),
    ledger: Option<&Path>,
    concurrency: NonZeroUsize,
) -> Result<RunLog> {
    let file = LogFile::open(path).map_err(|error| cannot_open(path, error))?;
    let log = RunLog::start(file);
    let inputs: Vec<_> = parts.iter().filter_map(input).collect();
    log.writer().push(LogLine::RunStarted(json!({
        "run": identity,
        "inputs": inputs,
        "output": output.map(text_of),
        "ledger": ledger.map(text_of),
        "concurrency": concurrency,
    })));
    Ok(log)
}

fn cannot_open(path: &Path, error: std::io::Error) -> Error {
    let not_ours = own_file::is_not_ours(&error);
    let cannot = Error::usage(format!("cannot write the log to `{}`", shown(path)));
    let error = cannot.because(error);
    if not_ours {
        error.hint("give `--log` another name: rescore adds only to logs of its own")
    } else {
        own_file::cannot_make(path, error)
    }
}

/// A file's name for programs: JSON escapes what it has to.
fn text_of(path: &Path) -> String {
    path.display().to_string()
}

/// An input that was opened, and which of its columns is which field.
fn input(part: &RunPart) -> Option<Value> {
    let opened = &part.to_run()?.opened;
    Some(json!({
        "path": part.input.file.input.path().map(text_of),
        "format": opened.layout.format.extension(),
        "bytes": opened.size,
        "mapping": opened.mapping,
    }))
}
