//! Earlier decisions against those of the run, for people and for programs.
//!
//! Numbers come counted; here they are only set out.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::words::{count, counted};
use crate::base::error::shown;
use crate::drift::Drift;
use crate::verdict::Decision;

/// What stands above the earlier decisions and before those of now.
const CORNER: &str = "before ↓ now →";

/// The matrix and what it comes to; nothing where nothing was compared.
pub(super) fn lines(drift: &Drift, changes: Option<&Path>) -> Vec<String> {
    if drift.compared() == 0 {
        return Vec::new();
    }
    let table: Vec<_> = drift
        .rows()
        .map(|(before, now)| (before.word(), now.map(count)))
        .collect();
    let widths = [0, 1, 2].map(|column| {
        let cells = table.iter().filter_map(|(_, cells)| cells.get(column));
        let words = Drift::DECISIONS.get(column).map(|now| now.word().len());
        cells.map(String::len).chain(words).max().unwrap_or(0)
    });
    let line = |head: &str, cells: [&str; 3]| {
        let cells = cells.into_iter().zip(widths);
        let cells: String = cells
            .map(|(cell, width)| format!("  {cell:>width$}"))
            .collect();
        format!("{head:<width$}{cells}", width = CORNER.chars().count())
    };
    let mut lines = vec![line(CORNER, Drift::DECISIONS.map(Decision::word))];
    lines.extend(
        table
            .iter()
            .map(|(before, cells)| line(before, cells.each_ref().map(String::as_str))),
    );
    let place = match changes {
        Some(path) if drift.changed() > 0 => format!(", see {}", shown(path)),
        _ => String::new(),
    };
    lines.push(format!(
        "{} of {} changed{place}",
        count(drift.changed()),
        counted(drift.compared(), "decision")
    ));
    lines
}

/// The object for programs; null where nothing was compared.
pub(super) fn json(drift: &Drift) -> Value {
    if drift.compared() == 0 {
        return Value::Null;
    }
    let mut object = Map::new();
    object.insert("compared".to_owned(), drift.compared().into());
    object.insert("changed".to_owned(), drift.changed().into());
    for (before, [approve, review, block]) in drift.rows() {
        let now = json!({ "approve": approve, "review": review, "block": block });
        object.insert(before.word().to_owned(), now);
    }
    object.into()
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
    fn the_matrix_is_aligned_and_says_what_it_comes_to() {
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
            "1,000,007 of 1,001,211 decisions changed, see changes.csv",
        ];
        assert_eq!(lines(&moved, Some(Path::new("changes.csv"))), expected);
        let still = drift(&[(Review, Review, 1)]);
        let said = lines(&still, Some(Path::new("changes.csv")));
        assert_eq!(
            said.last().map(String::as_str),
            Some("0 of 1 decision changed")
        );
        assert_eq!(lines(&Drift::default(), None), Vec::<String>::new());
    }

    #[test]
    fn programs_get_every_cell_or_null() {
        let moved = drift(&[(Decision::Block, Decision::Review, 2)]);
        let nothing = json!({ "approve": 0, "review": 0, "block": 0 });
        let expected = json!({
            "compared": 2,
            "changed": 2,
            "approve": nothing,
            "review": nothing,
            "block": { "approve": 0, "review": 2, "block": 0 },
        });
        assert_eq!(json(&moved), expected);
        assert_eq!(json(&Drift::default()), Value::Null);
    }
}
