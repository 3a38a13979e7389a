//! The phases of a run, in order, and what a run that cannot start leaves for those who watch it: tonight's failure in the
//! place of yesterday's success.
//!
//! Only a file of the same kind is replaced: a mistyped `--summary users.csv` must not cost anybody their users. Nothing is
//! written if another run holds the output: these files may be that run's own.

use std::path::PathBuf;
use std::time::Duration;

use super::super::summary_file::SummaryFile;
use super::announce::announce;
use super::drive::drive;
use super::finish::finish;
use super::prepare::{identity_of, job_name, metrics_file, prepare};
use crate::base::error::{Error, Exit, Result};
use crate::config::{RunConfig, UnconfiguredRun};
use crate::observe::{RunIdentity, RunSummary, ended_by};
use crate::telemetry::counts::Counts;

/// Runs, and says how it went.
///
/// # Errors
/// Whatever kept the run from starting. What ended it early has been reported, and is in the exit code.
pub(crate) fn execute(config: RunConfig) -> Result<Exit> {
    let failure = FailureFiles::of(&config);
    let ended = run(config);
    if let Err(error) = &ended {
        failure.write(error);
    }
    ended
}

fn run(config: RunConfig) -> Result<Exit> {
    let (mut run, start) = prepare(config)?;
    announce(&run, &start);
    let driven = drive(&mut run, start)?;
    Ok(finish(run, driven))
}

/// Leaves the failure of a run whose arguments, variables or settings file are wrong.
pub(crate) fn leave_failure(run: UnconfiguredRun, error: &Error) {
    let mut identity = RunIdentity::new(job_name(run.output.as_deref()));
    identity.profile = run.profile;
    let files = FailureFiles {
        identity,
        output: run.output,
        summary: run.summary,
        metrics: run.metrics,
    };
    files.write(error);
}

/// Where a failure is written, and what was known of the run: what it was asked to do.
struct FailureFiles {
    identity: RunIdentity,
    output: Option<PathBuf>,
    summary: Option<PathBuf>,
    metrics: Option<PathBuf>,
}

/// Who may read a summary that is made for a failure; the process's umask may take more away.
const MODE: u32 = 0o666;

impl FailureFiles {
    /// Those of this run.
    fn of(config: &RunConfig) -> Self {
        Self {
            identity: identity_of(config),
            output: config.files.name().map(Into::into),
            summary: config.watch.summary.clone(),
            metrics: config.watch.metrics.clone(),
        }
    }

    /// Writes that the run could not start. What cannot be written is left: the error itself is what matters.
    fn write(self, error: &Error) {
        let exit = error.exit();
        if exit == Exit::Busy {
            return;
        }
        let tariff = self.identity.tariff.as_ref();
        let counts = Counts::not_started().as_of(Duration::ZERO, tariff);
        let summary = RunSummary {
            error: Some(ended_by(error)),
            ..RunSummary::new(&self.identity, counts.clone(), exit)
        };
        // None takes the name of a file that the next start writes, and a pipe would wait for somebody to read.
        let is_ours = |path: &PathBuf| {
            let is_taken = [self.output.as_deref(), error.file()].contains(&Some(path.as_path()));
            !is_taken && (!path.exists() || path.is_file())
        };
        if let Some(path) = self.summary.filter(is_ours)
            && let Ok(file) = SummaryFile::create(&path, MODE)
        {
            file.write(|to| summary.write_json(to));
        }
        if let Some(path) = self.metrics.filter(is_ours)
            && let Ok(file) = metrics_file(path, self.identity.clone())
        {
            let _ = file.write(&counts, Some(exit));
        }
    }
}
