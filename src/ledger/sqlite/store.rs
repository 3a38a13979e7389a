//! A ledger in a file as a run writes it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::{Connection, params};

use super::claims::{self, Claimant};
use super::connect::{self, Mode, writing};
use super::errors;
use super::find::Finder;
use super::{limits, runs};
use crate::base::error::{Error, Result};
use crate::base::file_id::FileId;
use crate::ledger::clock;
use crate::ledger::database::Database as _;
use crate::ledger::index::Slice;
use crate::ledger::key::{RequestKey, random_nonces};
use crate::ledger::known_limit::{KnownLimit, LimitRecorder};
use crate::ledger::lease::LeaseTerms;
use crate::ledger::outcome::{LookupResult, Outcome};
use crate::ledger::outputs::{self, OutputState};
use crate::ledger::run::{Leased, RunPlan};
use crate::ledger::space_reserve::SpaceReserve;
use crate::ledger::store::{
    ClaimResult, LeaseRenewal, Lookup, OutputRecorder, Record, RunEnd, Store, Work,
};

/// A ledger in a file, open for a run.
pub(super) struct SqliteStore {
    pub(super) connection: Connection,
    /// `None` for one that is gone with the run.
    pub(super) path: Option<PathBuf>,
    /// As the user gave it.
    pub(super) shown: PathBuf,
    pub(super) file_id: Option<FileId>,
    pub(super) finder: Finder,
    pub(super) secret: [u8; 32],
    pub(super) plan: RunPlan,
    pub(super) account: i64,
    pub(super) lease: LeaseTerms,
    /// Who claims, once the run has started.
    pub(super) us: Claimant,
    pub(super) limits: LimitRecorder,
    pub(super) is_synced: bool,
    pub(super) space: Space,
}

/// What is known of the space on the disk.
pub(super) enum Space {
    /// None was lacking yet, and this is kept.
    Kept(Option<SpaceReserve>),
    /// The disk was full, and what was kept is in use: for answers to calls that are out, and for no others.
    InUse,
}

impl SqliteStore {
    fn write_group(&mut self, work: Work<'_>) -> rusqlite::Result<Vec<ClaimResult>> {
        // Claims need no sync: they are worth nothing after a power cut.
        self.set_synced(!work.records.is_empty())?;
        let transaction = writing(&self.connection)?;
        self.finder.index.catch_up(&self.connection)?;
        let entries = put(&self.connection, self.account, work.records)?;
        // Nobody waits for an answer that is not kept: with the same group it may be asked for.
        let is_kept = self.path.is_some();
        if !is_kept {
            self.finder.index.lock().add_own(&entries);
        }
        // Nobody else can claim anything in a database that has no file.
        let claimant = is_kept.then_some(self.us);
        if let Some(us) = claimant {
            let recorded = work.records.iter().map(|record| &record.key);
            claims::end(&self.connection, us, recorded.chain(work.releases))?;
        }
        for key in work.abandoned {
            claims::abandon(&self.connection, self.us, key)?;
        }
        let (mut results, now) = (Vec::with_capacity(work.claims.len()), clock::now());
        // On a full disk no new calls start.
        let claimed = if self.is_full() { &[] } else { work.claims };
        for key in claimed {
            results.push(claim(
                &self.connection,
                &mut self.finder,
                claimant,
                key,
                now,
            )?);
        }
        let slice = self.finder.index.lock().next_slice();
        if let Some(slice) = &slice {
            merge(&self.connection, slice)?;
        }
        let calls = self.plan.calls_before.saturating_add(work.calls);
        let until = self.lease.until(now);
        runs::renew(&self.connection, self.us, calls, (now, until))?;
        let before = self.limits;
        limits::record(&self.connection, self.account, &mut self.limits, false)?;
        transaction.commit().inspect_err(|_| self.limits = before)?;

        let mut index = self.finder.index.lock();
        if is_kept {
            index.add_own(&entries);
        }
        if let Some(slice) = &slice {
            index.merged_slice(slice);
        }
        Ok(results)
    }

    fn set_synced(&mut self, synced: bool) -> rusqlite::Result<()> {
        if self.path.is_some() && self.is_synced != synced {
            connect::set_synced(&self.connection, synced)?;
            self.is_synced = synced;
        }
        Ok(())
    }

