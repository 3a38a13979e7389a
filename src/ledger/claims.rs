//! Claims: which requests each start of a run is about to call for, in batches, so that no two runs pay for one.
//!
//! A batch belongs to its start for as long as that start renews its lease. What a start leaves that was killed is the exact list of
//! what may have been billed without an answer, and stays when its run is started again, ends, or is removed. A request leaves
//! that list when a call for it has ended, whoever made it: so each is counted once, by the call that may pay for it again.

use std::collections::{BTreeMap, BTreeSet};

use super::database::{Database, Dialect, TableRow, hex};
use super::fault::DbFault;
use super::key::PathHash;

/// How much longer a lease lasts than the longest call. Calls wait if it was not renewed for this time, on a disk that hangs.
pub(super) const SPARE: i64 = 10_000;

/// Fingerprints of requests.
pub(super) type Requests = BTreeSet<i64>;

/// Who has a batch. Of several who have a request, the last of these has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
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
    batches: Vec<ClaimBatch>,
    /// What this start claims now.
    new: Requests,
    /// What belongs to nobody from now on.
    left: Requests,
}

struct ClaimBatch {
    id: i64,
    holder: Holder,
    requests: Vec<i64>,
    is_changed: bool,
}

/// Whether the lease of a run lasts, as SQL. One that lasts for longer than it can was renewed by a clock that was ahead.
pub(super) fn lease_lasts(now: &str) -> String {
    format!("runs.until - {now} BETWEEN 0 AND runs.lease + {SPARE}")
}

impl Claims {
    /// The query for all of them; `ours` tells the batches of this start, as SQL.
    pub(super) fn query(dialect: &Dialect, ours: &str) -> String {
        let (fps, lasts) = ((dialect.hex)("fps"), lease_lasts(dialect.now));
        format!(
            "SELECT claims.id, CASE WHEN {ours} THEN 2 WHEN {lasts} THEN 1 ELSE 0 END, {fps}
            FROM claims LEFT JOIN runs ON runs.id = run AND runs.start = claims.start"
        )
    }

    /// What that query returned.
    pub(super) fn read(rows: &[TableRow]) -> Result<Self, DbFault> {
        let batch = |row: &TableRow| {
            let holder = match row.get(1)? {
                2 => Holder::Us,
                1 => Holder::Other,
                _ => Holder::Nobody,
            };
            let (text, mut requests) = (row.get::<String>(2)?, Vec::new());
            for digits in text.as_bytes().chunks(16) {
                let digits = str::from_utf8(digits).unwrap_or_default();
                let request = u64::from_str_radix(digits, 16).map_err(|_| DbFault::damaged())?;
                requests.push(request.cast_signed());
            }
            let id = row.get(0)?;
            Ok(ClaimBatch {
                id,
                holder,
                requests,
                is_changed: false,
            })
        };
        let batches = rows.iter().map(batch).collect::<Result<_, DbFault>>()?;
        let (new, left) = Default::default();
        Ok(Self { batches, new, left })
    }

    /// How many requests starts that are gone have left, with the earlier ones of the run of this name.
    ///
    /// # Errors
    /// They cannot be read.
    pub(super) fn left(
        database: &mut dyn Database,
        name: Option<&PathHash>,
    ) -> Result<u64, DbFault> {
        let ours = format!("name = '{}'", name.map(hex).unwrap_or_default());
        let claims = Self::read(&database.query(&Self::query(database.dialect(), &ours))?)?;
        let batches = { claims.batches.iter() }.filter(|batch| batch.holder != Holder::Other);
        let requests: Requests = batches.flat_map(|batch| &batch.requests).copied().collect();
        Ok(requests.len() as u64)
    }

    /// Takes requests out of the batches of a holder: how many were there.
    pub(super) fn remove(&mut self, holder: Holder, requests: &Requests) -> usize {
        let mut removed = 0;
        for batch in { self.batches.iter_mut() }.filter(|batch| batch.holder == holder) {
            let before = batch.requests.len();
            batch.requests.retain(|it| !requests.contains(it));
            let here = before - batch.requests.len();
            batch.is_changed |= here > 0;
            removed += here;
        }
        removed
    }

    /// Those of these requests that this start still has.
    pub(super) fn ours(&self, mut requests: Requests) -> Requests {
        let ours = { self.batches.iter() }.filter(|batch| batch.holder == Holder::Us);
        let ours: Requests = ours.flat_map(|batch| &batch.requests).copied().collect();
        requests.retain(|it| ours.contains(it));
        requests
    }

    /// The calls for these requests have ended.
    pub(super) fn end(&mut self, requests: &Requests) {
        self.remove(Holder::Us, requests);
        self.remove(Holder::Nobody, requests);
    }

    /// Leaves these requests to nobody.
    pub(super) fn leave(&mut self, requests: Requests) {
        self.left.extend(requests);
    }

    /// Claims these requests for this start, except for those of others: who had them before, where anybody had.
    ///
    /// What nobody had is kept as such beside our claim, until our call has ended: we may be killed before we make it.
    pub(super) fn claim(&mut self, requests: &Requests) -> BTreeMap<i64, Holder> {
        let mut holders = BTreeMap::new();
        for batch in &self.batches {
            for request in { batch.requests.iter() }.filter(|it| requests.contains(it)) {
                let holder = holders.entry(*request).or_insert(batch.holder);
                *holder = batch.holder.max(*holder);
            }
        }
        let had = |holder| {
            let requests = { requests.iter() }.filter(|it| holders.get(it) == holder);
            requests.copied().collect::<Requests>()
        };
        let taken_over = had(Some(&Holder::Nobody));
        self.new = &had(None) | &taken_over;
        // A start whose lease has ended may come back, and must not find them.
        self.remove(Holder::Nobody, &taken_over);
        self.leave(taken_over);
        holders
    }

    /// How many are new claims of this start.
    pub(super) fn granted(&self) -> u64 {
        self.new.len() as u64
    }

    /// The statements that store the changes, for this start of a run.
    pub(super) fn statements(&self, dialect: &Dialect, (run, start): (i64, i64)) -> String {
        let mut statements = String::new();
        for ClaimBatch { id, requests, .. } in self.batches.iter().filter(|batch| batch.is_changed)
        {
            statements += &match &requests[..] {
                [] => format!("DELETE FROM claims WHERE id = {id};"),
                left => {
                    let fps = blob(dialect, left.iter());
                    format!("UPDATE claims SET fps = {fps} WHERE id = {id};")
                }
            };
        }
        for (run, start, requests) in [(run, start, &self.new), (0, 0, &self.left)] {
            if !requests.is_empty() {
                let (now, fps) = (dialect.now, blob(dialect, requests.iter()));
                statements += &format!(
                    "INSERT INTO claims (run, start, at, fps) VALUES ({run}, {start}, {now}, {fps});"
                );
            }
        }
        statements
    }
}

/// Fingerprints as they are stored, one after the other, as SQL.
fn blob<'r>(dialect: &Dialect, requests: impl Iterator<Item = &'r i64>) -> String {
    let digits: String = requests.map(|it| format!("{it:016x}")).collect();
    format!("{}{digits}'", dialect.before_hex)
}

/// Forgets requests of which nobody calls for any.
///
/// # Errors
/// It cannot be written.
pub(super) fn forget(database: &mut dyn Database, requests: &Requests) -> Result<(), DbFault> {
    let dialect = database.dialect();
    let mut claims = Claims::read(&database.query(&Claims::query(dialect, "FALSE"))?)?;
    claims.remove(Holder::Nobody, requests);
    database
        .query(&claims.statements(dialect, (0, 0)))
        .map(drop)
}
