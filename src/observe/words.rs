//! Numbers and times as people read them.

use std::time::{Duration, SystemTime};

use super::Snapshot;
use crate::row::RowNumber;
use crate::telemetry::event::{CancelReason, Unusable};
use crate::telemetry::pace::{FoundLimit, Limit, Pause, Search};
use crate::telemetry::stats::OngoingOutage;

/// `1234567` as `1,234,567`.
#[must_use]
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() * 4 / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// `1 row`, `2 rows`.
#[must_use]
pub(crate) fn counted(number: u64, thing: &str) -> String {
    format!(
        "{} {thing}{}",
        count(number),
        if number == 1 { "" } else { "s" }
    )
}

/// How a run goes on that was stopped; told to start over once more, it would pay once more.
#[must_use]
pub(crate) const fn same_command(fresh: bool) -> &'static str {
    if fresh {
        "the same command without `--fresh`"
    } else {
        "the same command"
    }
}

/// A moment by the clock on the wall: with its date unless it is today.
#[must_use]
pub(crate) fn moment(time: SystemTime) -> String {
    by_the_clock(time, "%H:%M", "%Y-%m-%d %H:%M")
}

/// A day by the clock on the wall: `today`, or `on 2026-11-20`.
#[must_use]
pub(crate) fn day(time: SystemTime) -> String {
    by_the_clock(time, "today", "on %Y-%m-%d")
}

fn by_the_clock(time: SystemTime, if_today: &str, otherwise: &str) -> String {
    let Ok(time) = jiff::Timestamp::try_from(time) else {
        return "an unknown time".to_owned();
    };
    let zone = jiff::tz::TimeZone::system();
    let (time, today) = (
        time.to_zoned(zone.clone()),
        jiff::Timestamp::now().to_zoned(zone),
    );
    let format = if time.date() == today.date() {
        if_today
    } else {
        otherwise
    };
    time.strftime(format).to_string()
}

/// Three significant digits are enough for a rate.
pub(super) fn rate(rate: f64) -> String {
    if rate >= 100.0 {
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a rate is finite and positive"
        )]
        let whole = rate.round() as u64;
        count(whole)
    } else if rate >= 10.0 {
        format!("{rate:.1}")
    } else {
        format!("{rate:.2}")
    }
}

/// Calls in a time that makes the number readable: `48.0/s`, `6.00/min`.
pub(super) fn per_time(calls: f64) -> String {
    if calls >= 0.5 {
        format!("{}/s", rate(calls))
    } else {
        format!("{}/min", rate(calls * 60.0))
    }
}

/// A share from 0 to 1, with a decimal: of a long run, a percent takes hours.
pub(super) fn percent(share: f64) -> String {
    // Rounded down: 100 % is said when it is.
    format!("{:.1} %", (share * 1000.0).floor() / 10.0)
}

/// A time with two units at most.
pub(super) fn time(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0 if time.as_millis() < 10 => format!("{:.1} ms", time.as_secs_f64() * 1e3),
        0 => format!("{} ms", time.as_millis()),
        1..10 => format!("{:.1} s", time.as_secs_f64()),
        10..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

/// `3 paid answers`. A stand-in's answers cost nothing.
#[must_use]
pub(crate) fn answers(number: u64, sandbox: bool) -> String {
    counted(number, if sandbox { "answer" } else { "paid answer" })
}

/// `approve 3, review 1`: what there is none of is left out.
pub(super) fn parts(parts: &[(&str, u64)]) -> Option<String> {
    let there = parts.iter().filter(|(_, number)| *number > 0);
    let words: Vec<_> = there
        .map(|(word, number)| format!("{word} {}", count(*number)))
        .collect();
    (!words.is_empty()).then(|| words.join(", "))
}

/// `approve 3, review 1, failed 2`.
pub(super) fn verdicts(now: &Snapshot) -> Option<String> {
    parts(&[
        ("approve", now.approved),
        ("review", now.reviewed),
        ("block", now.blocked),
        ("failed", now.failed),
    ])
}

/// `16 in flight, retries 5`.
pub(super) fn calls(now: &Snapshot) -> Option<String> {
    let in_flight = (now.in_flight > 0).then(|| format!("{} in flight", count(now.in_flight)));
    let retries = parts(&[("retries", now.retries)]);
    let words: Vec<_> = in_flight.into_iter().chain(retries).collect();
    (!words.is_empty()).then(|| words.join(", "))
}

/// The same as programs read it.
pub(super) const fn search(search: Search) -> &'static str {
    match search {
        Search::Growing => "growing",
        Search::ClosingIn => "closing_in",
        Search::Checking => "checking",
        Search::Holding => "holding",
        Search::Looking => "looking",
    }
}