    fn renew_lease(&mut self, calls: u64) -> rusqlite::Result<LeaseRenewal> {
        self.set_synced(false)?;
        let before = self.us;
        let us = (before.run, before.start);
        let renewed = self.plan.renew(&mut self.connection, us, calls)?;
        self.set_lease(renewed)?;
        if self.us == before {
            Ok(LeaseRenewal::Kept)
        } else {
            Ok(LeaseRenewal::NewWorker)
        }
    }

    /// Remembers the lease, which nobody can have removed meanwhile.
    fn set_lease(&mut self, lease: Option<Leased>) -> rusqlite::Result<()> {
        let (run, start) = lease.ok_or_else(errors::damaged)?.us;
        self.us = Claimant { run, start };
        Ok(())
    }

    fn end_claims(&mut self, calls: u64) -> rusqlite::Result<()> {
        self.set_synced(true)?;
        let Claimant { run, start } = self.us;
        let transaction = writing(&self.connection)?;
        claims::end_all(&transaction, self.us)?;
        transaction.execute_batch(&self.plan.leave::<Connection>((run, start), calls))?;
        limits::record(&transaction, self.account, &mut self.limits, true)?;
        transaction.commit()
    }

    const fn is_full(&self) -> bool {
        matches!(self.space, Space::InUse)
    }

    /// Gives the space that was kept to what comes next, once, if the disk is full.
    fn makes_room(&mut self, error: &rusqlite::Error) -> bool {
        if errors::as_io_error(error).kind() != io::ErrorKind::StorageFull {
            return false;
        }
        let Space::Kept(reserve) = &mut self.space else {
            return false;
        };
        let Some(reserve) = reserve.take() else {
            return false;
        };
        reserve.release();
        self.space = Space::InUse;
        true
    }
}

/// Stores outcomes: their fingerprints and places.
fn put(
    connection: &Connection,
    account: i64,
    records: &[Record],
) -> rusqlite::Result<Vec<(i64, i64)>> {
    if records.is_empty() {
        return Ok(Vec::new());
    }
    let mut insert = connection.prepare_cached("INSERT INTO answers VALUES (NULL, ?, ?, ?, ?)")?;
    let (mut entries, mut answers) = (Vec::with_capacity(records.len()), 0);
    let nonces = random_nonces(records.len()).ok_or_else(no_random_numbers)?;
    for (Record { key, outcome, at }, nonce) in records.iter().zip(nonces) {
        answers += i64::from(matches!(outcome, Outcome::Answer(_)));
        let sealed = outcome
            .seal(key, nonce, *at)
            .ok_or_else(no_random_numbers)?;
        let seq = insert.insert(params![key.fingerprint, account, at, sealed])?;
        entries.push((key.fingerprint, seq));
    }
    connection
        .prepare_cached("UPDATE accounts SET answers = answers + ? WHERE id = ?")?
        .execute(params![answers, account])?;
    Ok(entries)
}

fn no_random_numbers() -> rusqlite::Error {
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_MISUSE);
    rusqlite::Error::SqliteFailure(code, Some("the system has no random numbers".to_owned()))
}

/// Looks a request up once more, and claims it if nothing is known.
fn claim(
    connection: &Connection,
    finder: &mut Finder,
    us: Option<Claimant>,
    key: &RequestKey,
    now: i64,
) -> rusqlite::Result<ClaimResult> {
    let found = finder.find(connection, key)?;
    if found.passed_over.is_some()
        && let Some(latest) = finder.places(connection, key.fingerprint)?.first()
    {
        // The answer to come replaces it.
        connection
            .prepare_cached("UPDATE meta SET replaced_up_to = max(replaced_up_to, ?)")?
            .execute([latest])?;
        finder.index.lock().add_replaced(*latest);
    }
    match (ClaimResult::known(found), us) {
        (Some(known), _) => Ok(known),
        (None, Some(us)) => claims::claim(connection, us, key, now),
        (None, None) => Ok(ClaimResult::Ours { taken_over: false }),
    }
}

/// Puts answers into the table of places.
fn merge(connection: &Connection, slice: &Slice) -> rusqlite::Result<()> {
    let mut insert = connection.prepare_cached("INSERT OR IGNORE INTO idx VALUES (?, ?)")?;
    for (fingerprint, seq) in &slice.entries {
        insert.execute([fingerprint, seq])?;
    }
    if let Some(up_to) = slice.completes {
        connection
            .prepare_cached("UPDATE meta SET merged_up_to = max(merged_up_to, ?)")?
            .execute([up_to])?;
    }
    Ok(())
}

