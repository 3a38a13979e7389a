//! The most frequent reasons of failed rows, for a message.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::failure::Reason;

/// Reasons that a message names: the most frequent ones nearly always tell what is wrong with a file.
const NAMED: usize = 3;

/// `missing_name 3, invalid_ip 2`.
#[must_use]
pub(crate) fn most_frequent(failed: &BTreeMap<Reason, u64>) -> String {
    let mut reasons: Vec<_> = failed.iter().collect();
    reasons.sort_by_key(|(_, rows)| Reverse(**rows));
    let named: Vec<_> = { reasons.iter().take(NAMED) }
        .map(|(reason, rows)| format!("{reason} {rows}"))
        .collect();
    named.join(", ")
}
