//! The log of a run: where it goes, and what it says of the run before the first call.

use std::num::NonZeroUsize;
use std::path::Path;

use serde_json::{Value, json};

use super::files::RunPart;
use crate::base::error::{Error, Result, shown};
use crate::base::own_file;
use crate::config::RunConfig;
use crate::observe::{LogLine, RunIdentity, log_line, start_log};

/// Opens the log, if the run keeps one, and logs the start of the run.
///
/// # Errors
/// Exit code 2: it cannot be opened, or it is not a log of ours.
pub(super) fn open_log(
    config: &RunConfig,
    identity: &RunIdentity,
    parts: &[RunPart],
    ledger: Option<&Path>,
    concurrency: NonZeroUsize,
) -> Result<()> {
    let Some(path) = config.watch.log.as_deref() else {
        return Ok(());
    };
    start_log(path).map_err(|error| cannot_open(path, error))?;
    let inputs: Vec<_> = parts.iter().filter_map(input).collect();
    log_line(LogLine::RunStarted(json!({
        "run": identity,
        "inputs": inputs,
        "output": config.files.name().map(text_of),
        "ledger": ledger.map(text_of),
        "concurrency": concurrency,
    })));
    Ok(())
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
