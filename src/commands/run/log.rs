//! The log of a run: where it goes, what it says of the run before the first call, and what SIGHUP means for it.

use std::io::IsTerminal as _;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use super::super::signals::OnHangUp;
use super::files::RunPart;
use crate::base::error::{Error, Result, shown};
use crate::base::own_file;
use crate::config::RunConfig;
use crate::input::Input;
use crate::observe::{LogFile, LogInbox, LogLine, LogWriter, RunIdentity, RunLog, log_channel};
use crate::pace::FailureLimit;
use crate::service::Plan;
use crate::telemetry::counts::Counts;
use crate::telemetry::event::CancelReason;

/// How long the last lines may take when a signal ends the run immediately.
const LAST_LINES: Duration = Duration::from_millis(250);

/// The log of a run, which is not open yet.
pub(super) struct LogPlan {
    path: PathBuf,
    writer: LogWriter,
    inbox: LogInbox,
    settings: Value,
    files: Value,
}

impl LogPlan {
    /// The log of this run, if it keeps one.
    pub(super) fn of(config: &RunConfig) -> Option<Self> {
        let path = config.watch.log.clone()?;
        let (writer, inbox) = log_channel();
        Some(Self {
            path,
            writer,
            inbox,
            settings: settings(config),
            files: files(config),
        })
    }

    /// What signals do with it.
    pub(super) fn signals(&self) -> LogSignals {
        LogSignals {
            writer: self.writer.clone(),
            hang_up: if has_terminal() {
                OnHangUp::Ends
            } else {
                OnHangUp::ReopensLog
            },
        }
    }

    /// Opens it, and logs the start of the run.
    ///
    /// # Errors
    /// Exit code 2: it cannot be opened, or it is not a log of ours.
    pub(super) fn open<'a>(
        self,
        identity: &RunIdentity,
        parts: impl Iterator<Item = &'a RunPart>,
        ledger: Option<&Path>,
        concurrency: NonZeroUsize,
    ) -> Result<RunLog> {
        let file = LogFile::open(self.path.clone());
        let file = file.map_err(|error| cannot_open(&self.path, error))?;
        let log = RunLog::start(self.writer.clone(), self.inbox, file);
        let inputs: Vec<_> = parts.filter_map(input).collect();
        self.writer.push(LogLine::RunStarted(json!({
            "run": identity,
            "inputs": inputs,
            "files": self.files,
            "ledger": ledger.map(text_of),
            "concurrency": concurrency,
            "settings": self.settings,
        })));
        Ok(log)
    }
}

fn cannot_open(path: &Path, error: std::io::Error) -> Error {
    let not_ours = own_file::is_not_ours(&error);
    let cannot = Error::usage(format!("cannot write the log to `{}`", shown(path)));
    let error = cannot.because(error);
    if not_ours {
        error.hint("give `--log` another name: rescore adds only to logs of its own")
    } else {
        own_file::cannot_make(path, error)
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
    writer: LogWriter,
    pub(super) hang_up: OnHangUp,
}

impl LogSignals {
    /// The file may have been renamed.
    pub(super) fn reopen(&self) {
        self.writer.reopen();
    }

    /// The process ends now.
    pub(super) fn stopped_immediately(&self, reason: CancelReason) {
        let last = LogLine::StoppedImmediately(reason);
        // Nobody is left to care how many lines are missing.
        let _ = self.writer.end(Some(last), LAST_LINES);
    }
}

/// Adds to the log of an earlier night that this run could not start. No log is made for it.
pub(super) fn log_not_started(path: PathBuf, error: &Error) {
    if path.exists()
        && let Ok(mut file) = LogFile::open(path)
    {
        file.write_now(&[
            LogLine::Error(error.log_words()),
            LogLine::RunEnded {
                exit_code: error.exit().code(),
                counts: Box::new(Counts::not_started()),
            },
        ]);
    }
}

/// An input that was opened, and which of its columns is which field.
fn input(part: &RunPart) -> Option<Value> {
    let opened = &part.to_run()?.opened;
    Some(json!({
        "path": match &part.input.file.input {
            Input::File(path) => Some(text_of(path)),
            Input::Stdin => None,
        },
        "format": opened.layout.format.extension(),
        "bytes": opened.size,
        "mapping": opened.mapping,
    }))
}

/// The user's settings, by the names of the options; none of them is a secret.
fn settings(config: &RunConfig) -> Value {
    let RunConfig {
        files,
        limits,
        budget,
        timeout,
        plan,
        pace,
        ..
    } = config;
    let selection = files.only_input().map(|only| only.selection);
    json!({
        "plan": match plan {
            Plan::Paid { .. } => "paid",
            Plan::Free => "free",
        },
        "selection": selection.unwrap_or_default(),
        "rate": pace.rate.to_string(),
        "retries": pace.retries,
        "resend_unknown": pace.resends,
        "timeout_seconds": timeout.as_secs_f64(),
        "max_wait_seconds": pace.max_wait.as_secs_f64(),
        "price": budget.price.as_ref().map(|tariff| tariff.price),
        "max_calls": config.call_limit.map(|limit| limit.calls().get()),
        "max_failures": budget.max_failures.map(|limit| match limit {
            FailureLimit::Rows(rows) => rows.to_string(),
            FailureLimit::Percent(percent) => format!("{percent}%"),
        }),
        "keep_going": budget.keep_going,
        "min_rows": limits.min_rows,
        "max_invalid": limits.max_invalid.map(|most| most.to_string()),
        "accept_failures": budget.accept_failures.map(|most| most.to_string()),
    })
}

/// The files of a run. Of several outputs only the directory is known before the first of them.
fn files(config: &RunConfig) -> Value {
    let (files, watch) = (&config.files, &config.watch);
    let name = |path: &Option<PathBuf>| path.as_deref().map(text_of);
    json!({
        "output": files.name().map(text_of),
        "rejects": name(&files.rejects),
        "changes": name(&files.changes),
        "report": name(&files.report),
        "summary": name(&watch.summary),
        "metrics": name(&watch.metrics),
    })
}
