//! What a run that cannot start leaves for those who watch it: tonight's failure in the place of yesterday's success.
//!
//! Only a file of the same kind is replaced, and none is made: a mistyped `--summary users.csv` must not cost anybody their
//! users, and a run that was refused leaves no files. Nothing is replaced if another run holds the output: these files may
//! be that run's own.

use std::path::PathBuf;
use std::time::Duration;

use super::{identity, log, metrics};
use crate::base::error::{Error, Exit};
use crate::config::{FilesConfig, LogConfig, RunConfig, ServiceConfig, UnconfiguredRun};
use crate::observe::{FailedStart, MetricsEnd, ReadFile};
use crate::selection::Selection;
use crate::telemetry::stats::Stats;

/// Leaves the failure of a run whose arguments, variables or settings file are wrong.
pub(crate) fn leave_failure(run: UnconfiguredRun, error: &Error) {
    FailureFiles::of_unconfigured(run).write(error);
}

/// Where a failure is written.
pub(super) struct FailureFiles {
    summary: Option<PathBuf>,
    metrics: Option<PathBuf>,
    log: Option<LogConfig>,
    start: FailedStart,
}

impl FailureFiles {
    /// Those of this run.
    pub(super) fn of(config: &RunConfig) -> Self {
        let (input, selection) = match &config.files {
            FilesConfig::One(one) => {
                let input = identity::named(&one.input.file.input);
                (input, one.input.selection)
            }
            FilesConfig::Parts(_) => (ReadFile::default(), Selection::default()),
        };
        Self {
            summary: config.watch.summary.clone(),
            metrics: config.watch.metrics.clone(),
            log: config.watch.log.clone(),
            start: FailedStart {
                identity: identity::of(config),
                sandbox: matches!(config.service, ServiceConfig::Sandbox),
                endpoint: match &config.service {
                    ServiceConfig::Real(service) => Some(service.endpoint.to_string()),
                    ServiceConfig::Sandbox => None,
                },
                input,
                selection,
                tariff: config.watch.tariff.clone(),
            },
        }
    }

    /// Those of a run whose settings are wrong.
    fn of_unconfigured(run: UnconfiguredRun) -> Self {
        Self {
            start: FailedStart {
                identity: identity::of_unconfigured(&run),
                sandbox: false,
                endpoint: None,
                input: ReadFile::default(),
                selection: Selection::default(),
                tariff: None,
            },
            summary: run.summary,
            metrics: run.metrics,
            log: run.log,
        }
    }

    /// Writes that the run could not start. What cannot be written is left: the error itself is what matters.
    pub(super) fn write(self, error: &Error) {
        if let Some(log) = self.log {
            log::not_started(log, error);
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
            && let Ok(file) = metrics::file(path, job, String::new(), None)
        {
            let _ = file.write(&Stats::default(), Duration::ZERO, Some(MetricsEnd { exit }));
        }
    }
}
