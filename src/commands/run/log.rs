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
use crate::observe::{LogFile, LogInbox, LogLine, LogWriter, RunIdentity, RunLog, log_channel};
use crate::telemetry::event::CancelReason;

/// How long the last lines may take when a signal ends the run immediately.
const LAST_LINES: Duration = Duration::from_millis(250);

/// The log of a run, which is not open yet.
pub(super) struct LogPlan {
    path: PathBuf,
    writer: LogWriter,
    inbox: LogInbox,
    /// What the run is known by: its output or its directory.
    output: Option<String>,
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
            output: config.files.name().map(text_of),
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
            "output": self.output,
            "ledger": ledger.map(text_of),
            "concurrency": concurrency,
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

/// An input that was opened, and which of its columns is which field.
fn input(part: &RunPart) -> Option<Value> {
    let opened = &part.to_run()?.opened;
    Some(json!({
        "path": part.input.file.input.path().map(text_of),
        "format": opened.layout.format.extension(),
        "bytes": opened.size,
        "mapping": opened.mapping,
    }))
}
