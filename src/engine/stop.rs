//! Why a run must stop: the reason in a word, and a message that says what the service does and what may help.

use std::time::{Duration, SystemTime};

use super::checks::FieldsMissing;
use crate::base::error::{Error, Exit};
use crate::base::text::quoted;
use crate::observe::whole_seconds;
use crate::pace::Trouble;
use crate::row::RowNumber;
use crate::service::{Fault, Health};
use crate::telemetry::event::CancelReason;
use crate::verdict::Reason;

/// A reason to stop the run early.
#[derive(Debug)]
pub(crate) struct Stop {
    /// The reason in a word.
    pub(crate) reason: CancelReason,
    /// The reason in full; `None` if the word says it all.
    pub(crate) error: Option<Error>,
}

/// Why an input cannot be used, or read any further.
pub(crate) fn input_reason(error: &Error) -> CancelReason {
    match error.exit() {
        Exit::Stopped => CancelReason::InputChanged,
        _ => CancelReason::Input,
    }
}

impl Stop {
    /// A stop that is explained by an error.
    pub(crate) const fn new(reason: CancelReason, error: Error) -> Self {
        Self {
            reason,
            error: Some(error),
        }
    }

    /// The stop for an input that cannot be used, or read any further.
    pub(crate) fn of_input(error: Error) -> Self {
        Self::new(input_reason(&error), error)
    }

    /// The stop for a result that could not be made durable.
    pub(super) fn of_ledger(error: Error) -> Self {
        let reason = match error.exit() {
            Exit::Internal => CancelReason::Internal,
            _ => CancelReason::Ledger,
        };
        Self::new(reason, error)
    }

    /// The stop for a writer that ended without giving a reason.
    pub(crate) fn writer_ended() -> Self {
        Self::internal("the writer's thread ended unexpectedly")
    }

    /// Adds that the answers and failures that led to the stop are not kept; `file` is the number of the file whose rows run.
    pub(super) fn not_kept(mut self, file: u64) -> Self {
        let words = match file {
            0 | 1 => "these answers are not kept: the same command asks for them again",
            _ => {
                "these answers are not kept: the same command asks again, with `--overwrite` also for complete files"
            }
        };
        self.error = self.error.map(|error| error.detail(words));
        self
    }

    /// The stop for a bug of this program.
    pub(crate) fn internal(what: &str) -> Self {
        Self::new(CancelReason::Internal, Error::internal(what))
    }
}

/// The stop for a pause of up to a day that is too long to wait for, with the time to come back.
pub(super) fn asks_to_wait(wait: Duration) -> Stop {
    let at = httpdate::fmt_http_date(SystemTime::now() + wait);
    let wait = whole_seconds(wait);
    let error = Error::stopped("the service asks for a pause that is too long to wait for")
        .detail(format!("it asks to come back in {wait}, at {at}"))
        .hint("`--max-wait` sets how long a run waits");
    Stop::new(CancelReason::MaxWait, error)
}

/// The stop for refusals, whether they name a pause or not: no call was accepted for this long.
pub(super) fn only_refuses(host: &str, waited: Duration) -> Stop {
    let error = Error::stopped(format!(
        "{} has accepted no call for {}",
        quoted(host),
        whole_seconds(waited)
    ))
    .hint("a quota may be used up: ask the service, or run again later; `--max-wait` sets how long a run waits");
    Stop::new(CancelReason::MaxWait, error)
}

/// The stop for a service that does not come back, and has accepted no call for this long. The `last` call was for `row`.
pub(super) fn down_for(host: &str, lasted: Duration, row: RowNumber, last: &Fault) -> Stop {
    let (host, lasted, message) = (quoted(host), whole_seconds(lasted), last.to_display());
    let error = if last.health == Health::Failed {
        // It may be the rows, but too many of them to continue: only a person can tell.
        Error::stopped(format!("{host} has been failing for {lasted}"))
            .detail(format!("the last call, for row {row}: {message}"))
            .hint("run the same command again when the service works; if it works already, it fails on rows near this one: fix or remove them")
    } else {
        Error::stopped(format!("{host} has accepted no call for {lasted}"))
            .detail(format!("the last call: {message}"))
            .hint("run the same command again when it is back; `--max-wait` sets how long a run waits")
    };
    Stop::new(CancelReason::Unavailable, error)
}

