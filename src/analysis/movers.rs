//! The rows whose score changed most, by number: a person can look them up, and the list names nobody.

use crate::row::RowNumber;
use crate::verdict::Decision;

/// As many as a person will look at.
const MOST: usize = 10;

/// The rows whose score changed most.
#[derive(Debug, Clone, Default)]
pub(crate) struct Movers(Vec<Mover>);

/// A row whose score changed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Mover {
    /// The row.
    pub(crate) row: RowNumber,
    /// The score before.
    pub(crate) score_before: f64,
    /// The score now.
    pub(crate) score_now: f64,
    /// The decision before.
    pub(crate) decision_before: Decision,
    /// The decision now.
    pub(crate) decision_now: Decision,
}

impl Mover {
    /// By how much the score changed.
    #[must_use]
    pub(crate) fn change(&self) -> f64 {
        self.score_now - self.score_before
    }
}

impl Movers {
    /// Notes a row, if it is among those with the largest changes. Among equal changes, the earlier rows stay.
    pub(crate) fn note(&mut self, mover: Mover) {
        let size = mover.change().abs();
        let is_full = self.0.len() == MOST;
        let is_small = self
            .0
            .last()
            .is_some_and(|last| last.change().abs() >= size);
        if size == 0.0 || (is_full && is_small) {
            return;
        }
        let at = self.0.partition_point(|other| other.change().abs() >= size);
        self.0.insert(at, mover);
        self.0.truncate(MOST);
    }

    /// The rows, the largest change first.
    #[must_use]
    pub(crate) fn rows(&self) -> &[Mover] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_changes_stay_whatever_their_direction() {
        let mut movers = Movers::default();
        let mut row = RowNumber::FIRST;
        for change in 0..100_u32 {
            let sign = if change % 2 == 0 { 1.0 } else { -1.0 };
            movers.note(Mover {
                row,
                score_before: 100.0,
                score_now: 100.0 + sign * f64::from(change / 2),
                decision_before: Decision::Approve,
                decision_now: Decision::Review,
            });
            row = row.next();
        }
        let rows: Vec<_> = movers.rows().iter().map(|mover| mover.row.get()).collect();
        assert_eq!(rows, [99, 100, 97, 98, 95, 96, 93, 94, 91, 92]);
    }

    #[test]
    fn a_score_that_stayed_is_no_mover() {
        let mut movers = Movers::default();
        movers.note(Mover {
            row: RowNumber::FIRST,
            score_before: 1.0,
            score_now: 1.0,
            decision_before: Decision::Approve,
            decision_now: Decision::Block,
        });
        assert_eq!(movers.rows(), []);
    }
}
