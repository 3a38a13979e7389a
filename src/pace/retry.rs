//! Whether a row is tried again, and when; and which refusals are about the row alone and say nothing about the pace.

use std::time::Duration;

use crate::telemetry::event::FailureClass;

/// The retries that a row has used up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Retries {
    made: u32,
    /// How many of them followed a call that may have been billed.
    resends: u32,
    /// A call of the row has failed, also if that does not count against the row.
    pub(crate) has_failed: bool,
}

/// The limits of each row. How often all rows are tried is bounded by the gate and the breaker.
#[derive(Debug)]
pub(crate) struct RetryPolicy {
    /// All retries of a row.
    pub(crate) retries: u32,
    /// How many of them may follow a call that may have been billed.
    pub(crate) resends: u32,
}

/// The upper bound of the first back-off: many failures are over after that …
const FIRST_BACK_OFF: Duration = Duration::from_millis(500);
/// … doubling up to this: a restart takes as long.
const LONGEST_BACK_OFF: Duration = Duration::from_secs(30);
/// A back-off that doubles each time, up to the longest.
fn doubled(first: Duration, times: u32) -> Duration {
    first
        .saturating_mul(1 << times.min(16))
        .min(LONGEST_BACK_OFF)
}

impl RetryPolicy {
    /// The back-off before the row's next call, after one that failed in this way; `None` if there must be none. `fraction` is
    /// random, from 0 up to 1: full jitter spreads rows that failed together.
    pub(crate) fn next(
        &self,
        failed: FailureClass,
        used: &mut Retries,
        fraction: f64,
    ) -> Option<Duration> {
        let may_be_sent = match failed {
            FailureClass::NotProcessed | FailureClass::Unclear => true,
            FailureClass::OutcomeUnknown => used.resends < self.resends,
            // It would end in the same way.
            FailureClass::Useless | FailureClass::RowRefused | FailureClass::RunRefused => false,
        };
        if !may_be_sent || used.made >= self.retries {
            return None;
        }
        let ceiling = doubled(FIRST_BACK_OFF, used.made);
        used.made += 1;
        used.has_failed = true;
        used.resends += u32::from(failed == FailureClass::OutcomeUnknown);
        Some(ceiling.mul_f64(fraction))
    }
}

/// How often a row was refused, and how other rows fared meanwhile.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RowRefusals {
    /// How often it was refused.
    pub(crate) times: u32,
    /// The refusals that were about this row: others had been accepted since the one before.
    of_row_alone: u32,
    /// Whether any other row was accepted between the last two.
    others_accepted: bool,
    /// All calls when the row was first refused, and when it was last refused.
    at_first: CallCounts,
    at_last: CallCounts,
}

/// All calls so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CallCounts {
    accepted: u64,
    /// Without refusals that are about a single row.
    refused: u64,
}

/// At least this many calls must be accepted between two refusals of a row: with fewer, the service may just have had
/// room for a moment …
const MIN_ACCEPTED: u64 = 3;
/// … and this many for each that was refused: otherwise it refuses any row.
const MIN_ACCEPTED_PER_REFUSED: u64 = 2;
/// After this number of accepted calls a refused row is tried again in any case: if a third of all calls are refused at random,
/// it would otherwise wait for the end of the file.
const MOST_TO_PASS: u64 = 64;
/// A row is refused at least this often before it fails: five mistakes in a row are not made by a service that works.
const FEWEST_REFUSALS: u32 = 5;
/// The share of rows that chance alone may fail: less than one row of any file.
const BY_CHANCE: f64 = 1e-9;

impl CallCounts {
    /// A call was accepted.
    pub(super) const fn accept(&mut self) {
        self.accepted += 1;
    }

    /// Whether the row was not refused yet, or enough others were accepted since its last refusal, or so many that it need not
    /// wait longer.
    pub(super) const fn others_pass(self, row: &RowRefusals) -> bool {
        row.times == 0 || row.others_pass(self) || row.since_last(self).0 >= MOST_TO_PASS
    }

