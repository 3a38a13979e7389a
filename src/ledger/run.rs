//! The record of a run, by which the same command continues it: which answers it uses, and how many calls it has made.
//!
//! A run is recognised by its output. It keeps the moment from which on answers are recent enough: so a run that is continued
//! gives what it would have given without the stop, and a run that asks everybody again does not start over.

use std::time::{Duration, SystemTime};

use super::clock::millis;
use super::key::PathHash;
use super::outcome::{ReadAnswer, Scope};
use super::settings::Reuse;

/// Answers older than this are said to be old, unless a setting says how old they may be.
const AGED: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// A run as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StoredRun {
    /// Its row.
    pub(super) id: i64,
    /// A hash of its input's path.
    pub(super) input: Option<PathHash>,
    /// Which answers it uses, as a word.
    pub(super) reuse: String,
    pub(super) not_before: i64,
    pub(super) failures_from: i64,
    /// When it first started, in milliseconds since 1970.
    pub(super) started: i64,
    /// The rows without a verdict, if it has ended.
    pub(super) ended: Option<u64>,
    /// Calls of all its starts that are known to have been made.
    pub(super) calls: u64,
    /// Its claims that no start of it has ended: so many calls at most were lost in kills.
    pub(super) left_claims: u64,
    /// Those of them that were given up without an answer, whose calls are among `calls`.
    pub(super) abandoned_claims: u64,
    /// The most calls that it may have had in flight at a time.
    pub(super) in_flight: u64,
}

/// What was recorded about the previous run to the same output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum PreviousRun {
    /// Nothing.
    #[default]
    None,
    /// It was stopped.
    Stopped,
    /// It reached the end of its input.
    Finished {
        /// Rows without a verdict.
        failed: u64,
    },
}

/// The run that starts now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RunPlan {
    /// A hash of its output's path; `None` for rows to a stream, which no run can continue.
    pub(super) name: Option<PathHash>,
    pub(super) input: Option<PathHash>,
    /// Which answers it uses, as a word.
    pub(super) reuse: String,
    pub(super) not_before: i64,
    pub(super) failures_from: i64,
    /// When it first started, in milliseconds since 1970.
    pub(super) started: i64,
    pub(super) previous: PreviousRun,
    /// Whether that had the same input.
    pub(super) same_input: bool,
    /// Whether it continues the previous one.
    pub(super) continues: bool,
    /// Calls of its earlier starts, with those that kills may have lost.
    pub(super) calls_before: u64,
    /// Calls that a kill may have lost, whose rows may be billed twice.
    pub(super) lost_calls: u64,
}

impl RunPlan {
    /// The plan of a run to this output over this input, which uses these answers, where a run to the output was found.
    pub(super) fn new(
        (name, input): (Option<PathHash>, Option<PathHash>),
        reuse: Reuse,
        found: Option<&StoredRun>,
        now: SystemTime,
    ) -> Self {
        let word = reuse.word();
        let previous = match found {
            None => PreviousRun::None,
            Some(StoredRun { ended: None, .. }) => PreviousRun::Stopped,
            Some(StoredRun {
                ended: Some(failed),
                ..
            }) => PreviousRun::Finished { failed: *failed },
        };
        let plan = Self {
            name,
            input,
            not_before: reuse.not_before(now),
            failures_from: reuse.failures_from(now),
            reuse: word,
            started: millis(now),
            previous,
            same_input: found.is_some_and(|found| found.input == input),
            continues: false,
            calls_before: 0,
            lost_calls: found.map_or(0, |found| found.lost_calls(found.left_claims)),
        };
        let Some(found) = found else {
            return plan;
        };
        let is_stopped = previous == PreviousRun::Stopped && plan.same_input;
        let not_in_calls = found.left_claims.saturating_sub(found.abandoned_claims);
        let calls_before = { found.calls }.saturating_add(found.lost_calls(not_in_calls));
        if is_stopped && found.reuse == plan.reuse {
            Self {
                not_before: found.not_before,
                failures_from: found.failures_from,
                started: found.started,
                continues: true,
                calls_before,
                ..plan
            }
        } else if reuse == Reuse::Retry {
            // Of its answers none is asked for again.
            Self {
                not_before: found.not_before,
                continues: is_stopped,
                calls_before: if is_stopped { calls_before } else { 0 },
                ..plan
            }
        } else {
            plan
        }
    }
}

impl RunPlan {
    /// What of the stored answers is of use to the run.
    pub(super) fn scope(&self, reuse: Reuse, read: &ReadAnswer, now: SystemTime) -> Scope {
        let aged = now.checked_sub(AGED).map_or(i64::MIN, millis);
        Scope {
            not_before: self.not_before,
            failures_from: self.failures_from,
            started: self.started,
            aged_before: if matches!(reuse, Reuse::Recent(_)) {
                i64::MIN
            } else {
                aged
            },
            read: ReadAnswer::clone(read),
        }
    }
}

impl StoredRun {
    /// How many calls for what was claimed kills may have lost: a run has claims for more than it has called for, and never more
    /// calls in flight than this, of which each can be lost once while it is called for and once while its answer is stored.
    fn lost_calls(&self, claims: u64) -> u64 {
        claims.min(self.in_flight.saturating_mul(2))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    fn stored(plan: &RunPlan) -> StoredRun {
        StoredRun {
            id: 1,
            input: plan.input,
            reuse: plan.reuse.clone(),
            not_before: plan.not_before,
            failures_from: plan.failures_from,
            started: plan.started,
            ended: None,
            calls: 10,
            left_claims: 4,
            abandoned_claims: 1,
            in_flight: 8,
        }
    }

    #[test]
    fn a_stopped_run_keeps_what_it_uses_and_counts_on() {
        let start = SystemTime::now();
        let names = (Some([1; 32]), Some([2; 32]));
        for reuse in [
            Reuse::All,
            Reuse::Recent(2 * HOUR),
            Reuse::Nothing,
            Reuse::Retry,
        ] {
            let first = RunPlan::new(names, reuse, None, start);
            assert!(!first.continues && first.calls_before == 0);
            let found = stored(&first);
            let second = RunPlan::new(names, reuse, Some(&found), start + HOUR);
            assert!(second.continues);
            assert_eq!(second.not_before, first.not_before);
            assert_eq!(second.failures_from, first.failures_from);
            assert_eq!(second.started, first.started);
            assert_eq!((second.calls_before, second.lost_calls), (13, 4));

            let other = (Some([1; 32]), Some([3; 32]));
            assert!(!RunPlan::new(other, reuse, Some(&found), start).continues);
            let ended = StoredRun {
                ended: Some(4),
                left_claims: 0,
                abandoned_claims: 0,
                ..found
            };
            let third = RunPlan::new(names, reuse, Some(&ended), start + HOUR);
            assert!(!third.continues && third.calls_before == 0);
            assert_eq!(third.previous, PreviousRun::Finished { failed: 4 });
            assert_eq!(third.lost_calls, 0);
        }
    }

    #[test]
    fn failed_rows_of_a_run_are_asked_about_again_and_its_answers_are_not() {
        let start = SystemTime::now();
        let names = (Some([1; 32]), None);
        let fresh = RunPlan::new(names, Reuse::Nothing, None, start);
        let ended = StoredRun {
            ended: Some(4),
            ..stored(&fresh)
        };
        let retry = RunPlan::new(names, Reuse::Retry, Some(&ended), start + HOUR);
        assert_eq!(retry.not_before, millis(start));
        assert_eq!(retry.failures_from, millis(start + HOUR));
    }
}
