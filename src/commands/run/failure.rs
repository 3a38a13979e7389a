//! What a run that cannot start leaves for those who watch it: tonight's failure in the place of yesterday's success.
//!
//! Only a file of the same kind is replaced, and none is made: a mistyped `--summary users.csv` must not cost anybody their
//! users, and a run that was refused leaves no files. Nothing is replaced if another run holds the output: these files may
//! be that run's own.

use std::path::PathBuf;
use std::time::Duration;

use super::{log, metrics};
use crate::base::error::{Error, Exit};
use crate::config::{LogConfig, RunConfig};
use crate::observe::{FailedStart, MetricsEnd};
use crate::telemetry::stats::Stats;

/// Where a failure is written.
pub(super) struct FailureFiles {
    summary: Option<PathBuf>,
    metrics: Option<PathBuf>,
    log: Option<LogConfig>,
    job: String,
}

impl FailureFiles {
    /// Those of this run.
    pub(super) fn of(config: &RunConfig) -> Self {
        Self {
            summary: config.watch.summary.clone(),
            metrics: config.watch.metrics.clone(),
            log: config.watch.log.clone(),
            job: metrics::job(config),
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
        if let Some(path) = self.summary {
            let _ = FailedStart { error }.replace(&path);
        }
        if let Some(path) = self.metrics.filter(|path| path.exists())
            && let Ok(file) = metrics::file(path, self.job, String::new(), None)
        {
            let _ = file.write(&Stats::default(), Duration::ZERO, Some(MetricsEnd { exit }));
        }
    }
}
