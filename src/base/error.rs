//! Why a run cannot start or cannot continue, with a hint and the exit code.
//!
//! A row's failure is never an [`Error`]; see `verdict`. `Display` shows only its own level: `main` prints the chain of
//! sources. Wording: lower case, no full stop; what was being done, to what, where; the bad value in backticks.

use std::error::Error as StdError;
use std::path::Path;

use crate::base::text::printable;

/// How a run ended, as the exit code says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Every row has a verdict and a decision.
    Complete,
    /// Finished; some rows have no verdict, or no decision.
    SomeFailed,
    /// Usage, settings or input are wrong.
    Usage,
    /// Stopped early by the network, the service's health or the disk.
    Stopped,
    /// The service refused the run: key, plan, credit or address.
    Refused,
    /// Stopped by a limit that the user has set, such as `--max-calls`: the same command stops again.
    Limited,
    /// A bug in rescore.
    Internal,
    /// Another process holds the output or the ledger: the same command can start when that one has ended.
    Busy,
    /// Interrupted by this signal.
    Interrupted(Signal),
}

impl Exit {
    /// The process's exit code.
    pub const fn code(self) -> u8 {
        match self {
            Self::Complete => 0,
            Self::SomeFailed => 1,
            Self::Usage => 2,
            Self::Stopped => 3,
            Self::Refused => 4,
            Self::Limited => 5,
            Self::Internal => 70,
            // `EX_TEMPFAIL` of sysexits.h, as mail programs and queues know it.
            Self::Busy => 75,
            Self::Interrupted(Signal::HangUp) => 129,
            Self::Interrupted(Signal::Interrupt) => 130,
            Self::Interrupted(Signal::Terminate) => 143,
        }
    }
}

/// The signals that end a run in an orderly way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// SIGINT, Ctrl-C.
    Interrupt,
    /// SIGTERM, from a service manager or cron.
    Terminate,
    /// SIGHUP: the terminal is gone, as when a connection drops.
    HangUp,
}

/// The hint for a full disk.
pub(crate) const HINT_FREE_SPACE: &str = "free some disk space and run the same command again";

/// A run-level error.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    exit: Exit,
    message: Box<str>,
    /// The line with a file's columns, which only people get to see.
    columns: Option<Box<str>>,
    details: Vec<String>,
    hint: Option<Box<str>>,
    file: Option<Box<Path>>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

