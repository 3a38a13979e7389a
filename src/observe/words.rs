//! The sentences that people read while a run lasts: each is here once, whichever view shows it.

use std::fmt::Display;
use std::time::Duration;

use super::notice::{NamedRow, Warning};
use super::numbers::{count, counted, parts, per_time, time, whole_seconds};
use super::run_counts::{CallsJson, RunCounts};
use super::snapshot::{FileTurn, Snapshot};
use crate::base::share::percent_of;
use crate::telemetry::event::CancelReason;
use crate::telemetry::pace::{Limit, Pause};
use crate::telemetry::stats::OngoingOutage;

/// That a ledger has answers, but none that a run with this address and service ID can use.
#[must_use]
pub(crate) fn only_of_others(ledger: impl Display, others: &[String]) -> String {
    let mut others = others.to_vec();
    others.sort_unstable();
    others.dedup();
    format!(
        "`{ledger}` has no answers of this address and service id, only of others at {}",
        others.join(", ")
    )
}

/// `file 3 of 64`; `None` for a run of one file, and before the first.
pub(super) fn file(now: &Snapshot) -> Option<String> {
    let FileTurn { file, files } = now.file.filter(|turn| turn.file > 0)?;
    Some(format!("file {} of {}", count(file), count(files)))
}

/// `approve 3, review 1, undecided 1, failed 2`.
pub(super) fn verdicts(counts: &RunCounts) -> Option<String> {
    parts(&[
        ("approve", counts.decisions.approve),
        ("review", counts.decisions.review),
        ("block", counts.decisions.block),
        ("undecided", counts.undecided.rows),
        ("failed", counts.failed.rows),
    ])
}

/// `16 in flight, 5 retries, 3 throttled (0.4 %)`.
pub(super) fn calls(now: &Snapshot) -> Option<String> {
    let CallsJson {
        sent,
        retries,
        throttled,
        ..
    } = now.counts.calls;
    let in_flight = (now.in_flight > 0).then(|| format!("{} in flight", count(now.in_flight)));
    let retries = (retries > 0).then(|| match retries {
        1 => "1 retry".to_owned(),
        retries => format!("{} retries", count(retries)),
    });
    let throttled = (throttled > 0).then(|| {
        let share = share_of(throttled, sent);
        let share = share.map(|share| format!(" ({share})"));
        format!(
            "{} throttled{}",
            count(throttled),
            share.unwrap_or_default()
        )
    });
    let words = [in_flight, retries, throttled];
    let words: Vec<_> = words.into_iter().flatten().collect();
    (!words.is_empty()).then(|| words.join(", "))
}

/// Less than one of so many is as good as none.
const MANY: u64 = 1_000;

/// `0.4 %`; `None` for less than 0.1 %.
pub(super) fn share_of(some: u64, calls: u64) -> Option<String> {
    let is_shown = some > 0 && some.saturating_mul(MANY) >= calls;
    is_shown.then(|| format!("{} %", percent_of(some, calls)))
}

/// `about 48.0/s`, `9 calls at a time`, or both; empty if no limit is known.
#[must_use]
pub(crate) fn most(limit: Limit) -> String {
    let rate = limit.rate.map(|rate| format!("about {}", per_time(rate)));
    let in_flight = limit.in_flight.map(|calls| at_a_time(calls as usize));
    let known: Vec<_> = rate.into_iter().chain(in_flight).collect();
    known.join(" and ")
}

/// `9 calls at a time`.
fn at_a_time(calls: usize) -> String {
    let calls = calls.try_into().unwrap_or(u64::MAX);
    format!("{} at a time", counted(calls, "call"))
}

/// The rate limit that was found.
pub(super) fn limit(found: f64) -> String {
    format!("limit found: about {}", per_time(found))
}

/// The limit of concurrent calls that was found.
pub(super) fn limit_in_flight(found: usize) -> String {
    format!("limit found: {}", at_a_time(found))
}

/// What the service's headers ask for.
pub(super) fn asked_for(rate: f64) -> String {
    format!("the service's headers ask for about {}", per_time(rate))
}

/// The run does not keep to the service's headers.
pub(super) const HEADERS_DISBELIEVED: &str =
    "the service's RateLimit headers were ignored: it accepted more calls than they allow";

/// Another run on the same ledger asks about the users of all rows that are left.
pub(super) fn taken(rows: u64) -> String {
    let rows = counted(rows, "row");
    format!("waiting for {rows} that another run is asking about")
}

/// Fewer calls a second would not be throttled less. How many are is counted elsewhere.
pub(super) const REFUSED_AT_ANY: &str = "the service throttles some calls at any pace";

/// The service is waited for at the start.
pub(super) const NOT_UP: &str = "the service cannot be reached: it is tried again, at first every few seconds, for as long as \
    `--max-outage` says; Ctrl-C stops";

/// The service is down.
pub(super) fn down(outage: OngoingOutage, now: Duration) -> String {
    let next = outage.next.saturating_sub(now);
    let next = if next.is_zero() {
        "trying".to_owned()
    } else {
        format!("next try in {}", whole_seconds(next))
    };
    let lasted = now.saturating_sub(outage.since);
    if lasted.as_secs() == 0 {
        return format!("service down, {next}");
    }
    format!("service down for {}, {next}", whole_seconds(lasted))
}

/// The service was not down, as far as the run can tell.
pub(super) const OUTAGE_DISMISSED: &str =
    "not an outage: the service answers, but fails on every row that is tried";

/// The service is back.
pub(super) fn up(lasted: Duration) -> String {
    format!(
        "the service is back after {}; continuing at half the pace",
        time(lasted)
    )
}

