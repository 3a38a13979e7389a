//! The columns that are put in front of rows in the rejects and the changes.

use crate::row::Row;

/// The columns in front of a reject.
pub(super) const REJECT: [&str; 3] = ["reject_row", "reject_reason", "reject_message"];
/// The columns in front of a row whose decision changed.
pub(super) const CHANGE: [&str; 5] = [
    "change_row",
    "old_decision",
    "old_score",
    "new_decision",
    "new_score",
];

/// Whether the row already has a cell or member for this column.
#[inline]
pub(super) fn has(row: &Row, column: usize) -> bool {
    row.existing.iter().any(|(_, there)| *there == column)
}
