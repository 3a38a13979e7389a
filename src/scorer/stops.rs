//! Why a run must stop, in words: what the service does, and what may help.

use std::time::{Duration, SystemTime};

use crate::base::error::{Error, quoted};
use crate::pace::{Speaker, Trouble};
use crate::row::RowNumber;
use crate::service::{Fault, Health};
use crate::telemetry::event::CancelReason;
use crate::verdict::{Failure, Reason};

/// The stop for a pause that is too long to sit out, with the time to come back.
pub(super) fn asks_to_wait(wait: Duration) -> Error {
    const DAY: u64 = 24 * 60 * 60;
    let error = Error::stopped("the service asks for a pause that is too long to wait for");
    if wait.as_secs() > 365 * DAY {
        return error.detail(format!(
            "it asks to come back in {} days",
            wait.as_secs() / DAY
        ));
    }
    let back = httpdate::fmt_http_date(SystemTime::now() + wait);
    error
        .detail(format!(
            "it asks to come back in {} min, at {back}",
            wait.as_secs().div_ceil(60)
        ))
        .hint("`--max-wait` says how long a run waits")
}

/// The stop for pauses without an answer in between, of so long in all.
pub(super) fn only_refuses(host: &str, waited: Duration) -> Error {
    Error::stopped(format!(
        "{} has asked to wait again and again, for {} in all, and answered nothing",
        quoted(host),
        in_words(waited)
    ))
    .hint("a quota may be used up: ask the service, or run again later")
}

/// The stop for a service that does not come back; `row` is the one whose call was last.
pub(super) fn down_for(host: &str, lasted: Duration, row: RowNumber, last: &Fault) -> Error {
    let (host, lasted, message) = (quoted(host), in_words(lasted), &*last.failure.message);
    if last.health == Health::Failed {
        // It may be the rows, but for too many of them to go on: only a person can tell.
        return Error::stopped(format!("{host} has failed at every call for {lasted}"))
            .detail(format!("the last call, for row {row}: {message}"))
            .hint("run the same command again when it is well; if it is, it fails over rows up to about this one: mend them or take them out");
    }
    Error::stopped(format!("{host} has been down for {lasted}"))
        .detail(format!("the last call: {message}"))
        .hint(
            "run the same command again when it is back; `--max-outage` says how long a run waits",
        )
}

/// The stop for trouble of which there is too much: `rows` in a row, the last of which failed with `last`.
pub(super) fn for_trouble(
    host: &str,
    trouble: Trouble,
    rows: u32,
    last: &Failure,
) -> (CancelReason, Error) {
    let (host, reason, last) = (quoted(host), last.reason, &*last.message);
    match trouble {
        Trouble::Useless(Speaker::Stranger) | Trouble::Refused(Speaker::Stranger) if rows == 1 => {
            let error = Error::stopped(format!(
                "the first answer of {host} does not look like the service's: it is not JSON"
            ))
            .detail(format!("it was: {last}"))
            .hint("check the base address, and that no proxy or login page is in between; `--give-up-after never` goes on all the same");
            (CancelReason::NoVerdicts, error)
        }
        Trouble::Useless(_) | Trouble::Refused(_) => {
            let error = Error::stopped(format!(
                "{host} gave no verdict for {} in a row",
                if rows == 1 { "a row".to_owned() } else { format!("{rows} rows") }
            ))
            .detail(format!("the last answer: {last}"))
            .hint("check the base address, the plan and which columns are sent; `--give-up-after` says how many such rows a run bears");
            (CancelReason::NoVerdicts, error)
        }
        Trouble::Forbidden => {
            let error = Error::refused(format!("{host} refuses access"))
                .detail(format!("the service said: {last}"))
                .hint("check the API key, the service id and the plan");
            (CancelReason::Refused, error)
        }
        Trouble::HostNotFound => {
            let error = Error::stopped(last)
                .hint("check the base address, this machine's network and its proxy");
            (CancelReason::Unavailable, error)
        }
        Trouble::GaveUp => {
            // What is in the way may be this machine's network or a proxy: the call's own words say which.
            let what = if reason == Reason::Unreachable {
                format!("no call gets through to {host}")
            } else {
                format!("{host} answers with errors, or not at all")
            };
            let error = Error::stopped(what).detail(format!("the last call: {last}"));
            (CancelReason::Unavailable, error)
        }
    }
}

/// A span as a message has it: no more exact than anybody needs.
fn in_words(span: Duration) -> String {
    match span.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds => format!("{} min", seconds / 60),
    }
}