/// The stop for too much trouble: `rows` in a row had it, and the last one, `row`, failed with `last`.
pub(super) fn for_trouble(
    host: &str,
    trouble: Trouble,
    rows: u32,
    row: RowNumber,
    last: &Fault,
) -> Stop {
    let is_other = last.from_other_program;
    let (host, reason, last) = (quoted(host), last.failure.reason, last.to_display());
    let (reason, what, detail, hint) = match trouble {
        Trouble::Useless | Trouble::Refused if is_other && rows == 1 => (
            CancelReason::NoVerdicts,
            format!("the first answer of {host} does not look like the service's: it is not JSON"),
            last.to_owned(),
            "the call may have been billed; check `--base-url`, and that no proxy or login page is in between (`--keep-going` continues anyway)",
        ),
        Trouble::Useless | Trouble::Refused => (
            CancelReason::NoVerdicts,
            match rows {
                1 => format!("{host} gave no verdict for a row"),
                rows => format!("{host} gave no verdict for {rows} consecutive rows"),
            },
            format!("the last answer: {last}"),
            "a quota may be used up, or the base address, the plan or the columns that are sent may be wrong; if the rows are really bad, `--keep-going` goes past them",
        ),
        Trouble::Forbidden => {
            let error = Error::refused(format!("{host} refuses access"))
                .detail(format!("the service said: {last}"))
                .hint(if is_other {
                    "the answer is a page of a firewall or a proxy: ask whether this machine's address or country is blocked; perhaps nobody has looked at the API key"
                } else {
                    "check the API key, the service id and the plan, and whether this machine's address is allowed"
                });
            return Stop::new(CancelReason::Refused, error);
        }
        Trouble::HostNotFound => {
            let error = Error::stopped(last);
            let hint = "check the base address, this machine's network and its proxy";
            return Stop::new(CancelReason::Unavailable, error.hint(hint));
        }
        // The cause may be this machine's network or a proxy: the call's own words say which.
        Trouble::GaveUp if reason == Reason::Unreachable => (
            CancelReason::Unavailable,
            format!("no call gets through to {host}"),
            format!("the last call: {last}"),
            "check the base address, this machine's network and its proxy",
        ),
        Trouble::GaveUp if is_other => (
            CancelReason::Unavailable,
            format!("{host} does not answer in HTTP"),
            format!("the last call: {last}"),
            "the calls may have been billed; check the base address, and the proxy or gateway in front of the service",
        ),
        Trouble::GaveUp => (
            CancelReason::Unavailable,
            format!("{host} answers with errors, or not at all"),
            format!("the last call, for row {row}: {last}"),
            "run the same command again when the service works; if it works already, it fails on this row: fix or remove it",
        ),
    };
    Stop::new(reason, Error::stopped(what).detail(detail).hint(hint))
}

/// The stop for a level that no answer has: all rows would be paid for, and none decided.
pub(super) fn no_level(missing: &FieldsMissing) -> Stop {
    let error = Error::stopped(format!(
        "no row can be decided: none of the first {} answers has {}",
        missing.answers, missing.fields
    ))
    .hint("check the pointer of `--decide-by`; `--keep-going` continues anyway");
    Stop::new(CancelReason::NoDecisions, error)
}

/// The stop for answers to different requests with one transaction id: all rows would be paid for, and none could be trusted.
pub(super) fn mixed_up(host: &str) -> Stop {
    let error = Error::stopped(format!(
        "{} gives different users one transaction id",
        quoted(host)
    ))
    .detail("the answers are mixed up, by a cache or a proxy, or are made up by a test service")
    .hint("do not rely on the rows since the first warning; `--keep-going` continues anyway");
    Stop::new(CancelReason::NoVerdicts, error)
}
