//! The log of a run: where it goes, what it says of the run before the first call, and what SIGHUP means for it.

use std::io::IsTerminal as _;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::super::signals::OnHangUp;
use super::ledger::LedgerPlan;
use super::part::PartToRun;
use crate::base::error::{Error, Result, shown};
use crate::base::own_file;
use crate::config::{FilesConfig, LogConfig, RunConfig, ServiceConfig, WatchConfig};
use crate::input::Input;
use crate::observe::{
    DecidedBy, InputOpened, LogLine, LogQueue, LogSink, LogTarget, RunEnded, RunFiles, RunLimits,
    RunLog, RunStarted, log_at_once,
};
use crate::pace::FailureLimit;
use crate::service::Plan;
use crate::telemetry::event::CancelReason;

/// How long the last lines may take when a signal ends the run immediately.
const LAST_LINES: Duration = Duration::from_millis(250);

/// The log of a run, which is not open yet.
pub(super) struct LogPlan {
    config: LogConfig,
    queue: LogQueue,
    start: RunStarted,
    limits: RunLimits,
}

impl LogPlan {
    /// The log of this run with this name, if it keeps one.
    pub(super) fn of(config: &RunConfig, job: &str) -> Option<Self> {
        Some(Self {
            config: config.watch.log.clone()?,
            queue: LogQueue::default(),
            start: run_started(config, job),
            limits: run_limits(config),
        })
    }

    /// What signals do with it.
    pub(super) fn signals(&self) -> LogSignals {
        let is_file = self.config.target.file().is_some();
        LogSignals {
            queue: self.queue.clone(),
            hang_up: if is_file && !has_terminal() {
                OnHangUp::ReopensLog
            } else {
                OnHangUp::Ends
            },
        }
    }

    /// Opens it, and logs the start of the run.
    ///
    /// # Errors
    /// Exit code 2: it cannot be opened, or it is not a log of ours.
    pub(super) fn open<'a>(
        mut self,
        inputs: impl Iterator<Item = &'a PartToRun>,
        ledger: &LedgerPlan,
        concurrency: NonZeroUsize,
    ) -> Result<RunLog> {
        self.start.files.ledger =
            { ledger.shown() }.map(|path| path.to_string_lossy().into_owned());
        self.start.concurrency = concurrency.get();
        let sink = LogSink::open(&self.config.target)
            .map_err(|error| cannot_open(&self.config.target, error))?;
        let log = RunLog::start(self.queue, sink, self.config.level);
        log.push(LogLine::RunStarted(Box::new(self.start)));
        if self.limits != RunLimits::default() {
            log.push(LogLine::RunLimits(Box::new(self.limits)));
        }
        for PartToRun { facts, layout, .. } in inputs {
            log.push(LogLine::InputOpened(Box::new(InputOpened {
                input: match &facts.source {
                    Input::File(path) => Some(text_of(path)),
                    Input::Stdin => None,
                },
                format: layout.format.extension(),
                bytes: facts.size,
                mapping: facts.mapping.clone(),
            })));
        }
        Ok(log)
    }
}

fn cannot_open(target: &LogTarget, error: std::io::Error) -> Error {
    let name = target.file().map(shown).unwrap_or_default();
    let not_ours = own_file::is_not_ours(&error);
    let error = Error::usage(format!("cannot write the log to `{name}`")).because(error);
    if not_ours {
        error.hint("give `--log` another name: rescore adds only to logs of its own")
    } else {
        match target.file() {
            Some(path) => own_file::cannot_make(path, error),
            None => error,
        }
    }
}

/// A file's name for programs: JSON escapes what it has to.
fn text_of(path: &Path) -> String {
    path.display().to_string()
}

/// Whether any stream is a terminal, whose end SIGHUP may mean.
fn has_terminal() -> bool {
    std::io::stdin().is_terminal()
        || std::io::stdout().is_terminal()
        || std::io::stderr().is_terminal()
}

/// What signals do with the log of a run.
#[derive(Clone)]
pub(super) struct LogSignals {
    queue: LogQueue,
    pub(super) hang_up: OnHangUp,
}

impl LogSignals {
    /// The file may have been renamed.
    pub(super) fn reopen(&self) {
        self.queue.reopen();
    }

    /// The process ends now.
    pub(super) fn stopped_immediately(&self, reason: CancelReason) {
        let last = LogLine::StoppedImmediately(reason);
        // Nobody is left to care how many lines are missing.
        let _ = self.queue.end(Some(last), LAST_LINES);
    }
}

/// Adds to the log of an earlier night that this run could not start. No log is made for it.
pub(super) fn log_not_started(config: LogConfig, error: &Error) {
    let LogConfig { target, level } = config;
    if target.file().is_none_or(Path::exists)
        && let Ok(sink) = LogSink::open(&target)
    {
        let end = RunEnded::not_started(error.exit());
        let lines = [
            LogLine::Error(error.log_words()),
            LogLine::RunEnded(Box::new(end)),
        ];
        log_at_once(sink, level, &lines);
    }
}

fn run_started(config: &RunConfig, job: &str) -> RunStarted {
    let RunConfig {
        files,
        service,
        timeouts,
        plan,
        pace,
        policy,
        watch,
        ..
    } = config;
    let selection = files.only_input().map(|only| only.selection);
    let selection = selection.unwrap_or_default();
    RunStarted {
        job: job.to_owned(),
        is_sandbox: matches!(service, ServiceConfig::Sandbox),
        endpoint: match service {
            ServiceConfig::Real(service) => Some(service.endpoint.to_string()),
            ServiceConfig::Sandbox => None,
        },
        plan: match plan {
            Plan::Paid { .. } => "paid",
            Plan::Free => "free",
        },
        files: run_files(files, watch),
        limit: selection.limit.map(Into::into),
        sample_percent: selection.sample.map(crate::selection::Sample::percent),
        rate: pace.rate.to_string(),
        concurrency: 0,
        retries: pace.retries,
        resend_unknown: pace.resends,
        timeout: timeouts.call,
        max_wait: pace.max_wait,
        price: watch.tariff.as_ref().map(|tariff| tariff.price.to_string()),
        decided_by: policy
            .thresholds()
            .map_or(DecidedBy::Level, |thresholds| DecidedBy::Score {
                approve_max: thresholds.approve_max().to_string(),
                review_max: thresholds.review_max().to_string(),
            }),
    }
}

fn run_limits(config: &RunConfig) -> RunLimits {
    let RunConfig {
        limits,
        budget,
        watch,
        ..
    } = config;
    RunLimits {
        max_calls: budget.calls.map(|limit| limit.calls().get()),
        max_failures: budget.failures.0.map(|limit| match limit {
            FailureLimit::Rows(rows) => rows.to_string(),
            FailureLimit::Percent(percent) => format!("{percent}%"),
        }),
        keep_going: budget.keep_going.then_some(true),
        min_rows: limits.min_rows.map(Into::into),
        max_invalid: limits.max_invalid.map(|most| most.to_string()),
        accept_failures: watch.accepted.0.map(|most| most.to_string()),
    }
}

/// The files of a run. Of several outputs only the directory is known before the first of them.
fn run_files(files: &FilesConfig, watch: &WatchConfig) -> RunFiles {
    let name = |path: &Option<PathBuf>| path.as_deref().map(text_of);
    RunFiles {
        output: files.name().map(text_of),
        rejects: name(&files.rejects),
        changes: name(&files.changes),
        report: name(&files.report),
        summary: name(&watch.summary),
        metrics: name(&watch.metrics),
        ledger: None,
    }
}