    /// A call of this row was refused. Returns whether that is about the row.
    pub(super) fn refuse(&mut self, row: &mut RowRefusals) -> bool {
        let is_about_row = row.note(*self);
        self.refused += u64::from(!is_about_row);
        is_about_row
    }
}

impl RowRefusals {
    /// Whether enough other rows were accepted since the row was last refused.
    const fn others_pass(&self, now: CallCounts) -> bool {
        let (accepted, refused) = self.since_last(now);
        accepted >= MIN_ACCEPTED && accepted >= refused * MIN_ACCEPTED_PER_REFUSED
    }

    /// How many calls were accepted and refused since then.
    const fn since_last(&self, now: CallCounts) -> (u64, u64) {
        (
            now.accepted - self.at_last.accepted,
            now.refused - self.at_last.refused,
        )
    }

    /// The row was refused. Returns whether that is about the row: it was refused before, and others were accepted in between.
    fn note(&mut self, now: CallCounts) -> bool {
        let (accepted, refused) = self.since_last(now);
        let others_pass = self.others_pass(now);
        // The finding about this row holds while no other row is accepted: at the end of a file none may be left, and the rows
        // that are always refused would look like an outage.
        let still_alone = self.of_row_alone > 0 && accepted == 0;
        let is_about_row = self.times > 0 && (others_pass || still_alone);
        if self.times == 0 {
            self.at_first = now;
        }
        // A refusal together with others adds nothing to it.
        if is_about_row && (others_pass || refused == 0) {
            self.of_row_alone += 1;
        }
        self.others_accepted = self.times > 0 && accepted > 0;
        self.times = self.times.saturating_add(1);
        self.at_last = now;
        is_about_row
    }

    /// Whether chance would not have refused it so often, given the share of other calls refused since its first refusal.
    pub(crate) fn are_not_chance(&self) -> bool {
        let accepted = self.at_last.accepted - self.at_first.accepted;
        let refused = self.at_last.refused - self.at_first.refused;
        let share = (refused + 1) as f64 / (accepted + refused + 2) as f64;
        self.of_row_alone >= FEWEST_REFUSALS && share.powf(self.of_row_alone.into()) < BY_CHANCE
    }

