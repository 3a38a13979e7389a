//! The phases of a run, in order (`drive` calls the last one, `finish`). A run that cannot start writes tonight's failure over
//! yesterday's success, for those who watch it.
//!
//! Only a file of the same kind is replaced: a mistyped `--summary users.csv` must not cost anybody their users. Nothing is
//! written if another run holds the output: these files may be that run's own.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::announce::announce;
use super::drive::drive;
use super::prepare::{identity_of, metrics_file, prepare};
use crate::base::error::{Error, Exit, Result};
use crate::base::private_file::Readers;
use crate::commands::signals::RecordFailure;
use crate::commands::text::SummaryFile;
use crate::config::{RunConfig, WatchConfig};
use crate::observe::{LogLine, RunIdentity, RunSummary, end_log, ended_by};
use crate::telemetry::counts::Counts;

/// Runs, and says how it went.
///
/// # Errors
/// Whatever kept the run from starting. What ended it early has been reported, and is in the exit code.
pub(crate) fn execute(config: RunConfig) -> Result<Exit> {
    let (identity, watch) = (identity_of(&config), config.watch.clone());
    let output = config.files.name().map(Path::to_owned);
    let record: RecordFailure = Arc::new(move |error| {
        write_failure(&identity, &watch, output.as_deref(), error);
        // The error is the last line; that it is not all of it would change nothing.
        let _ = end_log(LogLine::Error(error.log_words()));
    });
    run(config, &record).inspect_err(|error| record(error))
}

fn run(config: RunConfig, record: &RecordFailure) -> Result<Exit> {
    let (run, start) = prepare(config, record)?;
    announce(&run, &start);
    drive(run, start)
}

/// Writes that the run could not start. What cannot be written is left: the error itself is what matters.
fn write_failure(
    identity: &RunIdentity,
    watch: &WatchConfig,
    output: Option<&Path>,
    error: &Error,
) {
    let exit = error.exit();
    if exit == Exit::Busy {
        return;
    }
    let counts = Counts::not_started().as_of(Duration::ZERO, identity.tariff.as_ref());
    // None takes the name of a file that the next start writes, and a pipe would wait for a reader.
    let is_ours = |path: &&PathBuf| {
        let is_taken = [output, error.file()].contains(&Some(path.as_path()));
        !is_taken && (!path.exists() || path.is_file())
    };
    if let Some(path) = watch.summary.as_ref().filter(is_ours)
        && let Ok(file) = SummaryFile::create(path, Readers::EVERYBODY)
    {
        file.write(&RunSummary {
            error: Some(ended_by(error)),
            ..RunSummary::new(identity, counts.clone(), exit)
        });
    }
    if let Some(path) = watch.metrics.as_ref().filter(is_ours)
        && let Ok(file) = metrics_file(path.clone(), identity.clone())
    {
        let _ = file.write(&counts, Some(exit));
    }
}
