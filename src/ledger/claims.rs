//! Claims: which requests each start of a run is about to call for, so that no two runs pay for one.
//!
//! A start has its claims in one batch, which is its own for as long as it renews its lease. What a start leaves that was killed is
//! the exact list of what may have been billed without an answer, and stays when its run is started again, ends, or is removed. A
//! request leaves that list when a call for it has ended, whoever made it: so each is counted once, by the call that may pay for it
//! again.

use std::collections::HashSet;

use foldhash::fast::RandomState;
use rusqlite::{ToSql, params};

use super::database::{Database, TableRow, hex};
use super::fault::DbFault;
use super::key::PathHash;

/// How much longer a lease lasts than the longest call. Calls wait if it was not renewed for this time, on a disk that hangs.
pub(super) const LEASE_SLACK_MS: i64 = 10_000;

/// Fingerprints of requests.
pub(super) type Requests = HashSet<i64, RandomState>;

/// Who has a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holder {
    /// Nobody any more.
    Nobody,
    /// Another start, whose lease lasts.
    Other,
    /// This start, also after its lease has ended.
    Us,
}

/// All claims of a ledger, as of a transaction, and how they change in it.
pub(super) struct Claims {
    /// Of these, exactly one is ours.
    batches: Vec<ClaimBatch>,
    /// How many requests this start claims now.
    pub(super) granted: u64,
    /// What belongs to nobody from now on.
    left: Requests,
}

/// Requests of one holder, in a row of the table.
struct ClaimBatch {
    /// The row; `None` before there is one.
    id: Option<i64>,
    holder: Holder,
    requests: Vec<i64>,
    is_changed: bool,
}

/// Whether the lease of a run lasts, as SQL. One that lasts for longer than it can was renewed by a clock that was ahead.
pub(super) fn lease_lasts(now: &str) -> String {
    format!("runs.until - {now} BETWEEN 0 AND runs.lease + {LEASE_SLACK_MS}")
}

impl Claims {
    /// Reads all of them; `ours` tells the batch of this start, as SQL with these values.
    ///
    /// # Errors
    /// They cannot be read.
    pub(super) fn read(
        database: &mut dyn Database,
        ours: &str,
        values: &[&dyn ToSql],
    ) -> Result<Self, DbFault> {
        let lasts = lease_lasts(database.dialect().now);
        let query = format!(
            "SELECT claims.id, CASE WHEN {ours} THEN 2 WHEN {lasts} THEN 1 ELSE 0 END, fps
            FROM claims LEFT JOIN runs ON runs.id = run AND runs.start = claims.start"
        );
        let rows = database.query(&query, values)?;
        let batches = rows.iter().map(ClaimBatch::read);
        let mut batches = batches.collect::<Result<Vec<_>, _>>()?;
        if !batches.iter().any(|batch| batch.holder == Holder::Us) {
            batches.push(ClaimBatch::new(Holder::Us, Vec::new()));
        }
        Ok(Self {
            batches,
            granted: 0,
            left: Requests::default(),
        })
    }

    /// How many requests starts that are gone have left, with the earlier ones of the run of this name.
    ///
    /// # Errors
    /// They cannot be read.
    pub(super) fn left(
        database: &mut dyn Database,
        name: Option<&PathHash>,
    ) -> Result<u64, DbFault> {
        let name = name.map(hex).unwrap_or_default();
        let claims = Self::read(database, "name = $1", params![name])?;
        let left = claims
            .batches
            .iter()
            .filter(|it| it.holder != Holder::Other);
        let left: Requests = left.flat_map(|batch| &batch.requests).copied().collect();
        Ok(left.len() as u64)
    }

    /// Those of these requests that a holder has.
    pub(super) fn of(&self, holder: Holder, requests: &Requests) -> Requests {
        let batches = self.batches.iter().filter(|batch| batch.holder == holder);
        let all = batches.flat_map(|batch| &batch.requests);
        all.filter(|it| requests.contains(it)).copied().collect()
    }

