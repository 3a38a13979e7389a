//! Claims: which requests each start of a run is about to call for, so that no two runs pay for
//! one.
//!
//! A start has its claims in one batch, which is its own for as long as it renews its lease. What
//! a killed start has claimed is abandoned: it is the exact list of requests that may have been
//! billed without an answer, and stays when its run is started again, ends, or is removed. A
//! request leaves that list when a call for it has ended, whichever run made it: so each is
//! counted once, by the call that may pay for it again.

use std::collections::HashSet;

use foldhash::fast::RandomState;
use rusqlite::{ToSql, params};

use super::answers::LookupResult;
use super::database::{Database, TableRow, hex};
use super::fault::DbFault;
use super::key::{PathHash, RequestKey};

/// How much longer a lease lasts than the longest call, in milliseconds. Calls wait if it was not
/// renewed for this time, on a disk that hangs.
pub(super) const LEASE_SLACK_MS: i64 = 10_000;

/// Fingerprints of requests.
pub(super) type Requests = HashSet<i64, RandomState>;

/// How a call has ended that brought nothing to store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unanswered {
    /// It was not made after all: it does not count, and another run may ask.
    NotMade,
    /// It was not billed: another run may ask.
    NotBilled,
    /// It may have been billed: the run that calls for the request next counts that.
    MaybeBilled,
    /// Another call follows, which counts as well, and for which the claim holds.
    Again,
}

/// What a claim led to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ClaimResult {
    /// The run may call for the request, and no other run does.
    Granted {
        /// A killed start had claimed it, and may have called for it.
        taken_over: bool,
    },
    /// By now a result of the request is stored.
    Stored(LookupResult),
    /// Another run calls for it now.
    Taken,
    /// No result is stored, and enough other requests were granted.
    Free,
}

/// Who has a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holder {
    /// A killed start had it.
    Abandoned,
    /// Another start, whose lease lasts.
    OtherStart,
    /// This start, also after its lease has ended.
    ThisStart,
}

/// All claims of a ledger, as of a transaction, and how they change in it.
pub(super) struct Claims {
    /// Exactly one of them is of this start.
    batches: Vec<ClaimBatch>,
    /// Requests that are abandoned from now on.
    abandoned: Requests,
    /// The calls for what is claimed now, and those that follow another call.
    pub(super) added_calls: u64,
    /// The calls that are not made after all.
    pub(super) unmade_calls: u64,
}

/// Requests of one holder, in a row of the table.
struct ClaimBatch {
    /// The row; `None` if it has none yet.
    id: Option<i64>,
    holder: Holder,
    requests: Vec<i64>,
    is_changed: bool,
}

/// Whether the lease of a run lasts, as SQL. One that lasts for longer than it can was renewed by
/// a clock that was ahead.
pub(super) fn lease_lasts(now: &str) -> String {
    format!("runs.until - {now} BETWEEN 0 AND runs.lease + {LEASE_SLACK_MS}")
}

impl Claims {
    /// Reads all of them. `is_of_this_start` tells the batch of this start, as SQL with these
    /// values.
    ///
    /// # Errors
    /// They cannot be read.
    pub(super) fn read(
        database: &mut dyn Database,
        is_of_this_start: &str,
        values: &[&dyn ToSql],
    ) -> Result<Self, DbFault> {
        let lasts = lease_lasts(database.dialect().now);
        let query = format!(
            "SELECT claims.id, CASE WHEN {is_of_this_start} THEN 2 WHEN {lasts} THEN 1 ELSE 0 END, fps
            FROM claims LEFT JOIN runs ON runs.id = run AND runs.start = claims.start"
        );
        let rows = database.query(&query, values)?;
        let batches = rows.iter().map(ClaimBatch::read);
        let mut batches = batches.collect::<Result<Vec<_>, _>>()?;
        if !batches.iter().any(|it| it.holder == Holder::ThisStart) {
            batches.push(ClaimBatch::new(Holder::ThisStart, Vec::new()));
        }
        Ok(Self {
            batches,
            abandoned: Requests::default(),
            added_calls: 0,
            unmade_calls: 0,
        })
    }

    /// How many requests are abandoned, including those that earlier starts of the run of this
    /// name have claimed.
    ///
    /// # Errors
    /// They cannot be read.
    pub(super) fn count_abandoned(
        database: &mut dyn Database,
        name: &PathHash,
    ) -> Result<u64, DbFault> {
        let claims = Self::read(database, "name = $1", params![hex(name)])?;
        let batches = claims.batches.iter();
        let abandoned = batches.filter(|it| it.holder != Holder::OtherStart);
        let requests = abandoned.flat_map(|batch| &batch.requests).copied();
        Ok(requests.collect::<Requests>().len() as u64)
    }

    /// Those of these requests that a holder has.
    fn of(&self, holder: Holder, requests: &Requests) -> Requests {
        let batches = self.batches.iter().filter(|batch| batch.holder == holder);
        let all = batches.flat_map(|batch| &batch.requests);
        all.filter(|it| requests.contains(it)).copied().collect()
    }

