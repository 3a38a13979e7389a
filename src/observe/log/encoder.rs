//! Makes JSON of the lines, by `tracing`. This is the only file that uses it, and no other crate's events get into the log:
//! they come from other threads, which have no subscriber.

use std::io;
use std::mem::take;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tracing::level_filters::LevelFilter;
use tracing::{Dispatch, debug, dispatcher, error, info, warn};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

use super::end::RunEnded;
use super::level::LogLevel;
use super::line::{AttemptEnd, LogLine};
use super::start::{DecidedBy, InputOpened, RunLimits, RunStarted};
use crate::observe::json::rounded;
use crate::observe::numbers::utc;
use crate::raw_json::escape_unsafe;
use crate::telemetry::event::{FailureClass, InputEnd, Next};
use crate::telemetry::pace::{PaceCause, PaceChange};
use crate::verdict::Reason;

/// Makes JSON of lines.
pub(super) struct LogEncoder {
    page: LogPage,
    dispatch: Dispatch,
}

impl LogEncoder {
    /// An encoder that leaves out the lines below this level.
    pub(super) fn new(level: LogLevel) -> Self {
        let page = LogPage::default();
        let to = page.clone();
        let lines = tracing_subscriber::fmt()
            .with_max_level(filter(level))
            .with_timer(page.clone())
            .with_target(false)
            .with_writer(move || to.clone())
            .log_internal_errors(false)
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .with_span_list(false)
            .finish();
        Self {
            page,
            dispatch: Dispatch::new(lines),
        }
    }

    /// Adds this line, unless its level is left out.
    pub(super) fn add(&self, time: SystemTime, line: &LogLine) {
        self.page.lock().time = Some(time);
        dispatcher::with_default(&self.dispatch, || emit(line));
    }

    /// The bytes that were added and not taken yet.
    pub(super) fn len(&self) -> usize {
        self.page.lock().text.len()
    }

    /// Takes the lines that were added.
    pub(super) fn take(&self) -> Vec<u8> {
        take(&mut self.page.lock().text)
    }
}

const fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    }
}

/// Where `tracing` writes to, and where it has the time from: a line is written later than it happened.
#[derive(Clone, Default)]
struct LogPage(Arc<Mutex<LogText>>);

#[derive(Default)]
struct LogText {
    time: Option<SystemTime>,
    text: Vec<u8>,
}

impl LogPage {
    fn lock(&self) -> MutexGuard<'_, LogText> {
        // Nothing panics while it is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FormatTime for LogPage {
    fn format_time(&self, to: &mut Writer<'_>) -> std::fmt::Result {
        let time = self.lock().time.unwrap_or_else(SystemTime::now);
        to.write_str(&utc(time))
    }
}

