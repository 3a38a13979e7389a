//! Metrics for Prometheus, in a text file for the node exporter's textfile collector: the numbers that an alert can use.
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
use crate::base::private_file::{self, Readers};
use crate::base::text::display;
use crate::telemetry::counts::{BudgetNumbers, Cost, Counts, Events};
use crate::verdict::Decision;

const fn number(number: u64) -> f64 {
    number as f64
}

/// How every file of metrics of rescore starts: no other file is ever replaced.
const METRICS_START: &[u8] = b"# HELP rescore_";
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
        let earlier = earlier_content(&path, "metrics", |text| text.starts_with(METRICS_START))?;
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
    pub(crate) fn write(
        &self,
        counts: &Counts,
        measured: &Measured,
        end: Option<Exit>,
    ) -> io::Result<()> {
        let text = self.text(counts, measured, end);
        private_file::replace(&self.path, READERS, text.as_bytes())
    }

    fn text(&self, counts: &Counts, measured: &Measured, end: Option<Exit>) -> String {
        let mut text = MetricsText {
            labels: self.labels(),
            text: String::new(),
        };
        // What is not known is left out.
        for (name, value) in self.numbers(counts, end) {
            text.family(name, "", value.map(|value| ("", value)));
        }
        let decisions = Decision::ALL.map(|decision| {
            let rows = counts.decisions.of(Some(decision));
            (decision.word(), number(rows))
        });
        text.family("rows_total", "decision", decisions);
        let reasons = counts.failed.reasons.iter();
        let reasons = reasons.map(|(reason, rows)| (reason.word(), number(*rows)));
        text.family("rows_failed_total", "reason", reasons);
        let states = states(counts, measured.waits_for_ledger, end.is_some());
        text.family("state", "state", states);
        let left: fn(&BudgetNumbers) -> f64 = |budget| budget.left;
        for (name, is_money, of) in [
            ("budget_calls_left", false, left),
            ("budget_money_left", true, left),
            ("budget_money_used", true, |budget| budget.used),
        ] {
            let budgets = measured.budgets.iter();
            let budgets = budgets.filter(|budget| budget.is_money == is_money);
            text.family(name, "per", budgets.map(|budget| (budget.per, of(budget))));
        }
        let version = self.identity.rescore_version;
        text.family("build_info", "version", [(version, 1.0)]);
        text.text
    }

    /// The metrics of one number.
    fn numbers(
        &self,
        counts: &Counts,
        end: Option<Exit>,
    ) -> impl IntoIterator<Item = (&'static str, Option<f64>)> {
        let start = self.identity.start_time.duration_since(UNIX_EPOCH);
        let start = start.unwrap_or_default();
        let ended = end.map(|_| (start + counts.elapsed).as_secs_f64());
        let success = ended.filter(|_| end == Some(Exit::Complete));
        let (rows, calls) = (&counts.rows, &counts.calls);
        let count = |count| Some(number(count));
        let expected = self.identity.expected.as_ref();
        let money = |of: fn(&Cost) -> Money| Some(of(counts.cost.as_ref()?).as_f64());
        [
            ("exit_code", end.map(|exit| exit.code().into())),
            ("start_time_seconds", Some(start.as_secs_f64())),
            ("end_time_seconds", ended),
            (LAST_SUCCESS, success.or(self.last_success)),
            ("duration_seconds", Some(counts.elapsed.as_secs_f64())),
            ("rows_per_second", counts.rows_per_second),
            ("rows_expected", expected.map(|it| number(it.rows))),
            ("calls_expected", expected.map(|it| number(it.calls))),
            ("rows_read_total", count(rows.read)),
            ("rows_written_total", count(rows.written)),
            ("calls_total", count(calls.sent)),
            ("calls_refused_total", count(calls.throttled)),
            (
                "billed_twice_at_most_total",
                count(calls.maybe_billed_twice),
            ),
            ("answers_lost_total", count(calls.lost)),
            ("spent_total", money(|cost| cost.spent)),
            ("verdicts_cost", money(|cost| cost.verdicts)),
        ]
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

/// What each metric means, for people who see it in Prometheus.
const HELP: &str = include_str!("metrics.txt");

/// The text of the metrics, as it grows.
struct MetricsText {
    /// The labels of all samples.
    labels: String,
    text: String,
}

impl MetricsText {
    /// Adds a metric with a number for each value of a label, which one without values lacks; nothing if there are no numbers.
    fn family<'a>(
        &mut self,
        name: &str,
        label: &str,
        samples: impl IntoIterator<Item = (&'a str, f64)>,
    ) {
        let mut samples = samples.into_iter().peekable();
        if samples.peek().is_none() {
            return;
        }
        let mut help = HELP.lines().filter_map(|line| line.split_once(' '));
        let help = help.find(|(of, _)| *of == name);
        let help = help.map(|(_, help)| help).unwrap_or_default();
        let kind = if name.ends_with("_total") {
            "counter"
        } else {
            "gauge"
        };
        let _ = writeln!(self.text, "# HELP rescore_{name} {help}");
        let _ = writeln!(self.text, "# TYPE rescore_{name} {kind}");
        for (word, value) in samples {
            let mut labels = self.labels.clone();
            if !label.is_empty() {
                let _ = write!(labels, ",{label}=\"{word}\"");
            }
            let _ = writeln!(self.text, "rescore_{name}{{{labels}}} {value}");
        }
    }
}

/// The states of a run, each with 1 if the run is in it, and 0 for the others: it is in the first one that is true.
fn states(counts: &Counts, waits_for_ledger: bool, ended: bool) -> [(&'static str, f64); 7] {
    let state = &counts.state;
    let is_alone = state.taken == 0 || counts.calls.in_flight > 0;
    let mut is_found = false;
    [
        ("ended", ended),
        ("stopping", counts.cancelled.is_some()),
        ("waiting_for_ledger", waits_for_ledger),
        ("down", state.outage.is_some()),
        ("paused", counts.pause_left(counts.elapsed).is_some()),
        ("waiting_for_other_runs", !is_alone),
        ("calling", true),
    ]
    .map(|(word, is_true)| {
        let is_first = is_true && !is_found;
        is_found |= is_true;
        (word, number(is_first.into()))
    })
}

/// What is measured of a run beside its counts.
#[derive(Debug, Default)]
pub(crate) struct Measured {
    /// Whether the ledger's server is waited for.
    pub(crate) waits_for_ledger: bool,
    /// What budgets leave.
    pub(crate) budgets: Vec<BudgetNumbers>,
}

/// Measures it.
pub(crate) type Measure = Box<dyn Fn() -> Measured + Send>;

/// When a run last ended well, by the file of an earlier run.
fn last_success(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?;
    let is_it = |line: &&str| !line.starts_with('#') && line.contains(LAST_SUCCESS);
    let line = text.lines().find(is_it)?;
    line.rsplit(' ').next()?.parse().ok()
}

/// How often the file is replaced: node exporters are usually asked every 15 to 60 seconds.
const WRITE_INTERVAL: Duration = Duration::from_secs(15);

/// Writes metrics until the run ends.
pub(crate) struct MetricsThread {
    /// `None` if the thread could not be started.
    thread: Option<JoinHandle<()>>,
    end: Sender<Exit>,
}

impl MetricsThread {
    /// Writes the file now and at intervals. If the thread cannot be started, no metrics are written.
    pub(crate) fn start(file: MetricsFile, events: Events, measure: Measure) -> Self {
        let (end, ended) = channel();
        let thread = std::thread::Builder::new().name("metrics".to_owned());
        let thread = thread
            .spawn(move || write(&file, &events, &measure, &ended))
            .ok();
        Self { thread, end }
    }

    /// Writes the file for the last time.
    pub(crate) fn finish(self, exit: Exit) {
        let _ = self.end.send(exit);
        let _ = self.thread.map(JoinHandle::join);
    }
}

fn write(file: &MetricsFile, events: &Events, measure: &Measure, ended: &Receiver<Exit>) {
    let (mut warned, mut end) = (false, None);
    loop {
        let (now, tariff) = (events.elapsed(), file.identity.tariff.as_ref());
        let counts = events.with_counts(|counts| counts.as_of(now, tariff));
        if let Err(error) = file.write(&counts, &measure(), end)
            // The rows matter more. Once is enough: the next attempt is only seconds away.
            && !warned
        {
            warned = true;
            let (path, why) = (display(&file.path), system_words(&error));
            warn(&format!("cannot write the metrics to `{path}`: {why}"));
        }
        if end.is_some() {
            return;
        }
        end = match ended.recv_timeout(WRITE_INTERVAL) {
            Ok(end) => Some(end),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::event::{CancelReason, Event};
    use crate::telemetry::pace::Pause;

    #[test]
    fn the_state_is_what_holds_all_calls_back() {
        let mut counts = Counts::default();
        let mut after = |event: Event, waits_for_ledger| {
            counts.apply(Duration::ZERO, &event);
            let states = states(&counts, waits_for_ledger, false);
            let all: f64 = states.iter().map(|(_, value)| value).sum();
            assert!((all - 1.0).abs() < f64::EPSILON, "{states:?}");
            states
                .into_iter()
                .find(|(_, value)| *value > 0.0)
                .unwrap()
                .0
        };
        assert_eq!(after(Event::KeyRenewed, false), "calling");
        let others = after(Event::RowsTaken { rows: 2 }, false);
        assert_eq!(others, "waiting_for_other_runs");
        let pause = Pause {
            length: Duration::from_secs(60),
            asked: None,
        };
        let by = Box::default();
        assert_eq!(after(Event::CallsPaused { pause, by }, false), "paused");
        assert_eq!(after(Event::KeyRenewed, true), "waiting_for_ledger");
        let stop = Event::CancelBegan(CancelReason::Until);
        assert_eq!(after(stop, true), "stopping");
    }

    #[test]
    fn each_metric_has_a_sentence() {
        for line in HELP.lines() {
            let (name, help) = line.split_once(' ').unwrap();
            assert!(help.ends_with('.') && help.contains(' '), "{name}");
        }
    }
}
