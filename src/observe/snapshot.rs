//! The numbers that progress shows at one moment, and how fast they change.

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::time::Duration;

use super::run_counts::RunCounts;
use super::settings::ProgressSettings;
use crate::telemetry::event::CancelReason;
use crate::telemetry::hub::Events;
use crate::telemetry::pace::{Pace, Pause};
use crate::telemetry::stats::{OngoingOutage, Stats};

/// The numbers at one moment.
#[derive(Debug, Clone, Default)]
pub(super) struct Snapshot {
    /// Since the start.
    pub(super) at: Duration,
    /// Which file's rows come; `None` for a run of one file.
    pub(super) file: Option<FileTurn>,
    /// What was counted so far.
    pub(super) counts: RunCounts,
    pub(super) in_flight: u64,
    /// Rows that another run is asking about.
    pub(super) taken: u64,
    pub(super) pause: Option<(Duration, Pause)>,
    pub(super) outage: Option<OngoingOutage>,
    pub(super) pace: Option<Pace>,
    /// Why the ledger's server is waited for.
    pub(super) ledger_wait: Option<String>,
    /// Why the run is stopping.
    pub(super) stopping: Option<CancelReason>,
    /// The share of the source that is done, from 0 to 1.
    pub(super) share: Option<f64>,
    /// Rows a second.
    pub(super) rate: Option<f64>,
    /// Estimated time to the end.
    pub(super) remaining: Option<Duration>,
}

/// In less time there is too little to go by: a number that jumps about is worse than none.
const SHORTEST_FOR_RATE: Duration = Duration::from_millis(500);
const SHORTEST_FOR_END: Duration = Duration::from_secs(2);

/// Which of several files has its turn.
#[derive(Debug, Clone, Copy)]
pub(super) struct FileTurn {
    /// Its number, from 1; 0 before the first.
    pub(super) file: u64,
    /// How many files there are.
    pub(super) files: u64,
}

impl Snapshot {
    pub(super) fn take(events: &Events, settings: &ProgressSettings, recent: &mut Recent) -> Self {
        let at = events.elapsed();
        events.with_stats(|stats| {
            let share = share(stats, settings.size, settings.limit);
            let now = ProgressPoint {
                at,
                resolved: stats.resolved(),
                share: share.unwrap_or_default(),
            };
            let first = { stats.first_called }.or(stats.first_resolved.map(|at| (at, 0)));
            let speed = recent.speed(first, now);
            let remaining = speed.and_then(|speed| speed.to_the_end(now.share));
            Self {
                at,
                file: settings.files.map(|files| FileTurn {
                    file: stats.file,
                    files,
                }),
                counts: RunCounts::of(stats, at, settings.tariff.as_ref()),
                in_flight: stats.in_flight,
                taken: stats.taken,
                pause: stats.pause_left(at),
                outage: stats.outage,
                pace: stats.pace,
                ledger_wait: (settings.ledger_wait.0)(),
                stopping: stats.cancelled,
                share,
                rate: speed.and_then(Speed::rows),
                remaining: remaining
                    .filter(|_| stats.cancelled.is_none() && !waits_for_others(stats)),
            }
        })
    }
}

/// Whether nobody knows when the run goes on: the service is away, or all that is left are rows that
/// other runs are asking about.
const fn waits_for_others(stats: &Stats) -> bool {
    let only_taken = stats.taken > 0 && stats.in_flight == 0;
    stats.outage.is_some() || only_taken
}

/// The share of the run that is done. A run that takes only so many rows ends with them, or before with the source.
#[allow(clippy::cast_precision_loss, reason = "shown as a percentage")]
fn share(stats: &Stats, size: Option<u64>, limit: Option<NonZeroU64>) -> Option<f64> {
    let of_source = size.and_then(|size| share_of_source(stats, size));
    let of_limit = limit
        .filter(|_| stats.read > 0)
        .map(|limit| stats.resolved() as f64 / limit.get() as f64);
    of_source.into_iter().chain(of_limit).reduce(f64::max)
}