    /// Takes requests out of the batches of a holder, and returns how many were there.
    fn remove(&mut self, holder: Holder, requests: &Requests) -> usize {
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

    /// Ends the claims of calls that were answered, or that brought nothing to store.
    pub(super) fn end_calls(&mut self, answered: &Requests, ended: &[(RequestKey, Unanswered)]) {
        let requests = |end| -> Requests {
            let ended = ended.iter().filter(|it| it.1 == end);
            ended.map(|(key, _)| key.fingerprint()).collect()
        };
        let again = ended.iter().filter(|it| it.1 == Unanswered::Again);
        self.added_calls += again.count() as u64;
        let unmade = self.remove(Holder::ThisStart, &requests(Unanswered::NotMade));
        self.unmade_calls += unmade as u64;
        // The first call for an abandoned request counts it, as long as this start holds the claim.
        let repeated = self.of(Holder::ThisStart, &requests(Unanswered::Again));
        self.remove(Holder::Abandoned, &repeated);
        let not_billed = self.of(Holder::ThisStart, &requests(Unanswered::NotBilled));
        let maybe_billed = requests(Unanswered::MaybeBilled);
        for ended in [&not_billed, answered, &maybe_billed] {
            self.remove(Holder::ThisStart, ended);
            self.remove(Holder::Abandoned, ended);
        }
        self.abandoned.extend(maybe_billed);
    }

    /// Claims for this start the first requests that have no result and that no other start holds,
    /// `most` of them at most.
    pub(super) fn grant(
        &mut self,
        keys: &[RequestKey],
        most: usize,
        found: Vec<LookupResult>,
    ) -> Vec<ClaimResult> {
        let open = keys.iter().zip(&found);
        let open = open.filter(|(_, found)| found.result.is_none());
        let open = open.map(|(key, _)| key.fingerprint());
        let taken = self.of(Holder::OtherStart, &open.clone().collect());
        let free = open.filter(|request| !taken.contains(request));
        let granted: Requests = free.take(most).collect();
        let new = &granted - &self.of(Holder::ThisStart, &granted);
        let taken_over = self.of(Holder::Abandoned, &new);
        // A start whose lease has ended may come back, and must not find them. They stay abandoned
        // beside the new claim until a call for them has ended: this start may be killed before it
        // makes one.
        self.remove(Holder::Abandoned, &taken_over);
        self.abandoned.extend(&taken_over);
        self.added_calls += new.len() as u64;
        let mut batches = self.batches.iter_mut();
        let batch = batches.find(|it| it.holder == Holder::ThisStart);
        if let Some(batch) = batch.filter(|_| !new.is_empty()) {
            batch.requests.extend(new);
            batch.is_changed = true;
        }
        let result = |(key, found): (&RequestKey, LookupResult)| match key.fingerprint() {
            _ if found.result.is_some() => ClaimResult::Stored(found),
            request if taken.contains(&request) => ClaimResult::Taken,
            request if !granted.contains(&request) => ClaimResult::Free,
            request => ClaimResult::Granted {
                taken_over: taken_over.contains(&request),
            },
        };
        keys.iter().zip(found).map(result).collect()
    }

    /// Stores the changes, for this start of a run.
    ///
    /// # Errors
    /// They cannot be written.
    pub(super) fn store(
        mut self,
        database: &mut dyn Database,
        run: i64,
        start: i64,
    ) -> Result<(), DbFault> {
        if !self.abandoned.is_empty() {
            let requests = self.abandoned.into_iter().collect();
            self.batches
                .push(ClaimBatch::new(Holder::Abandoned, requests));
        }
        let mut changed = self.batches.iter().filter(|batch| batch.is_changed);
        changed.try_for_each(|batch| batch.store(database, run, start))
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
                2 => Holder::ThisStart,
                1 => Holder::OtherStart,
                _ => Holder::Abandoned,
            },
            requests: requests.iter().map(|it| i64::from_be_bytes(*it)).collect(),
            is_changed: false,
        })
    }

    fn store(&self, database: &mut dyn Database, run: i64, start: i64) -> Result<(), DbFault> {
        let requests = self.requests.iter().flat_map(|it| it.to_be_bytes());
        let requests = requests.collect::<Vec<u8>>();
        let is_of_this_start = self.holder == Holder::ThisStart;
        let now = database.dialect().now;
        let stored = match self.id {
            // The batch of this start is filled again soon.
            Some(id) if requests.is_empty() && !is_of_this_start => {
                database.query("DELETE FROM claims WHERE id = $1", params![id])
            }
            Some(id) => {
                let update = format!("UPDATE claims SET fps = $1, at = {now} WHERE id = $2");
                database.query(&update, params![requests, id])
            }
            None => {
                let (run, start) = if is_of_this_start {
                    (run, start)
                } else {
                    (0, 0)
                };
                let insert =
                    format!("INSERT INTO claims (run, start, at, fps) VALUES ($1, $2, {now}, $3)");
                database.query(&insert, params![run, start, requests])
            }
        };
        stored.map(drop)
    }
}

/// Removes requests from the abandoned ones, whoever left them.
///
/// # Errors
/// They cannot be written.
pub(super) fn forget(database: &mut dyn Database, requests: &Requests) -> Result<(), DbFault> {
    let mut claims = Claims::read(database, "FALSE", &[])?;
    claims.remove(Holder::Abandoned, requests);
    claims.store(database, 0, 0)
}
