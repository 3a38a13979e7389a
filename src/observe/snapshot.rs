//! One moment of a run for progress: the counts, how fast they change, and why calls wait or are not faster, which people most
//! want to know.

use std::num::NonZeroU64;
use std::time::Duration;

use serde::Serialize;

use super::numbers::{at_a_time, counted, per_time, whole_seconds};
use super::summary::RunIdentity;
use crate::base::numbers::{rounded, seconds};
use crate::telemetry::counts::{Counts, Events, OngoingOutage};
use crate::telemetry::pace::{Pace, Pause, Search};

/// The facts about a run that are no counts.
pub(crate) struct ProgressSettings {
    /// Which run it is.
    pub(crate) identity: RunIdentity,
    /// The source's size in bytes, if it has one.
    pub(crate) size: Option<u64>,
    /// The names of the files in their order, if there are several.
    pub(crate) files: Vec<String>,
    /// With `--limit`: the run takes no more rows than this.
    pub(crate) limit: Option<NonZeroU64>,
    /// The highest number of calls in flight that the run allows.
    pub(crate) concurrency: usize,
    /// The time limit for a call.
    pub(crate) timeout: Duration,
    /// Says for how long the ledger's server has been waited for, and why, while it is.
    pub(crate) ledger_wait: Box<dyn Fn() -> Option<String> + Send + Sync>,
    /// What the same command does if the run is killed.
    pub(crate) after_kill: String,
}

/// One moment of a run that is at work.
#[derive(Debug, Clone, Default)]
pub(super) struct Snapshot {
    pub(super) counts: Counts,
    pub(super) now: Now,
    /// Why calls wait, or are not faster: the reason first, then more about it. Empty if nothing holds calls back.
    pub(super) reasons: Vec<String>,
}

/// The numbers that programs see only while a run is at work. A value that is not known (yet) is null.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Now {
    pub(super) file: Option<u64>,
    pub(super) files: Option<u64>,
    pub(super) percent: Option<f64>,
    #[serde(rename = "eta_seconds", serialize_with = "seconds::serialize_some")]
    pub(super) remaining: Option<Duration>,
    pub(super) rows_per_second: Option<f64>,
    calls_per_second: Option<f64>,
    #[serde(serialize_with = "seconds::serialize_some")]
    pub(super) pause_left_seconds: Option<Duration>,
    #[serde(serialize_with = "seconds::serialize_some")]
    pub(super) outage_seconds: Option<Duration>,
    rows_of_other_runs: u64,
}

impl Snapshot {
    pub(super) fn take(
        events: &Events,
        settings: &ProgressSettings,
        recent: &mut RecentProgress,
    ) -> Self {
        let (at, ledger_wait) = (events.elapsed(), (settings.ledger_wait)());
        let files = Some(settings.files.len() as u64).filter(|files| *files > 0);
        events.with_counts(|counts| {
            let share = share(counts, settings.size, settings.limit);
            let point = ProgressPoint {
                at,
                rows: counts.rows.resolved,
                calls: counts.calls.sent,
                share: share.unwrap_or_default(),
            };
            let done = recent.since_then(counts.state.speed_from, point);
            let each_second = |number: fn(&ProgressPoint) -> u64| {
                done.and_then(|done| done.each_second(number(&done)))
                    .map(rounded)
            };
            let calls = each_second(|done| done.calls);
            let ends = counts.cancelled.is_none() && !waits_for_others(counts);
            // While all calls wait, it is as it was before.
            let is_held = counts.state.outage.is_some() || counts.pause_left(at).is_some();
            if !is_held {
                recent.remaining = done.and_then(|done| done.to_the_end(point.share));
            }
            let remaining = recent.remaining;
            let outage = counts.state.outage.as_ref();
            Self {
                counts: counts.as_of(at, settings.identity.tariff.as_ref()),
                now: Now {
                    file: files.map(|_| counts.state.file),
                    files,
                    percent: share.map(percent),
                    remaining: remaining.filter(|_| ends),
                    rows_per_second: each_second(|done| done.rows),
                    calls_per_second: calls,
                    pause_left_seconds: counts.pause_left(at).map(|(left, _)| left),
                    outage_seconds: outage.map(|outage| at.saturating_sub(outage.since)),
                    rows_of_other_runs: counts.state.taken,
                },
                reasons: wait_reasons(
                    counts,
                    at,
                    calls,
                    settings.concurrency,
                    settings.timeout,
                    ledger_wait,
                ),
            }
        })
    }
}

/// 100 % means that everything is done.
fn percent(share: f64) -> f64 {
    let most = if share < 1.0 { 99.999 } else { 100.0 };
    rounded(share * 100.0).min(most)
}

