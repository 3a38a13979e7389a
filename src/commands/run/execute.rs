//! The phases of a run, in order, and what a run that cannot start leaves for those who watch it: tonight's failure in the
//! place of yesterday's success.
//!
//! Only a file of the same kind is replaced then, and none is made: a mistyped `--summary users.csv` must not cost anybody their
//! users, and a run that was refused leaves no files. Nothing is replaced if another run holds the output: these files may
//! be that run's own.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use super::announce::announce;
use super::drive::drive;
use super::finish::{finish, read_file};
use super::log::log_not_started;
use super::prepare::{identity_of, job_name, metrics_file, prepare};
use crate::base::error::{Error, Exit, Result};
use crate::config::{LogConfig, RunConfig, ServiceConfig, UnconfiguredRun};
use crate::observe::{DecisionRule, FailedStart, ReadFile, RunIdentity};
use crate::selection::Selection;
use crate::telemetry::stats::Stats;

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
    let identity = RunIdentity {
        job: job_name(run.job, run.output.as_deref()),
        profile: run.profile,
        start: SystemTime::now(),
        rule: DecisionRule::UNKNOWN,
    };
    let files = FailureFiles {
        start: FailedStart {
            identity,
            sandbox: false,
            endpoint: None,
            input: ReadFile::default(),
            selection: Selection::default(),
            tariff: None,
        },
        summary: run.summary,
        metrics: run.metrics,
        log: run.log,
    };
    files.write(error);
}

/// Where a failure is written.
struct FailureFiles {
    summary: Option<PathBuf>,
    metrics: Option<PathBuf>,
    log: Option<LogConfig>,
    start: FailedStart,
}

impl FailureFiles {
    /// Those of this run.
    fn of(config: &RunConfig) -> Self {
        let only = config.files.only_input();
        let (is_sandbox, endpoint) = match &config.service {
            ServiceConfig::Real(service) => (false, Some(service.endpoint.to_string())),
            ServiceConfig::Sandbox => (true, None),
        };
        Self {
            summary: config.watch.summary.clone(),
            metrics: config.watch.metrics.clone(),
            log: config.watch.log.clone(),
            start: FailedStart {
                identity: identity_of(config),
                sandbox: is_sandbox,
                endpoint,
                input: only.map_or_else(ReadFile::default, |only| read_file(&only.file.input)),
                selection: only.map_or_else(Selection::default, |only| only.selection),
                tariff: config.watch.tariff.clone(),
            },
        }
    }

    /// Writes that the run could not start. What cannot be written is left: the error itself is what matters.
    fn write(self, error: &Error) {
        if let Some(log) = self.log {
            log_not_started(log, error);
        }
        let exit = error.exit();
        if exit == Exit::Busy {
            return;
        }
        let job = self.start.identity.job.clone();
        if let Some(path) = self.summary {
            let _ = self.start.replace(&path, error);
        }
        if let Some(path) = self.metrics.filter(|path| path.exists())
            && let Ok(file) = metrics_file(path, job, String::new(), None)
        {
            let _ = file.write(&Stats::default(), Duration::ZERO, Some(exit));
        }
    }
}
