//! How JSON is written for programs.

use serde::Serialize;

use crate::raw_json::escape_unsafe;

/// The version of what programs read about a run. Higher ones may change keys; within one, keys are only added.
///
/// - 1: progress had flat numbers under other names than the summary.
/// - 2: progress lines and the summary contain the same objects.
pub(super) const VERSION: u8 = 2;

/// Thousandths are as exact as anyone needs: of seconds, percent, or calls a second.
pub(super) fn rounded(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}

/// The record on one line.
pub(super) fn one_line(record: &impl Serialize) -> String {
    // It fails only on map keys that are not strings, and no record has any.
    serde_json::to_string(record).unwrap_or_default()
}

/// The record on several lines, safe to show on a terminal.
pub(super) fn indented(record: &impl Serialize) -> String {
    let text = serde_json::to_string_pretty(record).unwrap_or_default();
    let lines = text.lines().map(|line| escape_unsafe(line) + "\n");
    lines.collect()
}