/// Whether the end cannot be estimated, because the only remaining rows wait for other runs.
const fn waits_for_others(counts: &Counts) -> bool {
    counts.state.taken > 0 && counts.calls.in_flight == 0
}

/// The share of the run that is done. A run with a limit of rows ends with the last of them, or before with the source.
fn share(counts: &Counts, size: Option<u64>, limit: Option<NonZeroU64>) -> Option<f64> {
    let rows = &counts.rows;
    if rows.read == 0 {
        return None;
    }
    // By bytes, times the share of the rows read that are done: a row that waits at the front of the window must not make the
    // whole run look stuck. A file is read only up to its size at the start, and a compressed one ends with its checksum.
    let of_source = size.filter(|size| *size > 0).map(|size| {
        let read = counts.state.position as f64 / size as f64;
        (read * rows.resolved as f64 / rows.read as f64).min(1.0)
    });
    let of_limit = limit.map(|limit| counts.chosen() as f64 / limit.get() as f64);
    of_source.into_iter().chain(of_limit).reduce(f64::max)
}

/// How far the run was at one moment, or the difference between two moments.
#[derive(Debug, Clone, Copy, Default)]
struct ProgressPoint {
    at: Duration,
    rows: u64,
    calls: u64,
    share: f64,
}

/// In less time too little happens: a number that jumps about is worse than none.
const SHORTEST_FOR_RATE: Duration = Duration::from_millis(500);
const SHORTEST_FOR_END: Duration = Duration::from_secs(2);

impl ProgressPoint {
    fn each_second(self, number: u64) -> Option<f64> {
        (self.at >= SHORTEST_FOR_RATE).then(|| number as f64 / self.at.as_secs_f64())
    }

    /// Time until everything is done, given the share that is done.
    fn to_the_end(self, done: f64) -> Option<Duration> {
        if self.at < SHORTEST_FOR_END || self.share <= 0.0 {
            return None;
        }
        let seconds = self.at.as_secs_f64() * (1.0 - done) / self.share;
        Duration::try_from_secs_f64(seconds).ok()
    }
}

/// Two points of the last seconds: the speed is that since the older one.
#[derive(Debug, Default)]
pub(super) struct RecentProgress {
    older: ProgressPoint,
    newer: ProgressPoint,
    /// The time to the end when it was last estimated.
    remaining: Option<Duration>,
}

/// Recent is the time from once up to twice this.
const RECENT: Duration = Duration::from_secs(15);
/// With fewer rows than these in that time, the whole run is the better guide.
const MIN_RECENT_ROWS: u64 = 10;

impl RecentProgress {
    /// The progress of the last seconds; rows before `first` do not count.
    fn since_then(
        &mut self,
        first: Option<(Duration, u64, u64)>,
        now: ProgressPoint,
    ) -> Option<ProgressPoint> {
        let (at, rows, calls) = first?;
        let share = now.share * rows as f64 / now.rows.max(1) as f64;
        if now.at.saturating_sub(self.newer.at) > RECENT {
            self.older = std::mem::replace(&mut self.newer, now);
        }
        let since = if self.older.at <= at || now.rows - self.older.rows < MIN_RECENT_ROWS {
            ProgressPoint {
                at,
                rows,
                calls,
                share,
            }
        } else {
            self.older
        };
        Some(ProgressPoint {
            at: now.at.saturating_sub(since.at),
            rows: now.rows - since.rows,
            calls: now.calls - since.calls,
            share: now.share - since.share,
        })
    }
}

/// If the first call takes longer than this, progress says so: most take less than a second.
const SILENCE: Duration = Duration::from_secs(2);

/// Fewer calls a second would not be throttled less. How many are is counted elsewhere.
pub(super) const REFUSED_AT_ANY: &str = "the service throttles some calls at any pace";