impl Store for SqliteStore {
    fn lookup(&self) -> Result<Box<dyn Lookup>> {
        let Some(path) = &self.path else {
            // What it gets is found when it is claimed.
            return Ok(Box::new(NothingKnown));
        };
        let open = || connect::open(Some(path), Mode::Read);
        Ok(Box::new(SqliteLookup {
            connection: open().map_err(|error| errors::cannot_open(&self.shown, &error))?,
            shown: self.shown.clone(),
            finder: Finder::new(self.finder.index.clone(), self.finder.scope.clone()),
        }))
    }

    fn output_state(&mut self, file: &Path, input: Option<&Path>) -> Result<OutputState> {
        outputs::state(&mut self.connection, &self.secret, file, input)
            .map_err(|error| errors::cannot_use(&self.shown, "read", &error))
    }

    fn output_recorder(&self) -> OutputRecorder {
        let (path, shown, secret) = (self.path.clone(), self.shown.clone(), self.secret);
        Arc::new(move |files, input| {
            let Some(path) = &path else {
                return Ok(());
            };
            connect::open(Some(path), Mode::Run)
                .and_then(|mut connection| {
                    connection.write(&outputs::record(&secret, files, input))
                })
                .map(drop)
                .map_err(|error| errors::cannot_use(&shown, "write", &error))
        })
    }

    fn start(&mut self) -> Result<()> {
        let started = self.plan.start(&mut self.connection);
        { started.and_then(|lease| self.set_lease(lease)) }
            .map_err(|error| errors::cannot_use(&self.shown, "write", &error))
    }

    fn write(&mut self, work: Work<'_>) -> io::Result<Vec<ClaimResult>> {
        // A file without a name accepts everything, and loses it when it is closed.
        if self
            .path
            .as_deref()
            .is_some_and(|path| FileId::at(path) != self.file_id)
        {
            return Err(io::Error::other(
                "it was removed or moved while it was in use",
            ));
        }
        let written = match self.write_group(work) {
            // Nothing of it is stored.
            Err(error) if self.makes_room(&error) => self.write_group(work),
            written => written,
        };
        written.map_err(|error| errors::as_io_error(&error))
    }

    fn renew(&mut self, calls: u64) -> io::Result<LeaseRenewal> {
        let renewed = match self.renew_lease(calls) {
            Err(error) if self.makes_room(&error) => self.renew_lease(calls),
            renewed => renewed,
        };
        renewed.map_err(|error| errors::as_io_error(&error))
    }

    fn given_up(&self) -> Option<Error> {
        let full = io::Error::new(io::ErrorKind::StorageFull, "no space left on device");
        (self.path.is_some() && self.is_full()).then(|| errors::cannot_keep(&self.shown, &full))
    }

    fn set_limit(&mut self, latest: KnownLimit) {
        self.limits.set(latest);
    }

    fn leave(&mut self, calls: u64) {
        // No call is out any more.
        self.space = Space::Kept(None);
        // If this fails, others find out that the run is gone, and the next start counts calls that have ended.
        let _ = self.end_claims(calls);
        // Closing the database would copy its log, after the run's last act. If this fails, it does.
        let _ = self.connection.execute_batch("PRAGMA wal_checkpoint");
    }

    fn end(&mut self, end: RunEnd) {
        self.plan.end(&mut self.connection, self.us.run, end);
    }
}

/// A second connection, which only reads.
pub(super) struct SqliteLookup {
    pub(super) connection: Connection,
    pub(super) shown: PathBuf,
    pub(super) finder: Finder,
}

impl SqliteLookup {
    fn find_all(&mut self, keys: &[RequestKey]) -> rusqlite::Result<Vec<LookupResult>> {
        // One state of the ledger for all of them, which costs less for each.
        let reading = self.connection.unchecked_transaction()?;
        self.finder.index.catch_up(&reading)?;
        let found = { keys.iter() }
            .map(|key| self.finder.find(&reading, key))
            .collect();
        reading.finish()?;
        found
    }
}

impl Lookup for SqliteLookup {
    fn look_up(&mut self, keys: &[RequestKey]) -> Result<Vec<LookupResult>> {
        self.find_all(keys)
            .map_err(|error| errors::cannot_use(&self.shown, "read", &error))
    }
}

/// Look-ups where nothing is known from before.
struct NothingKnown;

impl Lookup for NothingKnown {
    fn look_up(&mut self, keys: &[RequestKey]) -> Result<Vec<LookupResult>> {
        Ok(vec![LookupResult::default(); keys.len()])
    }
}