/// What a service was found to bear: `about 48.0/s`, `9 in flight`, or both, and which of them is doubtful. Nothing where
/// nothing is known.
#[must_use]
pub(crate) fn most(limit: Limit) -> String {
    let sure = |found: FoundLimit| match found.times {
        _ if !found.is_doubtful() => "",
        0 | 1 => " (seen only once)",
        _ => " (seen only twice)",
    };
    let rate = limit
        .rate
        .map(|found| format!("about {}{}", per_time(found.value), sure(found)));
    let in_flight = limit
        .in_flight
        .map(|found| format!("{:.0} in flight{}", found.value, sure(found)));
    let known: Vec<_> = rate.into_iter().chain(in_flight).collect();
    known.join(" and ")
}

/// Where the service was found to refuse.
pub(super) fn limit(found: f64) -> String {
    format!("limit found: about {}", per_time(found))
}

/// What the service's headers ask for.
pub(super) fn asked_for(rate: f64) -> String {
    format!("the service's headers ask for about {}", per_time(rate))
}

/// That nobody keeps to what they ask for.
pub(super) const HEADERS_DISBELIEVED: &str =
    "the service's RateLimit headers were disbelieved: it accepted more than they allowed";

/// How many in flight it was found to bear.
pub(super) fn limit_in_flight(found: usize) -> String {
    format!("limit found: {found} in flight")
}

/// That the service refuses some calls whatever is sent, with one digit: they were not many to count.
pub(super) fn refused_at_any(share: f64) -> String {
    let calls = 1.0 / share;
    let digit = 10_f64.powf(calls.log10().floor());
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "finite and positive"
    )]
    let calls = ((calls / digit).round() * digit).round() as u64;
    format!(
        "the service refuses about 1 call in {} at any pace",
        count(calls)
    )
}

/// That the service is down.
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

/// That it was not down, as far as can be told.
pub(super) const OUTAGE_DISMISSED: &str =
    "the outage is put down to the rows: the service answers, and fails over each that is tried";

/// That it is back.
pub(super) fn up(lasted: Duration) -> String {
    format!(
        "the service is back after {}; going on at half speed",
        whole_seconds(lasted)
    )
}

/// That everybody waits from now on, and why.
pub(super) fn pausing(pause: Pause) -> String {
    match pause.asked {
        Some(asked) => format!("paused: service asks for {}", whole_seconds(asked)),
        None => format!(
            "paused: service asks for fewer calls, going on in {}",
            whole_seconds(pause.length)
        ),
    }
}

/// Whole seconds: a count-down with tenths only flickers.
pub(super) fn whole_seconds(length: Duration) -> String {
    let seconds = length.as_millis().div_ceil(1000);
    let seconds = Duration::from_secs(seconds.try_into().unwrap_or(u64::MAX));
    if seconds.as_secs() < 10 {
        format!("{} s", seconds.as_secs())
    } else {
        time(seconds)
    }
}

/// What is said when another key was found in the key's file.
pub(super) const KEY_RENEWED: &str = "the API key was read again from its file; going on";

/// The warning for two rows with different users and one transaction id.
pub(super) fn repeated(one: RowNumber, other: RowNumber) -> String {
    format!(
        "warning: two different users got the same transaction id, in rows {one} and {other}: {MIXED_UP}"
    )
}

