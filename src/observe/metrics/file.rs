//! The file of metrics: what all of them have in common, and how it is replaced.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prometheus::{Encoder as _, TextEncoder};

use super::families::{Families, add_cost, add_counts};
use crate::base::error::Exit;
use crate::base::money::Tariff;
use crate::base::own_file;
use crate::telemetry::stats::Stats;

/// How a file of ours starts: only such a file is ever replaced.
const START: &[u8] = b"# HELP rescore_";
/// The node exporter is another user, so everybody may read the file: it has no secrets.
const MODE: u32 = 0o644;
/// The metric that outlives a run that fails.
const LAST_SUCCESS: &str = "rescore_last_success_time_seconds";

/// What all metrics of a run have in common.
#[derive(Debug, Clone)]
pub(crate) struct MetricsLabels {
    /// The job's name.
    pub(crate) job: String,
    /// The service's address; empty where the run did not get as far.
    pub(crate) endpoint: String,
}

/// The file of metrics of one run.
#[derive(Debug)]
pub(crate) struct MetricsFile {
    path: PathBuf,
    labels: MetricsLabels,
    tariff: Option<Tariff>,
    started: SystemTime,
    /// When a run last ended well, in seconds since 1970.
    last_success: Option<f64>,
}

impl MetricsFile {
    /// A file at this path, for a run that starts now.
    ///
    /// # Errors
    /// There is a file that does not hold our metrics, or none can be made there: it is better to know before a night than
    /// after it.
    pub(crate) fn new(
        path: PathBuf,
        labels: MetricsLabels,
        tariff: Option<Tariff>,
    ) -> io::Result<Self> {
        let last_success = earlier(&path)?.as_deref().and_then(last_success);
        drop(own_file::beside(&path, MODE)?);
        Ok(Self {
            path,
            labels,
            tariff,
            started: SystemTime::now(),
            last_success,
        })
    }

    /// Replaces the file with the metrics of this moment.
    ///
    /// # Errors
    /// It cannot be written. The earlier file is still there then.
    pub(crate) fn write(&self, stats: &Stats, now: Duration, end: Option<Exit>) -> io::Result<()> {
        let text = self.text(stats, now, end)?;
        own_file::replace(&self.path, MODE, &text)
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn text(&self, stats: &Stats, now: Duration, end: Option<Exit>) -> io::Result<Vec<u8>> {
        let common = [
            ("job", self.labels.job.as_str()),
            ("endpoint", self.labels.endpoint.as_str()),
        ];
        let mut families = Families::new(&common);
        families.gauge_with(
            "rescore_build_info",
            "The version of rescore.",
            &[("version", env!("CARGO_PKG_VERSION"))],
            1.0,
        );
        families.gauge(
            "rescore_start_time_seconds",
            "When the run started.",
            seconds(self.started),
        );
        let ended = self.started + now;
        if let Some(exit) = end {
            families.gauge(
                "rescore_end_time_seconds",
                "When the run ended.",
                seconds(ended),
            );
            families.gauge(
                "rescore_exit_code",
                "The exit code of the run.",
                exit.code().into(),
            );
        }
        let is_success = end == Some(Exit::Complete);
        if let Some(time) = is_success.then(|| seconds(ended)).or(self.last_success) {
            families.gauge(
                LAST_SUCCESS,
                "When a run last ended with exit code 0.",
                time,
            );
        }
        add_counts(&mut families, stats, now);
        if let Some(tariff) = &self.tariff {
            add_cost(&mut families, stats, tariff);
        }
        let mut text = Vec::new();
        // A family without samples, as where no row has failed, is not an error but nothing to write.
        let families: Vec<_> = { families.finish().into_iter() }
            .filter(|family| !family.get_metric().is_empty())
            .collect();
        let encoded = TextEncoder::new().encode(&families, &mut text);
        encoded.map_err(io::Error::other)?;
        Ok(text)
    }
}

fn seconds(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH)
        .map_or(0.0, |since| since.as_secs_f64())
}

/// The file that is there, if there is one.
///
/// # Errors
/// It is not ours.
fn earlier(path: &Path) -> io::Result<Option<Vec<u8>>> {
    // Reading a pipe would wait for somebody to write.
    if fs::metadata(path).is_ok_and(|there| !there.is_file()) {
        return Err(io::Error::other("it is not a regular file"));
    }
    match fs::read(path) {
        Ok(text) if text.is_empty() || text.starts_with(START) => Ok(Some(text)),
        Ok(_) => Err(io::Error::other("its content is not metrics of rescore")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// When a run last ended well, by the file of an earlier run.
fn last_success(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?;
    let line = text.lines().find(|line| line.starts_with(LAST_SUCCESS))?;
    line.rsplit(' ').next()?.parse().ok()
}
