//! Metrics for Prometheus, in a text file for the node exporter's textfile collector: what an alert can use.
//!
//! The file is replaced whole every 15 seconds and at the end. It has counts and no value of a row.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::mem;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, UNIX_EPOCH};

use super::messages::warn;
use super::summary::{RunIdentity, earlier_content};
use crate::base::error::{Exit, system_words};
use crate::base::money::Money;
use crate::base::private_file::{self, Readers};
use crate::base::text::display;
use crate::telemetry::counts::{Cost, Counts};
use crate::telemetry::hub::Events;

const fn number(number: u64) -> f64 {
    number as f64
}

/// How every file of metrics of rescore starts: no other file is ever replaced.
const START: &[u8] = b"# HELP rescore_";
/// The node exporter is another user, so everybody may read the file: it has no secrets.
const READERS: Readers = Readers::of_any_group(0o644);
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
        READERS.of_new(&path)?;
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
        private_file::replace(&self.path, READERS, self.text(counts, end).as_bytes())
    }

    fn text(&self, counts: &Counts, end: Option<Exit>) -> String {
        let start = self.identity.start_time.duration_since(UNIX_EPOCH);
        let start = start.unwrap_or_default();
        let ended = end.map(|_| (start + counts.elapsed).as_secs_f64());
        let success = ended.filter(|_| end == Some(Exit::Complete));
        let (start, success) = (start.as_secs_f64(), success.or(self.last_success));
        let (code, lasted) = (end.map(|exit| exit.code().into()), counts.elapsed);
        let (rows, calls) = (&counts.rows, &counts.calls);
        let [read, written, failed] = [rows.read, rows.written, counts.failed.rows].map(number);
        let [sent, refused] = [calls.sent, calls.throttled].map(number);
        let [twice, lost] = [calls.maybe_billed_twice, calls.lost].map(number);
        let expected = self.identity.expected.as_ref();
        let rows_expected = expected.map(|it| number(it.rows));
        let calls_expected = expected.map(|it| number(it.calls));
        let money = |of: fn(&Cost) -> Money| Some(of(counts.cost.as_ref()?).as_f64());
        // One that is not known is left out. Totals are those of the last start.
        let metrics = [
            ("exit_code", "How the run ended.", code),
            ("start_time_seconds", "When it started.", Some(start)),
            ("end_time_seconds", "When it ended.", ended),
            (LAST_SUCCESS, "The last exit code 0.", success),
            ("duration_seconds", "So far.", Some(lasted.as_secs_f64())),
            ("rows_per_second", "On average.", counts.rows_per_second),
            ("rows_expected", "By the first pass.", rows_expected),
            ("calls_expected", "By the first pass.", calls_expected),
            ("rows_read_total", "Rows read.", Some(read)),
            ("rows_written_total", "Rows written.", Some(written)),
            ("rows_failed_total", "Without verdict.", Some(failed)),
            ("calls_total", "Calls made.", Some(sent)),
            ("calls_refused_total", "Throttled.", Some(refused)),
            ("billed_twice_at_most_total", "Rows, at most.", Some(twice)),
            ("answers_lost_total", "Paid answers.", Some(lost)),
            ("spent_total", "Money.", money(|cost| cost.spent)),
        ];
        let (labels, mut text) = (self.labels(), String::new());
        for (name, help, value) in metrics {
            if let Some(value) = value {
                let kind = if name.ends_with("_total") {
                    "counter"
                } else {
                    "gauge"
                };
                let _ = writeln!(text, "# HELP rescore_{name} {help}");
                let _ = writeln!(text, "# TYPE rescore_{name} {kind}");
                let _ = writeln!(text, "rescore_{name}{{{labels}}} {value}");
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
        // The built-in stand-in has another port each time.
        let endpoint = match &self.identity.endpoint {
            _ if self.identity.sandbox => "sandbox",
            endpoint => endpoint.as_deref().unwrap_or_default(),
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
    /// Writes the file now and at intervals. If the thread cannot be started, no metrics are written.
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
    let (mut warned, mut end) = (false, None);
    loop {
        let (now, tariff) = (events.elapsed(), file.identity.tariff.as_ref());
        let counts = events.with_counts(|counts| counts.as_of(now, tariff));
        if let Err(error) = file.write(&counts, end)
            // The rows matter more. Once is enough: the next attempt is only seconds away.
            && !mem::replace(&mut warned, true)
        {
            let (path, why) = (display(&file.path), system_words(&error));
            warn(&format!("cannot write the metrics to `{path}`: {why}"));
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
