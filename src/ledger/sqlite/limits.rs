//! The limits that a run has found, which are stored with a group of answers.

use rusqlite::Connection;

use crate::ledger::known_limit::LimitRecorder;

/// Stores what a run has found, if that is worth it; at the end of the run, more is.
pub(super) fn record(
    connection: &Connection,
    account: i64,
    recorder: &mut LimitRecorder,
    at_end: bool,
) -> rusqlite::Result<()> {
    connection.execute_batch(&recorder.statement(account, at_end))
}
