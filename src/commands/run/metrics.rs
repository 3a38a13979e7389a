//! The metrics of a run: which file, and what all of them say of the run.

use std::path::{Path, PathBuf};

use super::service::ConnectedService;
use crate::base::error::{Error, Result, shown};
use crate::base::money::Tariff;
use crate::config::{RunConfig, WatchConfig};
use crate::observe::{MetricsFile, MetricsLabels};

/// What a job is called that writes to standard output and has no name.
const NAMELESS: &str = "rescore";

/// The job's name: `--job`, or the output's name.
pub(super) fn job(config: &RunConfig) -> String {
    job_name(config.watch.job.clone(), config.files.output())
}

/// The job's name, by what was given for it and for the output.
pub(super) fn job_name(named: Option<String>, output: Option<&Path>) -> String {
    let output = output.and_then(Path::file_name);
    named
        .or_else(|| output.map(|name| name.to_string_lossy().into_owned()))
        .unwrap_or_else(|| NAMELESS.to_owned())
}

/// The file of metrics of a run that starts, if it keeps any.
///
/// # Errors
/// As for [`file()`].
pub(super) fn of_run(
    job: String,
    service: &ConnectedService,
    watch: &WatchConfig,
) -> Result<Option<MetricsFile>> {
    // The built-in stand-in has another port each time.
    let endpoint = if service.stand_in.is_some() {
        "sandbox".to_owned()
    } else {
        service.endpoint.to_string()
    };
    let path = watch.metrics.clone();
    path.map(|path| file(path, job, endpoint, watch.tariff.clone()))
        .transpose()
}

/// The file of metrics.
///
/// # Errors
/// Exit code 2: there is a file that is not ours.
pub(super) fn file(
    path: PathBuf,
    job: String,
    endpoint: String,
    tariff: Option<Tariff>,
) -> Result<MetricsFile> {
    let labels = MetricsLabels { job, endpoint };
    let shown = shown(&path);
    MetricsFile::new(path, labels, tariff).map_err(|error| {
        Error::usage(format!("cannot write the metrics to `{shown}`")).because(error)
    })
}