/// The result of everything that can end a run.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into().into(),
            columns: None,
            details: Vec::new(),
            hint: None,
            file: None,
            source: None,
        }
    }

    /// Usage, settings or input.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// The run stops early, through no fault of the settings.
    pub(crate) fn stopped(message: impl Into<String>) -> Self {
        Self::new(Exit::Stopped, message)
    }

    /// The service refuses the run.
    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Self::new(Exit::Refused, message)
    }

    /// A limit that the user has set stops the run.
    pub(crate) fn limited(message: impl Into<String>) -> Self {
        Self::new(Exit::Limited, message)
    }

    /// A bug in rescore.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(Exit::Internal, message)
    }

    /// Another process holds the output or the ledger.
    pub(crate) fn busy(message: impl Into<String>) -> Self {
        Self::new(Exit::Busy, message)
    }

    /// A person or a service manager stopped the run.
    pub(crate) fn interrupted(signal: Signal) -> Self {
        let message = match signal {
            Signal::Interrupt => "interrupted",
            Signal::Terminate => "terminated",
            Signal::HangUp => "hung up",
        };
        Self::new(Exit::Interrupted(signal), message)
    }

    /// Adds a line of detail below the message.
    pub(crate) fn detail(mut self, detail: impl Into<String>) -> Self {
        self.details.push(detail.into());
        self
    }

    /// Adds the line with a file's columns, which replaces an earlier one. A log has neither this line nor the hint: without a
    /// header, the names would be a user's values.
    pub(crate) fn columns(mut self, line: impl Into<String>) -> Self {
        self.columns = Some(line.into().into());
        self
    }

    /// Whether it has a line with columns.
    pub(crate) const fn lists_columns(&self) -> bool {
        self.columns.is_some()
    }

    /// Adds the hint: one sentence that names an exact flag or command.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into().into());
        self
    }

    /// Adds the hint, unless there is one.
    pub(crate) fn or_hint(self, hint: &'static str) -> Self {
        if self.hint.is_some() {
            return self;
        }
        self.hint(hint)
    }

    /// Adds the cause. A full disk is not the fault of the settings, wherever it happens: the run stops with exit code 3.
    pub(crate) fn because(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        if self.exit == Exit::Usage && self.is_disk_full() {
            self.exit = Exit::Stopped;
        }
        self
    }

    /// Adds the file that the error is about, for the details about full disks. The message may name it otherwise.
    pub(crate) fn about(mut self, file: &Path) -> Self {
        self.file = Some(file.into());
        self
    }

    /// The file that it is about, if any.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// How the process exits because of it.
    pub const fn exit(&self) -> Exit {
        self.exit
    }

    /// Whether a disk or a quota is full, or a file may not grow any further.
    pub(crate) fn is_disk_full(&self) -> bool {
        use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        [StorageFull, QuotaExceeded, FileTooLarge]
            .into_iter()
            .any(|kind| self.comes_from(kind))
    }

    /// Whether one of the causes is a system error of this kind.
    pub(crate) fn comes_from(&self, kind: std::io::ErrorKind) -> bool {
        let mut cause = self.source();
        while let Some(error) = cause {
            let error_kind = error.downcast_ref().map(std::io::Error::kind);
            if error_kind == Some(kind) {
                return true;
            }
            cause = error.source();
        }
        false
    }

    /// What failed, without its causes.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// The words of the causes, the nearest first.
    pub(crate) fn causes(&self) -> Vec<String> {
        let (mut all, mut causes) = (self.message.to_string(), Vec::new());
        let mut cause = self.source();
        while let Some(error) = cause {
            let words = error
                .downcast_ref::<std::io::Error>()
                .map_or_else(|| error.to_string(), system_words);
            // Some libraries include their source in their text: it is not repeated.
            if !all.contains(&words) {
                all.push_str(&words);
                causes.push(words);
            }
            cause = error.source();
        }
        causes
    }

    /// The lines below the message, without that of columns.
    pub(crate) fn details(&self) -> &[String] {
        &self.details
    }

    /// The hint, without the word in front.
    pub(crate) fn hint_text(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// The message with its cause, without details and hint.
    pub(crate) fn in_a_line(&self) -> String {
        let words = self.log_words();
        words.lines().next().unwrap_or_default().to_owned()
    }

    /// The whole text for people: message, causes, columns, details, hint.
    pub fn report(&self) -> String {
        let columns = self.columns.as_deref();
        format!("error: {}", self.words(columns, self.hint.as_deref()))
    }

    /// The text for a log: that for people, without columns, without a hint that names one, and without the word in front.
    pub(crate) fn log_words(&self) -> String {
        let hint = self.hint.as_deref().filter(|_| self.columns.is_none());
        self.words(None, hint)
    }

    fn words(&self, columns: Option<&str>, hint: Option<&str>) -> String {
        let mut text = printable(&self.message);
        for cause in self.causes() {
            text.push_str(": ");
            text.push_str(&printable(&cause));
        }
        let details = self.details.iter().map(String::as_str);
        for line in columns.into_iter().chain(details) {
            text.push_str("\n  ");
            text.push_str(&printable(line));
        }
        if let Some(hint) = hint {
            text.push_str("\n\nhint: ");
            text.push_str(&printable(hint));
        }
        text
    }
}

/// The system's words for an error, in the style of rescore's messages: lower case and without `(os error 111)`.
pub(crate) fn system_words(error: &std::io::Error) -> String {
    let words = error.to_string();
    let words = words.split(" (os error").next().unwrap_or(&words);
    match words.split_at_checked(1) {
        Some((first, rest)) => first.to_lowercase() + rest,
        None => words.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_message_cause_details_and_hint() {
        let error = Error::usage("no column for `ip` in `people.csv`")
            .columns("columns: id, last_login_ip")
            .hint("did you mean `--map ip=last_login_ip`?");
        assert_eq!(
            error.report(),
            "error: no column for `ip` in `people.csv`\n  columns: id, last_login_ip\n\nhint: did you mean `--map ip=last_login_ip`?"
        );
        assert_eq!(error.log_words(), "no column for `ip` in `people.csv`");
        let error =
            Error::stopped("cannot write `x`").because(std::io::Error::other("disk on fire"));
        assert_eq!(error.report(), "error: cannot write `x`: disk on fire");
    }
}
