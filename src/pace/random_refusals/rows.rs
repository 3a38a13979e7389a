//! Refusals that turned out to be about their rows. Where there are many such rows, they are a share that the service refuses
//! at any pace.

use super::in_order::FirstTryOutcome;
use super::unexplained::RAREST;

/// Counts rows that were refused while others were accepted, beside the first calls of all rows.
#[derive(Debug, Default)]
pub(super) struct RefusedRows {
    calls: f64,
    refused: f64,
    /// Of these it is known that the refusal was about the row.
    alone: f64,
}

/// So many such rows tell their share: its error is about half of it, and it follows what is seen.
const ROWS: f64 = 4.0;

impl RefusedRows {
    /// A call ended.
    pub(super) fn note(&mut self, outcome: FirstTryOutcome) {
        match outcome {
            FirstTryOutcome::Accepted(_) => self.calls += 1.0,
            FirstTryOutcome::Refused(_) => {
                self.calls += 1.0;
                self.refused += 1.0;
            }
            FirstTryOutcome::AcceptedLater(_) | FirstTryOutcome::NotCounted => {}
        }
        if self.calls > ROWS * f64::from(RAREST) {
            *self = Self::default();
        }
    }

    /// A refusal turned out to be about its row. Returns how many were and the calls that they are among, if there were many
    /// and few other refusals.
    pub(super) fn found_alone(&mut self) -> Option<(f64, f64)> {
        self.alone += 1.0;
        if self.alone < ROWS {
            return None;
        }
        let Self {
            calls,
            refused,
            alone,
        } = std::mem::take(self);
        (alone * 2.0 > refused).then_some((alone, calls.max(alone)))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const ACCEPTED: FirstTryOutcome = FirstTryOutcome::Accepted(Duration::ZERO);
    const REFUSED: FirstTryOutcome = FirstTryOutcome::Refused(Duration::ZERO);

    /// Before each of these rows, so many calls are accepted and so many are refused for another reason.
    fn shown(rows: u32, accepted: u32, refused: u32) -> Option<(f64, f64)> {
        let mut counted = RefusedRows::default();
        let mut row = || {
            (0..accepted).for_each(|_| counted.note(ACCEPTED));
            (0..refused).for_each(|_| counted.note(REFUSED));
            counted.note(REFUSED);
            counted.found_alone()
        };
        (0..rows).filter_map(|_| row()).last()
    }

    #[test]
    fn four_rows_show_their_share() {
        assert_eq!(shown(3, 499, 0), None);
        assert_eq!(shown(4, 499, 0), Some((4.0, 2_000.0)));
    }

    #[test]
    fn a_few_rows_among_many_other_refusals_show_none() {
        assert_eq!(shown(8, 100, 1), None);
    }

    #[test]
    fn rare_rows_show_none() {
        assert_eq!(shown(8, 3_000, 0), None);
    }
}
