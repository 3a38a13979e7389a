//! Requests in the ledger of one run that may have been billed without a verdict, kept for the next run.
//!
//! They are where a ledger that runs share has them: claimed by nobody.

use std::collections::HashSet;

use rusqlite::Connection;

use super::claim_rows::{Batch, ClaimedKey};
use super::other_claims::OtherClaims;
use crate::ledger::clock::millis;
use crate::ledger::store::Work;

/// Those of the ledger of one run.
#[derive(Default)]
pub(super) struct DoubtfulRequests(OtherClaims);

/// Whether any request may have been billed without an answer, in the ledger of one run.
pub(super) fn is_any(connection: &Connection) -> rusqlite::Result<bool> {
    const ANY: &str =
        "SELECT EXISTS (SELECT 1 FROM claims) OR EXISTS (SELECT 1 FROM runs WHERE calls > 0)";
    connection.query_row(ANY, [], |row| row.get(0))
}

impl DoubtfulRequests {
    /// All of them.
    pub(super) fn all(&mut self, connection: &Connection) -> rusqlite::Result<HashSet<ClaimedKey>> {
        self.0.update(connection)?;
        Ok(self.0.keys().collect())
    }

    /// Removes what has an answer now or was released, and adds what was released with a doubt, in the transaction that stores
    /// the records.
    pub(super) fn handle(
        &mut self,
        connection: &Connection,
        work: Work<'_>,
    ) -> rusqlite::Result<()> {
        self.0.update(connection)?;
        let answers = { work.records.iter() }
            .filter(|record| record.is_answer())
            .map(|record| &record.key);
        let released = { work.releases.iter() }
            .filter(|release| !release.doubtful)
            .map(|release| &release.key);
        let ended = { answers.chain(released) }
            .map(ClaimedKey::from)
            .filter(|key| self.0.owner(*key).is_some());
        self.0.take(connection, &ended.collect())?;
        let keys = { work.releases.iter() }
            .filter(|release| release.doubtful)
            .map(|release| ClaimedKey::from(&release.key))
            .filter(|key| self.0.owner(*key).is_none());
        let keys: HashSet<_> = keys.collect();
        let batch = Batch {
            at: millis(std::time::SystemTime::now()),
            keys: keys.into_iter().collect(),
        };
        self.0.leave_to_next(connection, batch)
    }

    /// Nothing of what was written in this transaction is there.
    pub(super) fn rolled_back(&mut self) {
        self.0.rolled_back();
    }
}