    /// How long the row waits by itself: at least `least` if only the row waits; `None` means that all calls pause. A row
    /// that was refused again after others were accepted backs off in any case, or a few such rows would be first after
    /// every pause. `fraction` is random, from 0 up to 1: half of the wait is spread (equal jitter), so that rows refused
    /// together do not come back together, and none comes back immediately.
    pub(crate) fn wait(&self, least: Option<Duration>, fraction: f64) -> Duration {
        if least.is_none() && !self.others_accepted {
            return Duration::ZERO;
        }
        // Half of that of a failed call, as a refusal costs the service little.
        doubled(FIRST_BACK_OFF / 2, self.times.saturating_sub(1))
            .mul_f64(f64::midpoint(1.0, fraction))
            .max(least.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn back_offs_double_up_to_the_longest_and_retries_end() {
        let (policy, mut used) = (
            RetryPolicy {
                retries: 8,
                resends: 1,
            },
            Retries::default(),
        );
        let next = || policy.next(FailureClass::Unclear, &mut used, 1.0);
        let waits: Vec<_> = std::iter::from_fn(next)
            .map(|wait| wait.as_millis())
            .collect();
        assert_eq!(
            waits,
            [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]
        );
    }

    #[test]
    fn a_request_that_may_have_been_billed_is_sent_again_once() {
        use FailureClass::{OutcomeUnknown, Unclear, Useless};
        let once = [
            (OutcomeUnknown, true),
            (OutcomeUnknown, false),
            // Other retries are left.
            (Unclear, true),
        ];
        for (resends, calls) in [
            (1, &once[..]),
            (0, &[(OutcomeUnknown, false), (Unclear, true)]),
            (1, &[(Useless, false)]),
        ] {
            let (policy, mut used) = (
                RetryPolicy {
                    retries: 4,
                    resends,
                },
                Retries::default(),
            );
            for (failed, is_sent) in calls {
                let next = policy.next(*failed, &mut used, 0.0);
                assert_eq!(next.is_some(), *is_sent, "{calls:?}");
            }
        }
    }

    const fn calls(accepted: u64, refused: u64) -> CallCounts {
        CallCounts { accepted, refused }
    }

    #[test]
    fn a_row_that_is_refused_while_others_are_accepted_fails_also_as_the_last_of_a_file() {
        for more in [20, 0] {
            let mut row = RowRefusals::default();
            assert!(!row.note(calls(100, 0)), "it may be about any row");
            assert!(row.note(calls(1_000, 0)));
            for time in 2..=5 {
                assert!(!row.are_not_chance(), "{time}");
                assert!(row.note(calls(1_000 + time * more, 0)));
            }
            assert!(row.are_not_chance());
            assert_eq!(row.times, 6);
        }
    }

    #[test]
    fn more_refusals_are_needed_if_one_call_in_four_is_refused() {
        let mut row = RowRefusals::default();
        let refusals = (0..100).find(|time| {
            row.note(calls(time * 300, time * 100));
            row.are_not_chance()
        });
        assert_eq!(refusals, Some(15));
    }

    #[test]
    fn a_row_that_is_refused_with_all_others_is_refused_for_the_pace() {
        let mut row = RowRefusals::default();
        row.note(calls(0, 0));
        for time in 1..100 {
            // Hardly any call passes, and then none.
            for _ in 0..2 {
                assert!(!row.note(calls(time * 2, time)));
            }
        }
        assert!(!row.are_not_chance());
    }

    #[test]
    fn what_is_known_of_the_last_rows_holds_though_no_other_is_accepted() {
        let mut all = CallCounts::default();
        let mut rows = [RowRefusals::default(); 5];
        let mut last = RowRefusals::default();
        for _ in 0..2 {
            for row in &mut rows {
                all.refuse(row);
                (0..4).for_each(|_| all.accept());
            }
        }
        assert!(rows.iter().all(|row| row.of_row_alone == 1));
        assert!(!all.refuse(&mut last));
        all.accept();
        for _ in 0..3 {
            assert!(!all.refuse(&mut last), "it may be any row");
            let are_about_rows = rows.each_mut().map(|row| all.refuse(row));
            assert_eq!(are_about_rows, [true; 5]);
        }
    }

    #[test]
    fn a_row_does_not_fail_because_all_are_refused() {
        let mut all = CallCounts::default();
        let (mut row, mut other) = (RowRefusals::default(), RowRefusals::default());
        for _ in 0..2 {
            all.refuse(&mut row);
            (0..1_000).for_each(|_| all.accept());
        }
        for _ in 0..20 {
            all.refuse(&mut other);
            assert!(all.refuse(&mut row));
        }
        assert_eq!(row.of_row_alone, 2, "once after the thousand");
        assert!(!row.are_not_chance());
    }

    #[test]
    fn a_row_that_is_refused_again_backs_off_even_if_all_pause() {
        let mut row = RowRefusals::default();
        // The second time no other row was accepted.
        for (counts, wait) in [(calls(9, 0), 0), (calls(9, 1), 0), (calls(10, 2), 1_000)] {
            row.note(counts);
            assert_eq!(row.wait(None, 1.0).as_millis(), wait);
        }
        let named = Duration::from_secs(1);
        assert_eq!(row.wait(Some(named), 1.0), named);
        let mut row = RowRefusals::default();
        for wait in [250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000] {
            row.note(calls(0, 0));
            assert_eq!(row.wait(Some(Duration::ZERO), 1.0).as_millis(), wait);
        }
    }
}
