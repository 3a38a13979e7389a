//! Earlier decisions compared with those of this run, as a table for people.

use std::path::Path;

use crate::base::error::shown;
use crate::drift::Drift;
use crate::observe::numbers::{count, counted};
use crate::verdict::Decision;

/// The table's corner: above the earlier decisions, left of the new ones.
const CORNER: &str = "before ↓ now →";

/// The table, and a line with the sum; nothing if nothing was compared.
pub(in crate::observe) fn drift_table(drift: &Drift, changes: Option<&Path>) -> Vec<String> {
    if drift.compared() == 0 {
        return Vec::new();
    }
    let table: Vec<_> = drift
        .rows()
        .map(|(before, now)| (before.word(), now.map(count)))
        .collect();
    let widths = [0, 1, 2].map(|column| {
        let cells = table.iter().filter_map(|(_, cells)| cells.get(column));
        let words = Decision::ALL.get(column).map(|now| now.word().len());
        cells.map(String::len).chain(words).max().unwrap_or(0)
    });
    let line = |head: &str, cells: [&str; 3]| {
        let cells = cells.into_iter().zip(widths);
        let cells: String = cells
            .map(|(cell, width)| format!("  {cell:>width$}"))
            .collect();
        format!("{head:<width$}{cells}", width = CORNER.chars().count())
    };
    let mut lines = vec![line(CORNER, Decision::ALL.map(Decision::word))];
    lines.extend(
        table
            .iter()
            .map(|(before, cells)| line(before, cells.each_ref().map(String::as_str))),
    );
    let place = match changes {
        Some(path) if drift.changed() > 0 => format!("; see {}", shown(path)),
        _ => String::new(),
    };
    lines.push(format!(
        "{} of {} changed{place}",
        count(drift.changed()),
        counted(drift.compared(), "decision")
    ));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drift(rows: &[(Decision, Decision, u64)]) -> Drift {
        let mut drift = Drift::default();
        for (before, now, times) in rows {
            for _ in 0..*times {
                drift.count(*before, *now);
            }
        }
        drift
    }

    #[test]
    fn the_table_is_aligned_and_has_a_sum() {
        use Decision::{Approve, Block, Review};
        let moved = drift(&[
            (Approve, Approve, 1_204),
            (Approve, Block, 3),
            (Review, Approve, 4),
            (Block, Review, 1_000_000),
        ]);
        let expected = [
            "before ↓ now →  approve     review  block",
            "approve           1,204          0      3",
            "review                4          0      0",
            "block                 0  1,000,000      0",
            "1,000,007 of 1,001,211 decisions changed; see changes.csv",
        ];
        assert_eq!(
            drift_table(&moved, Some(Path::new("changes.csv"))),
            expected
        );
        let still = drift(&[(Review, Review, 1)]);
        let table = drift_table(&still, Some(Path::new("changes.csv")));
        assert_eq!(
            table.last().map(String::as_str),
            Some("0 of 1 decision changed")
        );
        assert_eq!(drift_table(&Drift::default(), None), Vec::<String>::new());
    }
}