impl io::Write for LogPage {
    /// A whole line. A file's name may contain characters that control the terminal of a reader.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        let safe = escape_unsafe(text.trim_end_matches('\n'));
        let mut page = self.lock();
        page.text.extend_from_slice(safe.as_bytes());
        page.text.push(b'\n');
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn seconds(time: Duration) -> f64 {
    rounded(time.as_secs_f64())
}

/// Writes a line in the form that the reference documents.
fn emit(line: &LogLine) {
    match line {
        LogLine::RunStarted(start) => run_started(start),
        LogLine::RunLimits(limits) => run_limits(limits),
        LogLine::InputOpened(input) => input_opened(input),
        LogLine::InputStarted { file, input } => {
            info!(event = "input_started", file, input = &**input);
        }
        LogLine::InputEnded { rows, bytes, end } => {
            let is_part = *end == InputEnd::Part;
            info!(event = "input_ended", rows, bytes, part = is_part);
        }
        LogLine::Attempt(attempt) => attempt_ended(attempt),
        LogLine::Paused(pause) => info!(
            event = "paused",
            seconds = seconds(pause.length),
            asked_seconds = pause.asked.map(seconds),
        ),
        LogLine::PaceChanged(change) => pace_changed(change),
        LogLine::ServiceDown(next) => {
            warn!(event = "service_down", next_try_seconds = seconds(*next));
        }
        LogLine::ServiceUp(lasted) => {
            info!(event = "service_up", down_seconds = seconds(*lasted));
        }
        LogLine::OutageDismissed(lasted) => {
            info!(
                event = "outage_dismissed",
                waited_seconds = seconds(*lasted)
            );
        }
        LogLine::KeyRenewed => info!(event = "key_renewed"),
        LogLine::AnswerLost(row) => warn!(event = "answer_lost", row = row.get()),
        LogLine::Warning(message) => warn!(event = "warning", message),
        LogLine::Stopping(reason) => warn!(event = "stopping", reason = reason.word()),
        LogLine::Draining {
            reason,
            in_flight,
            longest,
        } => info!(
            event = "draining",
            reason = reason.word(),
            in_flight,
            longest_seconds = seconds(*longest),
        ),
        LogLine::StoppedImmediately(reason) => {
            warn!(event = "stopped_immediately", reason = reason.word());
        }
        LogLine::Error(message) => error!(event = "error", message),
        LogLine::RunEnded(end) => run_ended(end),
        LogLine::LogReopened => info!(event = "log_reopened"),
        LogLine::LinesLost(lines) => warn!(event = "lines_lost", lines),
    }
}

fn run_started(start: &RunStarted) {
    let (approve_max, review_max) = match &start.decided_by {
        DecidedBy::Score {
            approve_max,
            review_max,
        } => (Some(approve_max.as_str()), Some(review_max.as_str())),
        DecidedBy::Level => (None, None),
    };
    let files = &start.files;
    info!(
        event = "run_started",
        version = env!("CARGO_PKG_VERSION"),
        job = start.job,
        sandbox = start.is_sandbox,
        endpoint = start.endpoint,
        plan = start.plan,
        output = files.output,
        rejects = files.rejects,
        changes = files.changes,
        report = files.report,
        summary = files.summary,
        metrics = files.metrics,
        ledger = files.ledger,
        limit = start.limit,
        sample_percent = start.sample_percent,
        rate = start.rate,
        concurrency = start.concurrency,
        retries = start.retries,
        resend_unknown = start.resend_unknown,
        timeout_seconds = seconds(start.timeout),
        max_wait_seconds = seconds(start.max_wait),
        price = start.price,
        decide_by = match start.decided_by {
            DecidedBy::Score { .. } => "score",
            DecidedBy::Level => "level",
        },
        approve_max,
        review_max,
    );
}

fn run_limits(limits: &RunLimits) {
    let RunLimits {
        max_calls,
        max_failures,
        keep_going,
        min_rows,
        max_invalid,
        accept_failures,
    } = limits;
    info!(
        event = "run_limits",
        max_calls, max_failures, keep_going, min_rows, max_invalid, accept_failures,
    );
}

fn input_opened(input: &InputOpened) {
    let InputOpened {
        input,
        format,
        bytes,
        mapping,
    } = input;
    info!(event = "input_opened", input, format, bytes, mapping);
}

fn attempt_ended(ended: &AttemptEnd) {
    let AttemptEnd {
        row,
        attempt,
        outcome,
        class,
        reason,
        status,
        latency,
        next,
    } = ended;
    let (next, wait) = match next {
        Some(Next::Again(wait)) => (Some("again"), Some(*wait)),
        Some(Next::GiveUp) => (Some("give_up"), None),
        Some(Next::Stop) => (Some("stop"), None),
        None => (None, None),
    };
    debug!(
        event = "attempt",
        row = row.get(),
        attempt,
        outcome,
        class = class.map(FailureClass::letter),
        reason = reason.map(Reason::word),
        status,
        latency_ms = latency.map(|latency| rounded(latency.as_secs_f64() * 1e3)),
        next,
        wait_seconds = wait.map(seconds),
    );
}

fn pace_changed(change: &PaceChange) {
    let PaceChange { pace, cause } = change;
    macro_rules! at {
        ($level:ident) => {
            $level!(
                event = "pace_changed",
                cause = cause.word(),
                calls_per_second_at_most = pace.rate.map(rounded),
                in_flight_at_most = pace.in_flight,
                search = pace.search.word(),
                limit_per_second = pace.limit.map(rounded),
                limit_in_flight = pace.limit_in_flight,
            )
        };
    }
    // Each answer may say something else.
    if *cause == PaceCause::Headers {
        at!(debug);
    } else {
        at!(info);
    }
}

fn run_ended(end: &RunEnded) {
    info!(
        event = "run_ended",
        exit_code = end.exit_code,
        stopped = end.stopped,
        elapsed_seconds = seconds(end.elapsed),
        rows_read = end.rows_read,
        rows_written = end.rows_written,
        rows_left = end.rows_left,
        approve = end.approve,
        review = end.review,
        block = end.block,
        undecided = end.undecided,
        failed = end.failed,
        known = end.known,
        duplicates = end.duplicates,
        calls = end.calls,
        answered = end.answered,
        retries = end.retries,
        throttled = end.throttled,
        unknown_outcome = end.unknown_outcome,
        maybe_billed_twice = end.maybe_billed_twice,
        lost = end.lost,
        paused_seconds = seconds(end.paused),
        down_seconds = seconds(end.down),
    );
}
