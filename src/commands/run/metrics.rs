//! The metrics of a run: which file, and what all of them say of the run.

use std::path::PathBuf;

use super::service::ConnectedService;
use crate::base::error::{Error, Result, shown};
use crate::base::money::Tariff;
use crate::base::own_file;
use crate::config::WatchConfig;
use crate::observe::{MetricsFile, MetricsLabels};

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
    let named = path.clone();
    MetricsFile::new(path, labels, tariff).map_err(|error| {
        let cannot = Error::usage(format!("cannot write the metrics to `{}`", shown(&named)));
        own_file::cannot_make(&named, cannot.because(error))
    })
}