/// The warning for rows that the service refuses one after the other.
pub(super) fn many_refused(rows: u32) -> String {
    format!("warning: the service has refused {rows} rows in a row; the rejects say why")
}

/// The warning for fields that no answer has so far.
pub(super) fn fields_absent(answers: u32, fields: &str) -> String {
    let none_of = match answers {
        1 => "the only answer so far does not have".to_owned(),
        answers => format!("none of the first {answers} answers has"),
    };
    format!("warning: {none_of} {fields}: check the pointer of `--column`")
}

/// The warning for an answer of the ledger that cannot be used.
pub(super) fn unusable(why: Unusable) -> &'static str {
    match why {
        Unusable::Damaged => {
            "warning: the ledger is damaged: an answer does not fit its checksum. Such answers are asked for again; `quick_check` of SQLite may tell more"
        }
        Unusable::FromTheFuture => {
            "warning: the ledger has answers that are dated in the future, so that their age cannot be told; they are asked for again"
        }
    }
}

/// What one answer for different users means.
pub(super) const MIXED_UP: &str = "a cache or proxy may be answering for the service";

/// What is said when a run begins to stop, and when calls that finish get less time.
pub(super) fn stopping(reason: CancelReason, in_flight: u64, longest: Duration) -> String {
    let why = match reason {
        CancelReason::Interrupted => "interrupted",
        CancelReason::Terminated => "terminated",
        CancelReason::HungUp => "hung up",
        CancelReason::Refused => "the service refuses the run",
        CancelReason::Unavailable => "the service is not available",
        CancelReason::Input | CancelReason::InputChanged => "the input is broken",
        CancelReason::Ledger => "the ledger cannot be used",
        CancelReason::NoVerdicts => "too many rows in a row without a verdict",
        CancelReason::MaxCalls => "no more calls are allowed",
        CancelReason::MaxFailures => "`--max-failures` is reached",
        CancelReason::Output => "the output cannot be written",
        CancelReason::OutputClosed => "standard output was closed",
        CancelReason::Internal => "internal error",
    };
    if in_flight == 0 {
        return format!("{why}: stopping");
    }
    let again = match reason {
        CancelReason::Interrupted => " (Ctrl-C again stops at once; their answers would be lost)",
        _ => "",
    };
    format!(
        "{why}: finishing {} in flight, up to {}{again}",
        counted(in_flight, "call"),
        whole_seconds(longest)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_easily() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(rate(1234.5), "1,235");
        assert_eq!(rate(12.34), "12.3");
        assert_eq!(rate(0.5), "0.50");
        for (millis, said) in [
            (1, "1.0 ms"),
            (120, "120 ms"),
            (1_500, "1.5 s"),
            (59_000, "59 s"),
            (61_000, "1 min 1 s"),
            (3_660_000, "1 h 1 min"),
        ] {
            assert_eq!(time(Duration::from_millis(millis)), said);
        }
        let found = |value, times| Some(FoundLimit { value, times });
        for (rate, in_flight, said) in [
            (found(48.0, 3), None, "about 48.0/s"),
            (found(0.1, 3), None, "about 6.00/min"),
            (None, found(9.0, 8), "9 in flight"),
            (
                found(1234.5, 3),
                found(9.0, 2),
                "about 1,235/s and 9 in flight (seen only twice)",
            ),
            (found(48.0, 2), None, "about 48.0/s (seen only twice)"),
            (None, None, ""),
        ] {
            assert_eq!(most(Limit { rate, in_flight }), said);
        }
        for (share, said) in [(0.05, "20"), (0.0112, "90"), (0.001, "1,000")] {
            let said = format!("the service refuses about 1 call in {said} at any pace");
            assert_eq!(refused_at_any(share), said);
        }
    }

    #[test]
    fn a_day_is_today_or_has_its_date() {
        assert_eq!(day(SystemTime::now()), "today");
        let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(86_400 * 365);
        assert_eq!(day(long_ago), "on 1971-01-01");
    }
}
