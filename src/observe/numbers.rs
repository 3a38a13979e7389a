//! Numbers and times as people read them, and how JSON is written for programs.

use std::borrow::Borrow;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use serde::{Serialize, Serializer};

use crate::analysis::{CountedRows, DecisionCounts};
pub(crate) use crate::base::numbers::counted;
use crate::base::numbers::{grouped, time};
use crate::raw_json::escape_unsafe;
use crate::telemetry::pace::FoundLimit;

/// `1234567` as `1,234,567`.
pub(crate) fn count(number: u64) -> String {
    grouped(number.into())
}

/// A moment in local time, with the date.
pub(crate) fn moment(time: SystemTime) -> String {
    local(time).strftime("%Y-%m-%d %H:%M").to_string()
}

/// A day in local time: `today`, or `on 2026-11-20`.
pub(crate) fn day(time: SystemTime) -> String {
    let time = local(time);
    let is_today = time.date() == local(SystemTime::now()).date();
    let format = if is_today { "today" } else { "on %Y-%m-%d" };
    time.strftime(format).to_string()
}

/// Now, in local time with its offset from UTC, for a document that travels.
pub(crate) fn stamp() -> String {
    let now = local(SystemTime::now());
    now.strftime("%-d %B %Y, %H:%M (UTC%:z)").to_string()
}

/// Now, in local time with its offset from UTC (RFC 3339), for lines that are read later:
/// `2026-11-22T18:20:00+00:00`.
pub(super) fn now_in_local_time() -> String {
    let now = local(SystemTime::now());
    now.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string()
}

/// A moment in UTC (RFC 3339), for programs: `2026-11-22T18:20:00.123Z`.
pub(super) fn utc(time: SystemTime) -> String {
    let time = Timestamp::try_from(time).unwrap_or_default();
    format!("{time:.3}")
}

/// The same in whole seconds, because jq and others read no fractions.
pub(crate) fn utc_seconds(time: SystemTime) -> String {
    let time = Timestamp::try_from(time).unwrap_or_default();
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The moment that such a text names.
pub(crate) fn from_utc(text: &str) -> SystemTime {
    text.parse::<Timestamp>().unwrap_or_default().into()
}

fn local(time: SystemTime) -> Zoned {
    let time = Timestamp::try_from(time).unwrap_or_default();
    time.to_zoned(TimeZone::system())
}

/// A rate with three significant digits.
pub(super) fn rate(rate: f64) -> String {
    match rate {
        100.0.. => count(format!("{:.0}", rate.round()).parse().unwrap_or_default()),
        10.0.. => format!("{rate:.1}"),
        _ => format!("{rate:.2}"),
    }
}

/// Calls a second or a minute, whichever is easier to read: `48.0/s`, `6.00/min`.
pub(crate) fn per_time(calls: f64) -> String {
    if calls >= 0.5 {
        format!("{}/s", rate(calls))
    } else {
        format!("{}/min", rate(calls * 60.0))
    }
}

/// `about 48.0/s`, `9 calls at a time`, or both; empty if no limit is known.
pub(crate) fn most(limit: FoundLimit) -> String {
    let rate = limit.rate.map(|rate| format!("about {}", per_time(rate)));
    let in_flight = limit.in_flight.map(|calls| at_a_time(calls.into()));
    let known: Vec<_> = rate.into_iter().chain(in_flight).collect();
    known.join(" and ")
}

/// `9 calls at a time`.
pub(super) fn at_a_time(calls: u64) -> String {
    format!("{} at a time", counted(calls, "call"))
}

/// `3 paid answers`; a stand-in's answers cost nothing.
pub(crate) fn answers(number: u64, sandbox: bool) -> String {
    counted(number, if sandbox { "answer" } else { "paid answer" })
}

/// `approve 3, review 1`, without the parts that are 0; `None` if all are.
pub(super) fn parts<W: Display, N: Borrow<u64>>(
    parts: impl IntoIterator<Item = (W, N)>,
) -> Option<String> {
    let parts = parts.into_iter();
    let words = parts.filter_map(|(word, number)| match *number.borrow() {
        0 => None,
        number => Some(format!("{word} {}", count(number))),
    });
    let words: Vec<_> = words.collect();
    (!words.is_empty()).then(|| words.join(", "))
}

/// `approve 3, review 1, undecided 1, failed 2`.
pub(super) fn verdicts(decisions: &DecisionCounts, undecided: u64, failed: u64) -> Option<String> {
    parts([
        ("approve", decisions.approve),
        ("review", decisions.review),
        ("block", decisions.block),
        ("undecided", undecided),
        ("failed", failed),
    ])
}

/// `row 3`, or `rows 3, 4, 5, 6, 7 and 2 more`; `None` if there are none.
pub(crate) fn named(named: &CountedRows) -> Option<String> {
    let more = named.rows.saturating_sub(named.first.len() as u64);
    let first: Vec<_> = named.first.iter().copied().map(count).collect();
    Some(match (first.as_slice(), more) {
        ([], _) => return None,
        ([row], 0) => format!("row {row}"),
        (rows, 0) => format!("rows {}", rows.join(", ")),
        (rows, more) => format!("rows {} and {} more", rows.join(", "), count(more)),
    })
}

/// A time in whole seconds, rounded up: a countdown with tenths only flickers.
pub(crate) fn whole_seconds(length: Duration) -> String {
    let seconds = length.as_millis().div_ceil(1000);
    let seconds = Duration::from_secs(seconds.try_into().unwrap_or(u64::MAX));
    if seconds.as_secs() < 10 {
        format!("{} s", seconds.as_secs())
    } else {
        time(seconds)
    }
}

/// The record for programs on one line, safe to show on a terminal.
pub(crate) fn one_line(record: &impl Serialize) -> String {
    // It fails only on map keys that are not strings, and no record has any.
    escape_unsafe(&serde_json::to_string(record).unwrap_or_default())
}

/// The record for programs on several lines, safe to show on a terminal.
pub(crate) fn pretty_json(record: &impl Serialize) -> String {
    let text = serde_json::to_string_pretty(record).unwrap_or_default();
    text.lines()
        .map(|line| escape_unsafe(line) + "\n")
        .collect()
}

/// A path for programs, whatever bytes it has.
pub(super) fn path<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&path.to_string_lossy())
}

/// A path that may not be there.
pub(super) fn some_path<S: Serializer>(path: &Option<PathBuf>, to: S) -> Result<S::Ok, S::Error> {
    let path = path.as_deref();
    path.map(Path::to_string_lossy).serialize(to)
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
    }

    #[test]
    fn a_limit_is_of_calls_a_second_or_at_a_time() {
        for (rate, in_flight, expected) in [
            (Some(0.1), None, "about 6.00/min"),
            (None, Some(1), "1 call at a time"),
            (Some(1234.5), Some(9), "about 1,235/s and 9 calls at a time"),
            (None, None, ""),
        ] {
            assert_eq!(most(FoundLimit { rate, in_flight }), expected);
        }
    }

    #[test]
    fn a_day_is_today_or_has_its_date() {
        assert_eq!(day(SystemTime::now()), "today");
        let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(86_400 * 365);
        assert_eq!(day(long_ago), "on 1971-01-01");
    }
}