/// The share of the source that is done: the share that was read, by bytes, times the share of those rows that are done. A
/// row that waits at the front of the window must not make the whole run look stuck.
#[allow(clippy::cast_precision_loss, reason = "shown as a percentage")]
fn share_of_source(stats: &Stats, size: u64) -> Option<f64> {
    if size == 0 || stats.read == 0 {
        return None;
    }
    let (read, done) = (
        stats.position as f64 / size as f64,
        stats.resolved() as f64 / stats.read as f64,
    );
    // A file is read only up to its size at the start, and a compressed one ends with its checksum.
    Some((read * done).min(1.0))
}

/// How far the run was at one moment.
#[derive(Debug, Clone, Copy, Default)]
struct ProgressPoint {
    at: Duration,
    resolved: u64,
    share: f64,
}

/// How far the run was in the last seconds. When a run continues, rows from the ledger fly by at the start; they say
/// nothing about the speed of rows that need a call, and do not count once there is one.
#[derive(Debug, Default)]
pub(super) struct Recent(VecDeque<ProgressPoint>);

/// What counts as recent: the time between three lines of a log.
const RECENT: Duration = Duration::from_secs(20);
/// With fewer rows than these in that time, the whole run is the better guide.
const FEW: u64 = 10;

impl Recent {
    /// The current speed; `first` is when the first row that counts was done, and how many were before.
    #[allow(clippy::cast_precision_loss, reason = "shown with three digits")]
    fn speed(&mut self, first: Option<(Duration, u64)>, now: ProgressPoint) -> Option<Speed> {
        let (at, resolved) = first?;
        let start = ProgressPoint {
            at,
            resolved,
            share: now.share * resolved as f64 / now.resolved.max(1) as f64,
        };
        while self
            .0
            .front()
            .is_some_and(|oldest| now.at.saturating_sub(oldest.at) > RECENT)
        {
            self.0.pop_front();
        }
        let young = now.at.saturating_sub(start.at) <= RECENT;
        let since = match self.0.front() {
            Some(oldest) if !young && now.resolved - oldest.resolved >= FEW => *oldest,
            _ => start,
        };
        self.0.push_back(now);
        Some(Speed {
            time: now.at.saturating_sub(since.at),
            rows: (now.resolved - since.resolved) as f64,
            share: now.share - since.share,
        })
    }
}

/// What was done in a period.
#[derive(Debug, Clone, Copy)]
struct Speed {
    time: Duration,
    rows: f64,
    share: f64,
}

impl Speed {
    /// Rows a second.
    fn rows(self) -> Option<f64> {
        (self.time >= SHORTEST_FOR_RATE).then(|| self.rows / self.time.as_secs_f64())
    }

    /// Time until everything is done, given the share that is done.
    fn to_the_end(self, done: f64) -> Option<Duration> {
        if self.time < SHORTEST_FOR_END || self.share <= 0.0 {
            return None;
        }
        let seconds = self.time.as_secs_f64() * (1.0 - done) / self.share;
        Duration::try_from_secs_f64(seconds).ok()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Looks at a run of 100,000 rows every second, of which so many are from the ledger, and returns the last speed.
    fn run(known: u64, seconds: u64, resolved: impl Fn(u64) -> u64) -> (f64, Option<Duration>) {
        let mut recent = Recent::default();
        let mut last = (0.0, None);
        for second in 0..=seconds {
            #[allow(clippy::cast_precision_loss, reason = "small")]
            let share = resolved(second) as f64 / 100_000.0;
            let now = ProgressPoint {
                at: Duration::from_secs(second),
                resolved: resolved(second),
                share,
            };
            let speed = recent.speed(Some((Duration::ZERO, known)), now).unwrap();
            last = (speed.rows().unwrap_or(0.0), speed.to_the_end(share));
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
    fn nobody_knows_the_end_while_others_are_waited_for() {
        let now = |taken, in_flight| {
            let mut stats = Stats::default();
            (stats.taken, stats.in_flight) = (taken, in_flight);
            waits_for_others(&stats)
        };
        assert!(!now(0, 0) && !now(3, 1) && now(3, 0));
    }

    #[test]
    fn a_slow_run_is_judged_as_a_whole() {
        let (rate, left) = run(0, 600, |second| second / 20);
        assert!((0.04..0.06).contains(&rate), "{rate}");
        assert!(left.is_some());
    }
}
