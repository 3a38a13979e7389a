//! Claims: which requests each start of a run is about to call for, in batches, so that no two runs pay for one.
//!
//! A batch belongs to its start for as long as that start renews its lease. What a start leaves that was killed is the exact list of
//! what may have been billed without an answer, and stays when its run is started again, ends, or is removed. A request leaves
//! that list when a call for it has ended, whoever made it: so each is counted once, by the call that may pay for it again.

use std::collections::{BTreeSet, HashSet};

use foldhash::fast::RandomState;

use super::database::{Database, Dialect, TableRow, hex};
use super::fault::DbFault;
use super::key::PathHash;

/// How much longer a lease lasts than the longest call. Calls wait if it was not renewed for this time, on a disk that hangs.
pub(super) const SPARE: i64 = 10_000;

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
    all: Vec<Claim>,
    /// The batches that have changed.
    changed: BTreeSet<i64>,
    /// What this start claims now.
    new: Requests,
    /// What belongs to nobody from now on.
    left: Requests,
}

struct Claim {
    request: i64,
    holder: Holder,
    /// The row that it is in.
    batch: i64,
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
        let mut all = Vec::new();
        for row in rows {
            let (batch, digits) = (row.get(0)?, row.get::<String>(2)?);
            let holder = match row.get(1)? {
                2 => Holder::Us,
                1 => Holder::Other,
                _ => Holder::Nobody,
            };
            for digits in digits.as_bytes().chunks(16) {
                let digits = str::from_utf8(digits).unwrap_or_default();
                let number = u64::from_str_radix(digits, 16).map_err(|_| DbFault::damaged())?;
                let request = number.cast_signed();
                all.push(Claim {
                    request,
                    holder,
                    batch,
                });
            }
        }
        let (changed, new, left) = Default::default();
        Ok(Self {
            all,
            changed,
            new,
            left,
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
        let ours = format!("name = '{}'", name.map(hex).unwrap_or_default());
        let claims = Self::read(&database.query(&Self::query(database.dialect(), &ours))?)?;
        let left = { claims.all.iter() }.filter(|claim| claim.holder != Holder::Other);
        let left: Requests = left.map(|claim| claim.request).collect();
        Ok(left.len() as u64)
    }

    /// Those of these requests that a holder has.
    pub(super) fn of(&self, holder: Holder, requests: &Requests) -> Requests {
        let is_one = |it: &&Claim| it.holder == holder && requests.contains(&it.request);
        { self.all.iter().filter(is_one) }
            .map(|it| it.request)
            .collect()
    }

    /// Takes requests out of the batches of a holder: how many were there.
    pub(super) fn remove(&mut self, holder: Holder, requests: &Requests) -> usize {
        let before = self.all.len();
        self.all.retain(|claim| {
            let goes = claim.holder == holder && requests.contains(&claim.request);
            if goes {
                self.changed.insert(claim.batch);
            }
            !goes
        });
        before - self.all.len()
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

    /// Claims these requests for this start, except for those of others: these, and those that had been left to nobody.
    ///
    /// What was left stays so beside our claim until our call has ended: we may be killed before we make it.
    pub(super) fn claim(&mut self, requests: &Requests) -> (Requests, Requests) {
        let of_others = self.of(Holder::Other, requests);
        self.new = &(requests - &of_others) - &self.of(Holder::Us, requests);
        let taken_over = self.of(Holder::Nobody, &self.new);
        // A start whose lease has ended may come back, and must not find them.
        self.remove(Holder::Nobody, &taken_over);
        self.leave(&taken_over);
        (of_others, taken_over)
    }

    /// How many are new claims of this start.
    pub(super) fn granted(&self) -> u64 {
        self.new.len() as u64
    }

    /// The statements that store the changes, for this start of a run.
    pub(super) fn statements(&self, dialect: &Dialect, (run, start): (i64, i64)) -> String {
        let mut statements = String::new();
        for id in &self.changed {
            let left = self.all.iter().filter(|claim| claim.batch == *id);
            let left: Requests = left.map(|claim| claim.request).collect();
            statements += &if left.is_empty() {
                format!("DELETE FROM claims WHERE id = {id};")
            } else {
                let fps = blob(dialect, &left);
                format!("UPDATE claims SET fps = {fps} WHERE id = {id};")
            };
        }
        for (run, start, requests) in [(run, start, &self.new), (0, 0, &self.left)] {
            if !requests.is_empty() {
                let (now, fps) = (dialect.now, blob(dialect, requests));
                statements += &format!(
                    "INSERT INTO claims (run, start, at, fps) VALUES ({run}, {start}, {now}, {fps});"
                );
            }
        }
        statements
    }
}

/// Fingerprints as they are stored, one after the other, as SQL.
fn blob(dialect: &Dialect, requests: &Requests) -> String {
    let digits: String = requests.iter().map(|it| format!("{it:016x}")).collect();
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
