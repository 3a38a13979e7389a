//! How many calls all workers had in flight at a moment that is a little past: once each has reported on it.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::report::{Ended, WorkerReport};

/// Calls in flight over time. Times are on the row's clock.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    /// What was reported and not taken in yet: when, who, and how many calls that worker had in flight from then on.
    reported: Vec<(Duration, u32, u32)>,
    each: BTreeMap<u32, u32>,
    /// How many all of them had, from when on.
    all: VecDeque<(Duration, u32)>,
    /// When refused calls started and ended: the service has none of them in flight.
    refused: VecDeque<(Duration, Duration)>,
}

/// Changes that are remembered: a call that was out during more of them was out together with too many others to matter.
const REMEMBERED: usize = 4_096;

/// Refused calls that are remembered: older ones are about a pace that was given up.
const REFUSED: usize = 64;

impl InFlight {
    /// A worker reported at `at`.
    pub(super) fn report(&mut self, at: Duration, report: &WorkerReport) {
        let time = |ago: u64| at.saturating_sub(Duration::from_micros(ago));
        let ends = report.ended.iter().map(|call| (time(call.ago), false));
        let starts = report.started.iter().map(|ago| (time(*ago), true));
        let mut changes: Vec<_> = ends.chain(starts).collect();
        changes.sort_unstable();
        let mut out = report.out;
        for call in &report.ended {
            if let Ended::Refused(_) = call.how {
                if self.refused.len() == REFUSED {
                    self.refused.pop_front();
                }
                let ended = time(call.ago);
                let took = Duration::from_micros(call.took);
                self.refused.push_back((ended.saturating_sub(took), ended));
            }
        }
        // Backwards, as it is known how many there are in the end.
        self.reported.push((at, report.worker, out));
        for (at, starts) in changes.into_iter().rev() {
            self.reported.push((at, report.worker, out));
            out = if starts {
                out.saturating_sub(1)
            } else {
                out + 1
            };
        }
    }

    /// All workers have reported what happened until then.
    pub(super) fn known_until(&mut self, known: Duration) {
        self.reported.sort_by_key(|(at, ..)| *at);
        let past = self.reported.partition_point(|(at, ..)| *at <= known);
        for (at, worker, out) in self.reported.drain(..past) {
            self.each.insert(worker, out);
            if self.all.len() == REMEMBERED {
                self.all.pop_front();
            }
            self.all.push_back((at, self.each.values().sum()));
        }
    }

    /// A worker is gone, and its calls with it.
    pub(super) fn is_gone(&mut self, worker: u32) {
        self.each.remove(&worker);
    }

    /// How many there were at a moment; `None` if that is too long ago.
    pub(super) fn at(&self, moment: Duration) -> Option<u32> {
        let next = self.all.partition_point(|(at, _)| *at <= moment);
        let (_, out) = self.all.get(next.checked_sub(1)?)?;
        let was_out = |call: &&(Duration, Duration)| call.0 < moment && moment < call.1;
        let refused = self.refused.iter().filter(was_out).count();
        Some(out.saturating_sub(u32::try_from(refused).unwrap_or(u32::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pace::shared::report::ReportedCall;
    use crate::pace::types::Try;

    const MILLISECOND: Duration = Duration::from_millis(1);

    fn ended(ago: u64, took: u64, how: Ended) -> ReportedCall {
        ReportedCall {
            ago: ago * 1_000,
            took: took * 1_000,
            epoch: 0,
            tried: Try::First,
            how,
        }
    }

    #[test]
    fn what_workers_report_gives_the_calls_that_the_service_had_at_a_moment() {
        let mut in_flight = InFlight::default();
        let report = |worker, out, started: &[u64], ended| WorkerReport {
            worker,
            out,
            started: started.iter().map(|ago| ago * 1_000).collect(),
            ended,
            ..WorkerReport::default()
        };
        // Calls from 10 to 60 and from 40 on; from 20 on, and from 30 to 50, which was refused.
        let answered = vec![ended(40, 50, Ended::Answered)];
        in_flight.report(100 * MILLISECOND, &report(1, 1, &[90, 60], answered));
        let refused = vec![ended(60, 20, Ended::Refused(None))];
        in_flight.report(110 * MILLISECOND, &report(2, 1, &[90, 80], refused));
        in_flight.known_until(100 * MILLISECOND);
        let at = |moment: u32| in_flight.at(moment * MILLISECOND);
        let seen = [5, 10, 20, 30, 40, 55, 70].map(at);
        let known = [1, 2, 3, 3, 3, 2].map(Some);
        assert_eq!(seen[0], None);
        assert_eq!(seen[1..], known);
    }
}
