//! Metrics for Prometheus, in a text file for the node exporter's textfile collector: what an alert can use.
//!
//! The file is replaced whole every 15 seconds and at the end. It has counts and no value of a row.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, UNIX_EPOCH};

use super::messages::warn;
use super::summary::{RunIdentity, earlier_content};
use crate::base::error::{Exit, system_words};
use crate::base::money::Money;
use crate::base::own_file;
use crate::base::text::shown;
use crate::telemetry::counts::Counts;
use crate::telemetry::hub::Events;

/// Numbers of the last start that only grow: their names without `rescore_` and `_total`, what they are, and their values.
/// One that is not known is left out.
fn counters(counts: &Counts) -> [(&'static str, &'static str, Option<f64>); 9] {
    let (rows, calls, cost) = (&counts.rows, &counts.calls, counts.cost.as_ref());
    let (spent, most) = (cost.map(|it| it.spent), cost.map(|it| it.spent_at_most));
    let twice = calls.maybe_billed_twice;
    [
        ("rows_read", "Rows read.", number(rows.read)),
        ("rows_written", "Rows written.", number(rows.written)),
        (
            "rows_failed",
            "Without verdict.",
            number(counts.failed.rows),
        ),
        ("calls", "Calls made.", number(calls.sent)),
        ("calls_refused", "Throttled.", number(calls.throttled)),
        ("billed_twice_at_most", "Rows, at most.", number(twice)),
        ("answers_lost", "Paid answers.", number(calls.lost)),
        ("spent", "Money.", spent.map(Money::as_f64)),
        ("spent_at_most", "Money, at most.", most.map(Money::as_f64)),
    ]
}

#[allow(
    clippy::cast_precision_loss,
    clippy::unnecessary_wraps,
    reason = "Prometheus has doubles only, and others are not always known"
)]
const fn number(number: u64) -> Option<f64> {
    Some(number as f64)
}

/// How a file of ours starts: only such a file is ever replaced.
const START: &[u8] = b"# HELP rescore_";
/// The node exporter is another user, so everybody may read the file: it has no secrets.
const MODE: u32 = 0o644;
/// The metric that outlives a run that fails.
const LAST_SUCCESS: &str = "last_success_time_seconds";

/// The file of metrics of one run.
#[derive(Debug)]
pub(crate) struct MetricsFile {
    path: PathBuf,
    identity: RunIdentity,
    /// When a run last ended well, in seconds since 1970.
    last_success: Option<f64>,
}

impl MetricsFile {
    /// A file at this path, for this run.
    ///
    /// # Errors
    /// There is a file that does not hold our metrics, or none can be made there: it is better to know before a night than
    /// after it.
    pub(crate) fn new(path: PathBuf, identity: RunIdentity) -> io::Result<Self> {
        if fs::metadata(&path).is_ok_and(|there| !there.is_file()) {
            return Err(io::Error::other("it is not a regular file"));
        }
        let earlier = earlier_content(&path, "metrics", |text| text.starts_with(START))?;
        let last_success = last_success(&earlier);
        drop(own_file::beside(&path, MODE)?);
        Ok(Self {
            path,
            identity,
            last_success,
        })
    }

    /// Replaces the file with the metrics of this moment.
    ///
    /// # Errors
    /// It cannot be written. The earlier file is still there then.
    pub(crate) fn write(&self, counts: &Counts, end: Option<Exit>) -> io::Result<()> {
        own_file::replace(&self.path, MODE, self.text(counts, end).as_bytes())
    }

    fn text(&self, counts: &Counts, end: Option<Exit>) -> String {
        let start = self.identity.start_time.duration_since(UNIX_EPOCH);
        let start = start.unwrap_or_default();
        let ended = end.map(|_| (start + counts.elapsed).as_secs_f64());
        let success = ended.filter(|_| end == Some(Exit::Complete));
        let (start, success) = (start.as_secs_f64(), success.or(self.last_success));
        let (code, lasted) = (end.map(|exit| exit.code().into()), counts.elapsed);
        let gauges = [
            ("exit_code", "How the run ended.", code),
            ("start_time_seconds", "When it started.", Some(start)),
            ("end_time_seconds", "When it ended.", ended),
            (LAST_SUCCESS, "The last exit code 0.", success),
            ("duration_seconds", "So far.", Some(lasted.as_secs_f64())),
            ("rows_per_second", "On average.", counts.rows_per_second),
        ];
        let gauges = gauges.map(|(name, help, value)| (name.to_owned(), help, "gauge", value));
        let counters = counters(counts)
            .map(|(name, help, value)| (format!("{name}_total"), help, "counter", value));
        let (labels, mut text) = (self.labels(), String::new());
        for (name, help, kind, value) in gauges.into_iter().chain(counters) {
            if let Some(value) = value {
                let name = format!("rescore_{name}");
                let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
                let _ = writeln!(text, "{name}{{{labels}}} {value}");
            }
        }
        text
    }

    fn labels(&self) -> String {
        let escaped = |text: &str| {
            text.replace('\\', r"\\")
                .replace('"', "\\\"")
                .replace('\n', r"\n")
        };
        let endpoint = match (self.identity.sandbox, &self.identity.endpoint) {
            // The built-in stand-in has another port each time.
            (true, _) => "sandbox",
            (false, endpoint) => endpoint.as_deref().unwrap_or_default(),
        };
        let (job, endpoint) = (escaped(&self.identity.job), escaped(endpoint));
        format!("job=\"{job}\",endpoint=\"{endpoint}\"")
    }
}

/// When a run last ended well, by the file of an earlier run.
fn last_success(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?;
    let is_it = |line: &&str| !line.starts_with('#') && line.contains(LAST_SUCCESS);
    let line = text.lines().find(is_it)?;
    line.rsplit(' ').next()?.parse().ok()
}

/// How often the file is replaced: node exporters are usually asked every 15 to 60 seconds.
const EVERY: Duration = Duration::from_secs(15);

/// Writes metrics until the run ends.
pub(crate) struct MetricsThread {
    /// `None` if the thread could not be started.
    thread: Option<JoinHandle<()>>,
    end: Sender<Exit>,
}

impl MetricsThread {
    /// Writes the file now and starts to replace it at intervals. A run whose thread cannot be started writes none.
    pub(crate) fn start(file: MetricsFile, events: Events) -> Self {
        let (end, ended) = channel();
        let thread = std::thread::Builder::new().name("metrics".to_owned());
        let thread = thread.spawn(move || write(&file, &events, &ended)).ok();
        Self { thread, end }
    }

    /// Writes the file for the last time.
    pub(crate) fn finish(self, exit: Exit) {
        let _ = self.end.send(exit);
        let _ = self.thread.map(JoinHandle::join);
    }
}

fn write(file: &MetricsFile, events: &Events, ended: &Receiver<Exit>) {
    let mut warned = false;
    let mut end = None;
    loop {
        let (now, tariff) = (events.elapsed(), file.identity.tariff.as_ref());
        let counts = events.with_counts(|counts| counts.as_of(now, tariff));
        if let Err(error) = file.write(&counts, end)
            && !warned
        {
            // The rows matter more. Once is enough: the next attempt is only seconds away.
            warn(&format!(
                "cannot write the metrics to `{}`: {}",
                shown(&file.path),
                system_words(&error)
            ));
            warned = true;
        }
        if end.is_some() {
            return;
        }
        end = match ended.recv_timeout(EVERY) {
            Ok(end) => Some(end),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return,
        };
    }
}
