//! The hours of a run: when `--until` and `--max-time` end it. It reads clocks, and knows nothing of what is stopped.
//!
//! `--until` is a time on the wall clock, also if that clock is set or the machine sleeps. `--max-time` is measured by the
//! monotonic clock from the program's start.

use std::str::FromStr;
use std::time::Duration;

use jiff::civil::Time;
use jiff::{Timestamp, Zoned};
use tokio::time::Instant;

use super::stop::Stop;
use crate::base::error::Error;
use crate::observe::whole_seconds;
use crate::telemetry::event::CancelReason;

/// A time of day on the local wall clock: `--until`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TimeOfDay(Time);

impl FromStr for TimeOfDay {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let time = Time::strptime("%H:%M", text);
        time.map(Self)
            .map_err(|_| "expected a time of day from `00:00` to `23:59`, such as `06:00`")
    }
}

impl TimeOfDay {
    /// When a clock shows this time for the first time after `now`. Where the clock is set back and shows it twice, both count.
    /// Where it is set forward past this time, the time as long after the jump counts: 02:30 is 03:30 then.
    fn next_after(self, now: &Zoned) -> Option<Timestamp> {
        let on = |date: jiff::civil::Date| {
            let local = date.to_datetime(self.0);
            now.time_zone().to_ambiguous_zoned(local)
        };
        let (today, tomorrow) = (now.date(), now.date().tomorrow().ok()?);
        let times = [
            on(today).compatible(),
            on(today).later(),
            on(tomorrow).compatible(),
        ];
        let times = times.into_iter().flatten();
        times
            .map(|at| at.timestamp())
            .find(|at| *at > now.timestamp())
    }
}

/// When a run ends by its own hours.
#[derive(Debug)]
pub(crate) struct Deadline {
    started: Instant,
    until: Option<(TimeOfDay, Timestamp)>,
    max_time: Option<Duration>,
}

impl Deadline {
    /// The deadline of a program that starts now; `None` if it may run as long as it takes.
    pub(crate) fn new(until: Option<TimeOfDay>, max_time: Option<Duration>) -> Option<Self> {
        let now = Zoned::now();
        let until = until.and_then(|time| Some((time, time.next_after(&now)?)));
        let is_set = until.is_some() || max_time.is_some();
        is_set.then(|| Self {
            started: Instant::now(),
            until,
            max_time,
        })
    }

    /// Why the run must stop now, if it must.
    pub(crate) fn reached(&self) -> Option<Stop> {
        self.reached_at(Timestamp::now(), self.started.elapsed())
    }

    fn reached_at(&self, now: Timestamp, lasted: Duration) -> Option<Stop> {
        let (reason, value) = if let Some((time, _)) = self.until.filter(|(_, at)| now >= *at) {
            (CancelReason::Until, time.0.strftime("%H:%M").to_string())
        } else {
            let most = self.max_time.filter(|most| lasted >= *most)?;
            (CancelReason::MaxTime, whole_seconds(most))
        };
        let error = Error::limited(format!("{}: {value}", reason.words()));
        Some(Stop::new(reason, error.hint("the same command continues")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BERLIN: &str = "CET-1CEST,M3.5.0,M10.5.0/3";

    /// When a run ends that starts at this time in Berlin, in UTC.
    #[track_caller]
    fn ends(start: &str, until: &str) -> String {
        let berlin = jiff::tz::TimeZone::posix(BERLIN).unwrap();
        let start: Timestamp = format!("{start}Z").parse().unwrap();
        let until: TimeOfDay = until.parse().unwrap();
        let end = until.next_after(&start.to_zoned(berlin)).unwrap();
        end.strftime("%F %H:%M").to_string()
    }

    #[test]
    fn the_next_such_time_after_the_start_counts_also_through_midnight() {
        // Berlin is an hour ahead of UTC.
        assert_eq!(ends("2026-11-29T21:00:00", "06:00"), "2026-11-30 05:00");
        assert_eq!(ends("2026-11-29T01:00:00", "06:00"), "2026-11-29 05:00");
        assert_eq!(ends("2026-12-31T22:00:00", "00:00"), "2026-12-31 23:00");
        // Within this very minute it is tomorrow's.
        for start in ["2026-11-29T05:00:00", "2026-11-29T05:00:59"] {
            assert_eq!(ends(start, "6:00"), "2026-11-30 05:00");
        }
        assert_eq!(ends("2026-11-29T04:59:59", "06:00"), "2026-11-29 05:00");
    }

    #[test]
    fn on_a_day_with_a_change_of_the_clock_what_the_wall_clock_shows_counts() {
        // At 02:00 it becomes 03:00: the night has seven hours, and there is no 02:30.
        assert_eq!(ends("2026-03-28T21:00:00", "06:00"), "2026-03-29 04:00");
        assert_eq!(ends("2026-03-28T21:00:00", "02:30"), "2026-03-29 01:30");
        // At 03:00 it becomes 02:00: the night has nine hours, and 02:30 comes twice.
        assert_eq!(ends("2026-10-24T20:00:00", "06:00"), "2026-10-25 05:00");
        assert_eq!(ends("2026-10-24T20:00:00", "02:30"), "2026-10-25 00:30");
        assert_eq!(ends("2026-10-25T00:45:00", "02:30"), "2026-10-25 01:30");
        assert_eq!(ends("2026-10-25T01:45:00", "02:30"), "2026-10-26 01:30");
    }

    #[test]
    fn the_wall_clock_may_be_set_and_the_other_one_only_runs() {
        let six: Timestamp = "2026-11-29T06:00:00Z".parse().unwrap();
        let deadline = Deadline {
            started: Instant::now(),
            until: Some(("06:00".parse().unwrap(), six)),
            max_time: Some(Duration::from_secs(8 * 60 * 60)),
        };
        let reached = |minutes: i64, lasted: u64| {
            let now = six + jiff::SignedDuration::from_mins(minutes);
            let stop = deadline.reached_at(now, Duration::from_secs(lasted));
            stop.map(|stop| stop.reason)
        };
        assert_eq!(reached(-1, 8 * 3600 - 1), None);
        assert_eq!(reached(-1, 8 * 3600), Some(CancelReason::MaxTime));
        assert_eq!(reached(0, 60), Some(CancelReason::Until));
        // It was set forward, or the machine was asleep.
        assert_eq!(reached(500, 60), Some(CancelReason::Until));
    }

    #[test]
    fn only_times_of_day_are_taken() {
        for wrong in [
            "24:00", "6", "06:60", "6am", "", "-1:00", "06:00:00", "22:00 ",
        ] {
            assert!(wrong.parse::<TimeOfDay>().is_err(), "{wrong}");
        }
        assert_eq!("6:05".parse(), "06:05".parse::<TimeOfDay>());
    }
}