/// `ceiling` is the highest number of calls in flight that the run allows, `reached` the calls made in a second.
fn wait_reasons(
    counts: &Counts,
    now: Duration,
    reached: Option<f64>,
    ceiling: usize,
    timeout: Duration,
    ledger_wait: Option<String>,
) -> Vec<String> {
    let waits = counts.first_call_waits(now);
    let all_wait = if counts.cancelled.is_some() {
        Some("stopping".to_owned())
    } else if let Some(why) = ledger_wait {
        Some(format!("waiting for the ledger's server for {why}"))
    } else if let Some((left, pause)) = counts.pause_left(now) {
        Some(paused(left, pause, &counts.state.paused_by))
    } else if let Some(outage) = &counts.state.outage {
        return down(outage, now).into();
    } else if let Some(waits) = waits.filter(|waits| *waits >= SILENCE) {
        let (waits, limit) = (whole_seconds(waits), whole_seconds(timeout));
        Some(format!(
            "no answer to the first call for {waits} (limit {limit})"
        ))
    } else if waits_for_others(counts) {
        let rows = counted(counts.state.taken, "row");
        Some(format!(
            "waiting for {rows} that another run is asking about"
        ))
    } else if counts.waits_for_input() {
        Some("waiting for its input".to_owned())
    } else {
        None
    };
    let (None, Some(pace)) = (&all_wait, counts.pace) else {
        return all_wait.into_iter().collect();
    };
    // Calls wait for the one of the two limits that is used up.
    let all_out = counts.calls.in_flight >= pace.in_flight as u64;
    let mut reasons = match pace.limit_in_flight {
        Some(found) if all_out => vec![limit_in_flight(found)],
        None if all_out && pace.in_flight >= ceiling => {
            vec!["`--concurrency` allows no more calls at a time".to_owned()]
        }
        _ => rate(pace, reached),
    };
    reasons.extend(pace.refused_at_any.map(|_| REFUSED_AT_ANY.to_owned()));
    reasons
}

/// Why the rate is not higher. The pace that is shown is the one that is reached, not the one that is allowed.
fn rate(pace: Pace, reached: Option<f64>) -> Vec<String> {
    let Some(allowed) = pace.rate else {
        return Vec::new();
    };
    let now = format!("pace {}", per_time(reached.unwrap_or(allowed)));
    if pace.asked_for().is_some() {
        return vec![format!("{now}, as the service's headers ask")];
    }
    if pace.at_ceiling {
        let allowed = per_time(allowed);
        return vec![format!("{now}, of the {allowed} that `--rate` allows")];
    }
    let why = format!("{now}, {}", pace.search.words());
    match (pace.search, pace.limit.map(limit)) {
        (Search::Plateau, Some(found)) => vec![found, now],
        (_, found) => [why].into_iter().chain(found).collect(),
    }
}

/// The rate limit that was found.
pub(super) fn limit(found: f64) -> String {
    format!("limit found: about {}", per_time(found))
}

/// The limit of concurrent calls that was found.
pub(super) fn limit_in_flight(found: usize) -> String {
    format!("limit found: {}", at_a_time(found as u64))
}

/// The service is down; why, and for how much longer it is waited for.
pub(super) fn down(outage: &OngoingOutage, now: Duration) -> [String; 2] {
    let next = outage.next.saturating_sub(now);
    let next = if next.is_zero() {
        "trying".to_owned()
    } else {
        format!("next try in {}", whole_seconds(next))
    };
    let lasted = now.saturating_sub(outage.since);
    let left = whole_seconds(outage.gives_up.saturating_sub(now));
    let lasted = match lasted.as_secs() {
        0 => format!("service down, {next}"),
        _ => format!("service down for {}, {next}", whole_seconds(lasted)),
    };
    [lasted, format!("{}, {left} left", outage.why)]
}