    /// Takes requests out of the batches of a holder: how many were there.
    pub(super) fn remove(&mut self, holder: Holder, requests: &Requests) -> usize {
        let mut removed = 0;
        for batch in self.batches.iter_mut().filter(|it| it.holder == holder) {
            let before = batch.requests.len();
            batch.requests.retain(|it| !requests.contains(it));
            let fewer = before - batch.requests.len();
            batch.is_changed |= fewer > 0;
            removed += fewer;
        }
        removed
    }

    /// The calls for these requests have ended.
    pub(super) fn end(&mut self, requests: &Requests) {
        self.remove(Holder::Us, requests);
        self.remove(Holder::Nobody, requests);
    }

    /// Leaves these requests to nobody.
    pub(super) fn leave(&mut self, requests: &Requests) {
        self.left.extend(requests);
    }

    /// Claims these requests for this start, of which no other one has any: those that had been left to nobody.
    ///
    /// What was left stays so beside our claim until our call has ended: we may be killed before we make it.
    pub(super) fn claim(&mut self, requests: &Requests) -> Requests {
        let new = requests - &self.of(Holder::Us, requests);
        let taken_over = self.of(Holder::Nobody, &new);
        // A start whose lease has ended may come back, and must not find them.
        self.remove(Holder::Nobody, &taken_over);
        self.leave(&taken_over);
        self.granted += new.len() as u64;
        let ours = self.batches.iter_mut().find(|it| it.holder == Holder::Us);
        if let Some(ours) = ours.filter(|_| !new.is_empty()) {
            ours.requests.extend(new);
            ours.is_changed = true;
        }
        taken_over
    }

    /// Stores the changes, for this start of a run.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn store(
        mut self,
        database: &mut dyn Database,
        us: (i64, i64),
    ) -> Result<(), DbFault> {
        if !self.left.is_empty() {
            let left = self.left.into_iter().collect();
            self.batches.push(ClaimBatch::new(Holder::Nobody, left));
        }
        let mut changed = self.batches.iter().filter(|batch| batch.is_changed);
        changed.try_for_each(|batch| batch.store(database, us))
    }
}

impl ClaimBatch {
    /// One that is not stored yet.
    fn new(holder: Holder, requests: Vec<i64>) -> Self {
        Self {
            id: None,
            holder,
            is_changed: !requests.is_empty(),
            requests,
        }
    }

    fn read(row: &TableRow) -> Result<Self, DbFault> {
        let requests: Vec<u8> = row.get(2)?;
        let (requests, _) = requests.as_chunks();
        Ok(Self {
            id: Some(row.get(0)?),
            holder: match row.get(1)? {
                2 => Holder::Us,
                1 => Holder::Other,
                _ => Holder::Nobody,
            },
            requests: requests.iter().map(|it| i64::from_be_bytes(*it)).collect(),
            is_changed: false,
        })
    }

    fn store(&self, database: &mut dyn Database, (run, start): (i64, i64)) -> Result<(), DbFault> {
        let requests = self.requests.iter().flat_map(|it| it.to_be_bytes());
        let requests = requests.collect::<Vec<u8>>();
        let now = database.dialect().now;
        match self.id {
            // Ours is filled again soon.
            Some(id) if self.requests.is_empty() && self.holder != Holder::Us => {
                database.query("DELETE FROM claims WHERE id = $1", params![id])
            }
            Some(id) => {
                let update = format!("UPDATE claims SET fps = $1, at = {now} WHERE id = $2");
                database.query(&update, params![requests, id])
            }
            None => {
                let is_ours = self.holder == Holder::Us;
                let (run, start) = if is_ours { (run, start) } else { (0, 0) };
                let insert =
                    format!("INSERT INTO claims (run, start, at, fps) VALUES ($1, $2, {now}, $3)");
                database.query(&insert, params![run, start, requests])
            }
        }
        .map(drop)
    }
}

/// Forgets requests of which nobody calls for any.
///
/// # Errors
/// It cannot be written.
pub(super) fn forget(database: &mut dyn Database, requests: &Requests) -> Result<(), DbFault> {
    let mut claims = Claims::read(database, "FALSE", &[])?;
    claims.remove(Holder::Nobody, requests);
    claims.store(database, (0, 0))
}
