//! Rows without a decision, for people: where their level should be, how many they are, and which are the first.

use super::numbers::count;
use crate::analysis::UnknownLevels;

/// `the level at `/a` is in no list in rows 3, 4, 5, 6, 7 and 2 more`; `None` if every row has a decision.
pub(super) fn undecided(levels: &UnknownLevels, place: Option<&str>) -> Option<String> {
    let first: Vec<_> = levels.first().map(count).collect();
    let more = levels.rows() - first.len() as u64;
    let place = place.map(|place| format!(" at `{place}`"));
    let rows = match (first.as_slice(), more) {
        ([], _) => return None,
        ([row], 0) => format!("row {row}"),
        (rows, 0) => format!("rows {}", rows.join(", ")),
        (rows, more) => format!("rows {} and {} more", rows.join(", "), count(more)),
    };
    let place = place.unwrap_or_default();
    Some(format!("the level{place} is in no list in {rows}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::RowNumber;

    #[test]
    fn the_place_and_the_first_rows_are_named() {
        let (mut levels, mut more) = (UnknownLevels::default(), UnknownLevels::default());
        let mut row = RowNumber::FIRST;
        assert_eq!(undecided(&levels, None), None);
        levels.count(row);
        assert_eq!(
            undecided(&levels, None).as_deref(),
            Some("the level is in no list in row 1")
        );
        for _ in 0..8 {
            row = row.next();
            more.count(row);
        }
        levels.add(&more);
        assert_eq!(
            undecided(&levels, Some("/a")).as_deref(),
            Some("the level at `/a` is in no list in rows 1, 2, 3, 4, 5 and 4 more")
        );
    }
}