/// All calls wait for a while longer.
pub(super) fn paused(left: Duration, pause: Pause, by: &str) -> String {
    let why = match pause.asked {
        Some(asked) => format!("asked for {}", whole_seconds(asked)),
        None => "is busy".to_owned(),
    };
    // We wait a little longer than the service asked for.
    let left = whole_seconds(left.min(pause.asked.unwrap_or(left)));
    format!("paused: {by} {why}, {left} left")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::RowNumber;
    use crate::telemetry::event::Event;
    use crate::telemetry::pace::Hint;

    /// Looks at a run of 100,000 rows every second, of which `known` are from the ledger, and returns the last speed.
    fn run(known: u64, seconds: u64, resolved: impl Fn(u64) -> u64) -> (f64, Option<Duration>) {
        let mut recent = RecentProgress::default();
        let mut last = (0.0, None);
        let first = (Duration::ZERO, known, 0);
        for second in 0..=seconds {
            let share = resolved(second) as f64 / 100_000.0;
            let now = ProgressPoint {
                at: Duration::from_secs(second),
                rows: resolved(second),
                calls: 0,
                share,
            };
            let done = recent.since_then(Some(first), now).unwrap();
            let rate = done.each_second(done.rows).unwrap_or(0.0);
            last = (rate, done.to_the_end(share));
        }
        last
    }

    #[test]
    fn rows_from_the_ledger_do_not_count_before_a_call_and_soon_stop_counting_after_one() {
        // Half of the rows, then 50 rows a second.
        let (rate, left) = run(50_000, 5, |second| 50_000 + 50 * second);
        assert!((49.0..51.0).contains(&rate), "{rate}");
        let left = left.unwrap().as_secs();
        assert!((990..1_000).contains(&left), "{left} s");
        // Half of the rows in the second after the first call.
        let (rate, left) = run(0, 120, |second| match second {
            0 => 0,
            _ => 50_000 + 50 * (second - 1),
        });
        assert!((49.0..51.0).contains(&rate), "{rate}");
        let left = left.unwrap().as_secs();
        assert!((850..920).contains(&left), "{left} s");
    }

    #[test]
    fn a_slow_run_is_judged_as_a_whole() {
        let (rate, left) = run(0, 600, |second| second / 20);
        assert!((0.04..0.06).contains(&rate), "{rate}");
        assert!(left.is_some());
    }

    const TIMEOUT: Duration = Duration::from_secs(30);

    const PACE: Pace = Pace {
        rate: Some(48.0),
        in_flight: 16,
        search: Search::Plateau,
        limit: Some(50.0),
        limit_in_flight: Some(16),
        headers: Hint::Silent,
        at_ceiling: false,
        refused_at_any: None,
    };

    fn words(pace: Pace, in_flight: u64) -> String {
        let mut counts = Counts::default();
        (counts.pace, counts.calls.in_flight) = (Some(pace), in_flight);
        wait_reasons(&counts, Duration::ZERO, Some(46.5), 64, TIMEOUT, None).join("; ")
    }

    #[test]
    fn of_two_limits_the_one_that_is_used_up_is_shown_and_the_pace_is_what_is_reached() {
        assert_eq!(words(PACE, 16), "limit found: 16 calls at a time");
        assert_eq!(words(PACE, 15), "limit found: about 50.0/s; pace 46.5/s");
        let ceiling = Pace {
            in_flight: 64,
            limit_in_flight: None,
            at_ceiling: true,
            ..PACE
        };
        let all_out = "`--concurrency` allows no more calls at a time";
        assert_eq!(words(ceiling, 64), all_out);
        let of_rate = "pace 46.5/s, of the 48.0/s that `--rate` allows";
        assert_eq!(words(ceiling, 9), of_rate);
        let unlimited = Pace {
            rate: None,
            limit: None,
            ..ceiling
        };
        assert_eq!(words(unlimited, 64), all_out);
        assert_eq!(words(unlimited, 9), "");
        let growing = Pace {
            search: Search::Growing,
            limit: None,
            limit_in_flight: None,
            refused_at_any: Some(0.05),
            ..PACE
        };
        let more = "pace 46.5/s, growing until calls are throttled; the service throttles some calls at any pace";
        assert_eq!(words(growing, 3), more);
        let asked = Pace {
            headers: Hint::Asks(48.0),
            ..PACE
        };
        assert_eq!(words(asked, 3), "pace 46.5/s, as the service's headers ask");
    }

    #[test]
    fn an_outage_and_a_silent_service_are_named_with_their_limits() {
        let second = Duration::from_secs;
        let mut counts = Counts::default();
        let reasons =
            |counts: &Counts, now| wait_reasons(counts, second(now), None, 64, TIMEOUT, None);
        let (row, again) = (RowNumber::FIRST, None);
        counts.apply(second(3), &Event::CallBegan { row, again });
        assert!(reasons(&counts, 4).is_empty());
        let silent = "no answer to the first call for 12 s (limit 30 s)";
        assert_eq!(reasons(&counts, 15), [silent]);
        let outage = Event::ServiceDown {
            row,
            lasted: second(2),
            next: second(5),
            why: "127.0.0.1:27049: connection refused".into(),
            patience: second(900),
        };
        counts.apply(second(20), &outage);
        let down = [
            "service down for 4 s, next try in 3 s",
            "127.0.0.1:27049: connection refused, 14 min 58 s left",
        ];
        assert_eq!(reasons(&counts, 22), down);
    }

    #[test]
    fn the_end_is_not_estimated_while_a_run_waits_for_others() {
        let counts = |in_flight| {
            let mut counts = Counts::default();
            (counts.pace, counts.state.taken) = (Some(PACE), 12);
            counts.calls.in_flight = in_flight;
            counts
        };
        assert!(!waits_for_others(&counts(1)) && waits_for_others(&counts(0)));
        let reasons = wait_reasons(&counts(0), Duration::ZERO, None, 64, TIMEOUT, None);
        assert_eq!(
            reasons,
            ["waiting for 12 rows that another run is asking about"]
        );
    }
}
