//! Whose refusal it is: a row that is refused again and again while others are accepted says nothing of the pace.
//!
//! Here a row's refusals are counted beside everybody's. Such a row backs off by itself, and it ends when chance would not
//! have refused it so often.

use std::time::Duration;

use super::calls::Try;
use super::retry::doubled;

/// How often a row was refused, and what became of others meanwhile.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RowRefusals {
    times: u32,
    /// Those before which the row had been refused while others were accepted in between.
    alone: u32,
    /// Whether anybody was accepted between the last two.
    others_accepted: bool,
    /// Everybody's calls when it was refused first, and when it was refused last.
    at_first: Calls,
    at_last: Calls,
}

/// Everybody's calls up to now.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Calls {
    pub(super) accepted: u64,
    /// Of rows that had not been refused before.
    pub(super) refused: u64,
}

/// So many calls must be accepted between two refusals of a row, or the service may just have had a moment's room …
const ACCEPTED: u64 = 3;
/// … and so many times as many as were refused, or it refuses anybody.
const OFTEN: u64 = 2;
/// A row is refused so often at least before it ends.
const FEWEST: u32 = 5;
/// Chance may end one row in so many: fewer than that are in any file.
const BY_CHANCE: f64 = 1e-9;
/// The upper bound of the first back-off; each is twice as long as the one before, as those of failed calls are.
const FIRST_BACK_OFF: Duration = Duration::from_millis(250);

impl RowRefusals {
    /// How often the row was refused.
    #[must_use]
    pub(crate) const fn times(&self) -> u32 {
        self.times
    }

    /// Which try of the row a call is that ends.
    pub(super) const fn tried(&self) -> Try {
        match self.times {
            0 => Try::First,
            _ => Try::Again,
        }
    }

    /// The row was refused. Which try that was.
    pub(super) fn note(&mut self, now: Calls) -> Try {
        let accepted = now.accepted - self.at_last.accepted;
        let refused = now.refused - self.at_last.refused;
        let others_went_through = accepted >= ACCEPTED && accepted >= refused * OFTEN;
        // When nobody else is left, what was known of the row still holds.
        let nobody_else = self.alone > 0 && accepted + refused == 0;
        let tried = match self.tried() {
            Try::Again if others_went_through || nobody_else => Try::AgainAlone,
            tried => tried,
        };
        match tried {
            Try::First => self.at_first = now,
            Try::Again => {}
            Try::AgainAlone => self.alone += 1,
        }
        self.others_accepted = self.times > 0 && accepted > 0;
        self.times = self.times.saturating_add(1);
        self.at_last = now;
        tried
    }

    /// Whether chance would not have refused it so often, with the share of refusals that others have had since its first.
    #[must_use]
    pub(crate) fn are_no_chance(&self) -> bool {
        let accepted = self.at_last.accepted - self.at_first.accepted;
        let refused = self.at_last.refused - self.at_first.refused;
        #[allow(clippy::cast_precision_loss, reason = "a share is no exact number")]
        let share = (refused + 1) as f64 / (accepted + refused + 2) as f64;
        self.alone >= FEWEST && share.powf(self.alone.into()) < BY_CHANCE
    }

    /// How long the row waits by itself: `least` where only the row waits, `None` where all pause. A row that was refused
    /// again after others were accepted backs off in any case, or a few such rows would be first after every pause. `fraction` is random, from 0
    /// up to 1: half of the wait spreads rows that were refused together, and none comes back at once.
    #[must_use]
    pub(crate) fn wait(&self, least: Option<Duration>, fraction: f64) -> Duration {
        if least.is_none() && !self.others_accepted {
            return Duration::ZERO;
        }
        doubled(FIRST_BACK_OFF, self.times.saturating_sub(1))
            .mul_f64(f64::midpoint(1.0, fraction))
            .max(least.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn calls(accepted: u64, refused: u64) -> Calls {
        Calls { accepted, refused }
    }

    #[test]
    fn a_row_that_is_refused_while_others_are_accepted_ends() {
        let mut row = RowRefusals::default();
        assert_eq!(row.tried(), Try::First);
        assert_eq!(row.note(calls(100, 0)), Try::First, "it may be anybody's");
        for time in 1..=5 {
            assert!(!row.are_no_chance(), "{time}");
            assert_eq!(row.note(calls(100 + time * 20, 0)), Try::AgainAlone);
        }
        assert!(row.are_no_chance());
        assert_eq!(row.times(), 6);
    }

    #[test]
    fn where_one_in_four_is_refused_it_takes_more() {
        let mut row = RowRefusals::default();
        let refusals = (0..100).find(|time| {
            row.note(calls(time * 300, time * 100));
            row.are_no_chance()
        });
        assert_eq!(refusals, Some(15));
    }

    #[test]
    fn who_is_refused_with_all_others_is_refused_for_the_pace() {
        let mut row = RowRefusals::default();
        row.note(calls(0, 0));
        for time in 1..100 {
            let hardly_anybody_goes_through = calls(time * 2, time);
            assert_eq!(row.note(hardly_anybody_goes_through), Try::Again);
            let nobody_does = hardly_anybody_goes_through;
            assert_eq!(row.note(nobody_does), Try::Again);
        }
        assert!(!row.are_no_chance());
    }

    #[test]
    fn the_last_row_of_a_file_ends_as_well() {
        let mut row = RowRefusals::default();
        row.note(calls(0, 0));
        for _ in 1..=5 {
            assert_eq!(row.note(calls(1_000, 0)), Try::AgainAlone);
        }
        assert!(row.are_no_chance());
    }

    #[test]
    fn who_is_refused_again_backs_off_also_when_all_pause() {
        let mut row = RowRefusals::default();
        row.note(calls(9, 0));
        assert_eq!(row.wait(None, 1.0), Duration::ZERO);
        row.note(calls(9, 1));
        assert_eq!(
            row.wait(None, 1.0),
            Duration::ZERO,
            "nobody else was accepted"
        );
        row.note(calls(10, 2));
        assert_eq!(row.wait(None, 1.0).as_millis(), 1_000);
        let named = Duration::from_secs(1);
        assert_eq!(row.wait(Some(named), 1.0), named);
    }

    #[test]
    fn back_off_doubles_up_to_its_ceiling() {
        let mut row = RowRefusals::default();
        let waits: Vec<_> = (0..8)
            .map(|_| {
                row.note(calls(0, 0));
                row.wait(Some(Duration::ZERO), 1.0).as_millis()
            })
            .collect();
        assert_eq!(
            waits,
            [250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000]
        );
    }
}
