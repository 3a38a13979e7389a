//! A ledger in a file as a run writes it.

use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::{Connection, params};

use super::claims::{self, Claimant};
use super::connect::{self, Mode, writing};
use super::errors;
use super::find::{Finder, SharedIndex};
use super::schema::Meta;
use super::{limits, outputs, runs};
use crate::base::error::{Error, Result};
use crate::base::file_id::FileId;
use crate::ledger::clock;
use crate::ledger::index::Slice;
use crate::ledger::key::{RequestKey, random_nonces};
use crate::ledger::known_limit::{KnownLimit, LimitRecorder};
use crate::ledger::lease::LeaseTerms;
use crate::ledger::outcome::{LookupResult, Outcome, Scope};
use crate::ledger::outputs::OutputState;
use crate::ledger::run::RunPlan;
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
    shown: PathBuf,
    file_id: Option<FileId>,
    finder: Finder,
    plan: RunPlan,
    account: i64,
    in_flight: NonZeroUsize,
    lease: LeaseTerms,
    /// Who claims, once the run has started.
    us: Claimant,
    limits: LimitRecorder,
    is_synced: bool,
    space: Space,
}

/// What is known of the space on the disk.
enum Space {
    /// None was lacking yet, and this is kept.
    Kept(Option<SpaceReserve>),
    /// The disk was full, and what was kept is in use: for answers to calls that are out, and for no others.
    InUse,
}

/// What a store is opened with, besides its connection.
pub(super) struct StoreParts {
    pub(super) path: Option<PathBuf>,
    pub(super) index: SharedIndex,
    pub(super) scope: Scope,
    pub(super) plan: RunPlan,
    pub(super) account: i64,
    pub(super) in_flight: NonZeroUsize,
    pub(super) lease: LeaseTerms,
}

impl SqliteStore {
    /// The store over this connection, with space for the answers to calls in flight.
    ///
    /// # Errors
    /// Exit code 3: the disk is full.
    pub(super) fn new(connection: Connection, parts: StoreParts, shown: &Path) -> Result<Self> {
        let path = parts.path;
        let keep = |path: &PathBuf| {
            SpaceReserve::beside(path, parts.in_flight).map_err(|e| errors::no_space(shown, e))
        };
        Ok(Self {
            space: Space::Kept(path.as_ref().map(keep).transpose()?.flatten()),
            connection,
            file_id: path.as_deref().and_then(FileId::at),
            path,
            shown: shown.to_owned(),
            finder: Finder::new(parts.index, parts.scope),
            plan: parts.plan,
            account: parts.account,
            in_flight: parts.in_flight,
            lease: parts.lease,
            us: Claimant { run: 0, start: 0 },
            limits: LimitRecorder::default(),
            is_synced: true,
        })
    }

    fn write_group(&mut self, work: Work<'_>) -> rusqlite::Result<Vec<ClaimResult>> {
        // Claims need no sync: they are worth nothing after a power cut.
        self.set_synced(!work.records.is_empty())?;
        let transaction = writing(&self.connection)?;
        self.finder.index.catch_up(&self.connection)?;
        let entries = put(&self.connection, self.account, work.records)?;
        // Nobody else can claim anything in a database that has no file.
        let claimant = self.path.is_some().then_some(self.us);
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
        if let (Some(first), Some(last)) = (entries.first(), entries.last()) {
            index.add_own(first.1, last.1);
        }
        for entry in entries {
            index.add(entry);
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
        let transaction = writing(&self.connection)?;
        let now = clock::now();
        let until = self.lease.until(now);
        let calls = self.plan.calls_before.saturating_add(calls);
        let renewal = if runs::renew(&transaction, self.us, calls, (now, until))? {
            LeaseRenewal::Kept
        } else {
            self.us = runs::restart(&transaction, self.us.run, until)?;
            LeaseRenewal::NewWorker
        };
        transaction.commit()?;
        Ok(renewal)
    }

    fn end_claims(&mut self, calls: u64) -> rusqlite::Result<()> {
        self.set_synced(true)?;
        let transaction = writing(&self.connection)?;
        claims::end_all(&transaction, self.us)?;
        let now = clock::now();
        let calls = self.plan.calls_before.saturating_add(calls);
        runs::renew(
            &transaction,
            self.us,
            calls,
            (i64::MIN, now.saturating_sub(1)),
        )?;
        limits::record(&transaction, self.account, &mut self.limits, true)?;
        transaction.commit()
    }

    fn end_run(&mut self, end: RunEnd) -> rusqlite::Result<()> {
        let transaction = writing(&self.connection)?;
        match (end, self.plan.name) {
            (_, None) => runs::forget(&transaction, self.us.run)?,
            (RunEnd::Finished { failed }, Some(_)) => {
                runs::finish(&transaction, self.us.run, failed)?;
            }
            (RunEnd::Stopped, Some(_)) => {}
        }
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

    fn cannot(&self, doing: &str, error: &rusqlite::Error) -> Error {
        errors::cannot_use(&self.shown, doing, error)
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
        let state = Meta::read(&self.connection)
            .and_then(|meta| outputs::state(&self.connection, &meta.secret, file, input));
        state.map_err(|error| self.cannot("read", &error))
    }

    fn output_recorder(&self) -> OutputRecorder {
        let (path, shown) = (self.path.clone(), self.shown.clone());
        Arc::new(move |files, input| {
            let Some(path) = &path else {
                return Ok(());
            };
            connect::open(Some(path), Mode::Run)
                .and_then(|connection| {
                    let secret = Meta::read(&connection)?.secret;
                    outputs::record(&connection, &secret, files, input)
                })
                .map_err(|error| errors::cannot_use(&shown, "write", &error))
        })
    }

    fn start(&mut self) -> Result<()> {
        let until = self.lease.until(clock::now());
        let in_flight = self.in_flight.get() as u64;
        self.us = runs::start(&self.connection, &self.plan, in_flight, until)
            .map_err(|error| self.cannot("write", &error))?;
        Ok(())
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
        // If this fails, the next run to the same output takes itself for this one and continues it. That is not worth failing
        // for when every row is written.
        let _ = self.end_run(end);
    }
}

/// A second connection, which only reads.
struct SqliteLookup {
    connection: Connection,
    shown: PathBuf,
    finder: Finder,
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

/// Over an existing ledger, without a run: nothing is changed.
pub(super) fn inspecting(
    connection: Connection,
    shown: &Path,
    scope: Scope,
) -> rusqlite::Result<Box<dyn Lookup>> {
    let index = SharedIndex::read(&connection)?;
    Ok(Box::new(SqliteLookup {
        connection,
        shown: shown.to_owned(),
        finder: Finder::new(index, scope),
    }))
}

/// Look-ups where nothing is known from before.
struct NothingKnown;

impl Lookup for NothingKnown {
    fn look_up(&mut self, keys: &[RequestKey]) -> Result<Vec<LookupResult>> {
        Ok(vec![LookupResult::default(); keys.len()])
    }
}