/// All calls wait from now on.
pub(super) fn pausing(pause: Pause) -> String {
    match pause.asked {
        Some(asked) => format!("paused: the service asked for {}", whole_seconds(asked)),
        None => format!("paused for {}: the service is busy", time(pause.length)),
    }
}

/// All calls wait for a while longer.
pub(super) fn paused(left: Duration, pause: Pause) -> String {
    let why = match pause.asked {
        Some(asked) => format!("asked for {}", whole_seconds(asked)),
        None => "is busy".to_owned(),
    };
    // The pause is a little longer than what was asked for.
    let left = whole_seconds(left.min(pause.asked.unwrap_or(left)));
    format!("paused: the service {why}, {left} left")
}

/// Another key was found in the key's file.
pub(super) const KEY_RENEWED: &str = "a new API key was read from its file; continuing with it";

/// What it means if different users get the same answer.
pub(super) const MIXED_UP: &str = "a cache or proxy may be answering for the service";

/// `row 3`, or with its file `row 3 of x.csv`.
fn row_of(NamedRow { file, row }: &NamedRow) -> String {
    match file {
        Some(file) => format!("row {row} of `{file}`"),
        None => format!("row {row}"),
    }
}

/// `rows 3 and 7`, or with their files `row 3 of x.csv and row 7 of y.csv`.
fn rows(one: &NamedRow, other: &NamedRow) -> String {
    match (&one.file, &other.file) {
        (Some(_), Some(_)) => format!("{} and {}", row_of(one), row_of(other)),
        _ => format!("rows {} and {}", one.row, other.row),
    }
}

/// A warning, without the word in front.
pub(super) fn warning(warning: &Warning) -> String {
    match warning {
        Warning::TransactionRepeated(one, other) => format!(
            "two different users got the same transaction id, in {}: {MIXED_UP}",
            rows(one, other)
        ),
        Warning::ManyRefused(rows) => {
            format!("the service has rejected {rows} consecutive rows; the rejects file says why")
        }
        Warning::ScoreBelowZero(row) => format!(
            "{} got a score below 0, which is decided like any low score: check that the service does not mean \"no score\" by it",
            row_of(row)
        ),
        Warning::FieldsAbsent(answers, fields) => {
            let none_of = match answers {
                1 => "the only answer so far does not have".to_owned(),
                answers => format!("none of the first {answers} answers has"),
            };
            format!("{none_of} {fields}: check the pointer of `--column` or `--decide-by`")
        }
        Warning::LedgerDamaged => {
            "the ledger is damaged: the seal of an answer is broken, and its row is sent again; SQLite's `quick_check` may tell more"
                .to_owned()
        }
    }
}

/// The run is stopping, or the calls in flight get less time than before.
pub(super) fn stopping(reason: CancelReason, in_flight: u64, longest: Duration) -> String {
    let why = match reason {
        CancelReason::Interrupted => "interrupted",
        CancelReason::Terminated => "terminated",
        CancelReason::HungUp => "hung up",
        CancelReason::Refused => "the service refuses the run",
        CancelReason::Unavailable => "the service is unavailable",
        CancelReason::MaxWait => {
            "the service refuses calls, or asks to wait, for longer than `--max-wait`"
        }
        CancelReason::Input => "the input is invalid",
        CancelReason::InputChanged => "the input has changed",
        CancelReason::Ledger => "the ledger cannot be used",
        CancelReason::NoVerdicts => "the service gives no verdicts",
        CancelReason::NoDecisions => "no answer has the level that decides",
        CancelReason::MaxCalls => "`--max-calls` is reached",
        CancelReason::MaxCost => "`--max-cost` is reached",
        CancelReason::MaxFailures => "`--max-failures` is reached",
        CancelReason::Output => "the output cannot be written",
        CancelReason::OutputClosed => "standard output was closed",
        CancelReason::Internal => "internal error",
    };
    if in_flight == 0 {
        return format!("{why}: stopping");
    }
    let again = match (reason, in_flight) {
        (CancelReason::Interrupted, 1) => " (Ctrl-C again stops immediately and loses its answer)",
        (CancelReason::Interrupted, _) => {
            " (Ctrl-C again stops immediately and loses their answers)"
        }
        _ => "",
    };
    format!(
        "{why}: waiting up to {} for {} in flight{again}",
        whole_seconds(longest),
        counted(in_flight, "call")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_of_calls_a_second_or_at_a_time() {
        for (rate, in_flight, expected) in [
            (Some(48.0), None, "about 48.0/s"),
            (Some(0.1), None, "about 6.00/min"),
            (None, Some(1), "1 call at a time"),
            (Some(1234.5), Some(9), "about 1,235/s and 9 calls at a time"),
            (None, None, ""),
        ] {
            assert_eq!(most(Limit { rate, in_flight }), expected);
        }
    }

    #[test]
    fn calls_are_counted_in_flight_retried_and_throttled() {
        let mut now = Snapshot::default();
        assert_eq!(calls(&now), None);
        now.in_flight = 16;
        let mut counts = CallsJson::default();
        (counts.sent, counts.retries, counts.throttled) = (10_000, 1, 9);
        now.counts.calls = counts;
        let expected = "16 in flight, 1 retry, 9 throttled";
        assert_eq!(calls(&now).as_deref(), Some(expected));
        (now.counts.calls.sent, now.counts.calls.retries) = (1_000, 1_234);
        let expected = "16 in flight, 1,234 retries, 9 throttled (0.9 %)";
        assert_eq!(calls(&now).as_deref(), Some(expected));
    }
}
