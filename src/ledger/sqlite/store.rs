//! A ledger in a file: what a run writes there, and look-ups.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, params};

use super::connect::{
    DIALECT, check_soundness, connect, connect_to_nothing, pause, rows, set_synced,
};
use super::find::Finder;
use crate::base::error::Result as RunResult;
use crate::base::own_file::FileId;
use crate::ledger::database::{
    ClaimResult, Database, Dialect, Lookup, Purpose, Query, TableRow, WriteGroup,
};
use crate::ledger::fault::{DbFault, DbFaultKind};
use crate::ledger::file::{self, NewFile, SpaceReserve};
use crate::ledger::index::Slice;
use crate::ledger::key::RequestKey;
use crate::ledger::outcome::{LookupResult, Scope, SealedRecord};

/// Pauses for want of space after what was kept was given back: the run's own output may have taken it in this moment, and
/// gives it back when its rows do not fit either.
const WAITS_FOR_SPACE: u32 = 40;

/// A ledger in a file.
struct SqliteLedger {
    connection: Connection,
    /// Its real path; `None` for one that is gone with the connection.
    path: Option<PathBuf>,
    /// As the user gave it.
    shown: PathBuf,
    file_id: Option<FileId>,
    finder: Finder,
    /// It is only looked at.
    is_look: bool,
    is_synced: bool,
    /// Kept for the answers to calls that are out when the disk is full.
    reserve: Option<SpaceReserve>,
    /// The disk was full, and what was kept is in use.
    is_full: bool,
    /// How often space was waited for since then.
    waits_for_space: u32,
    /// Removed after the connection is closed, if the run does not start.
    new_file: NewFile,
}

impl SqliteLedger {
    fn new(connection: Connection, path: Option<PathBuf>, shown: &Path) -> Self {
        Self {
            connection,
            file_id: path.as_deref().and_then(FileId::at),
            path,
            shown: shown.to_owned(),
            finder: Finder::default(),
            is_look: false,
            is_synced: true,
            reserve: None,
            is_full: false,
            waits_for_space: 0,
            new_file: NewFile(None),
        }
    }
}

/// Opens a database that has no file.
pub(in crate::ledger) fn temporary() -> RunResult<Box<dyn Database>> {
    let shown = Path::new("answers");
    let connection = connect_to_nothing().map_err(|fault| fault.error("open", shown))?;
    Ok(Box::new(SqliteLedger::new(connection, None, shown)))
}

/// Opens a ledger; `None` if there is none yet, and none is made.
pub(in crate::ledger) fn open(
    shown: &Path,
    purpose: Purpose<'_>,
) -> RunResult<Option<Box<dyn Database>>> {
    let (real, is_new) = match purpose {
        Purpose::Run(_) => file::make(shown)?,
        _ => (file::check(shown)?, false),
    };
    if matches!(real.try_exists(), Ok(false)) {
        return Ok(None);
    }
    let new_file = NewFile(is_new.then(|| real.clone()));
    let open = || {
        let connection = connect(&real, purpose)?;
        if !matches!(purpose, Purpose::Again(_)) {
            check_soundness(&connection, &real)?;
        }
        let mut ledger = SqliteLedger::new(connection, Some(real), shown);
        if let Purpose::Run(settings) = purpose {
            let path = ledger.path.as_deref().unwrap_or(shown);
            ledger.reserve = SpaceReserve::beside(path, settings.in_flight)?;
        }
        ledger.new_file = new_file;
        ledger.is_look = matches!(purpose, Purpose::Look);
        Ok(ledger)
    };
    match open() {
        Ok(ledger) => Ok(Some(Box::new(ledger))),
        Err(DbFault {
            kind: DbFaultKind::Missing,
            ..
        }) => Ok(None),
        Err(DbFault {
            kind: DbFaultKind::Held,
            ..
        }) if matches!(purpose, Purpose::Admin) => {
            Err(DbFault::new(DbFaultKind::InUse, "").error("open", shown))
        }
        Err(fault) => Err(fault.error("open", shown)),
    }
}

impl SqliteLedger {
    /// Does something in a transaction that takes the write lock when it starts: one that reads first could find the ledger
    /// changed when it writes. If the disk is full, what was kept is given to it, once.
    fn attempt<T>(
        &mut self,
        durable: bool,
        work: &mut dyn FnMut(&mut Self) -> Result<T, DbFault>,
    ) -> Result<T, DbFault> {
        let mut attempt = || {
            if self.path.is_some() && self.is_synced != durable {
                set_synced(&self.connection, durable)?;
                self.is_synced = durable;
            }
            self.connection.execute_batch("BEGIN IMMEDIATE")?;
            let done = work(self).and_then(|done| {
                self.connection.execute_batch("COMMIT")?;
                Ok(done)
            });
            if done.is_err() && !self.connection.is_autocommit() {
                self.connection.execute_batch("ROLLBACK")?;
            }
            done
        };
        match attempt() {
            Err(fault) if fault.kind == DbFaultKind::NoSpace => {
                if let Some(reserve) = self.reserve.take() {
                    reserve.release();
                    self.is_full = true;
                } else if self.is_full && self.waits_for_space < WAITS_FOR_SPACE {
                    self.waits_for_space += 1;
                    pause();
                } else {
                    return Err(fault);
                }
                self.attempt(durable, work)
            }
            done => done,
        }
    }
}

impl SqliteLedger {
    /// Stores a group in the transaction that is open: the results of its claims, the places of its records, and what was
    /// merged with it.
    fn write_group(&mut self, group: &WriteGroup<'_>) -> Result<GroupWritten, DbFault> {
        let connection = &self.connection;
        self.finder.index.catch_up(connection)?;
        rows(connection, &group.statements)?;
        let entries = put(connection, group.account, &group.records)?;
        // Nobody waits for an answer that is not kept: with the same group it may be asked for.
        if self.path.is_none() {
            self.finder.index.lock().add_own(&entries);
        }
        // On a full disk no new calls start.
        let claims = if self.is_full { &[] } else { group.claims };
        let mut found = Vec::with_capacity(claims.len());
        for key in claims {
            let known = self.finder.find(connection, group.scope, key)?;
            if known.passed_over.is_some() {
                self.replace(key)?;
            }
            found.push(known);
        }
        let mut query = |statements: &str| Ok(rows(connection, statements)?);
        let results = group.claim(found, &DIALECT, &mut query)?;
        let slice = self.finder.index.lock().next_slice();
        if let Some(slice) = &slice {
            merge(connection, slice)?;
        }
        Ok((results, entries, slice))
    }

    /// The answer to come replaces the latest one.
    fn replace(&self, key: &RequestKey) -> Result<(), DbFault> {
        let places = self.finder.places(&self.connection, key.fingerprint())?;
        if let Some(latest) = places.first() {
            self.connection
                .prepare_cached("UPDATE merged SET replaced_up_to = max(replaced_up_to, ?)")?
                .execute([latest])?;
            self.finder.index.lock().add_replaced(*latest);
        }
        Ok(())
    }
}

type GroupWritten = (Vec<ClaimResult>, Vec<(i64, i64)>, Option<Slice>);

/// Stores outcomes: their fingerprints and places.
fn put(
    connection: &Connection,
    account: i64,
    records: &[SealedRecord],
) -> rusqlite::Result<Vec<(i64, i64)>> {
    let mut insert = connection.prepare_cached("INSERT INTO answers VALUES (NULL, ?, ?, ?, ?)")?;
    let mut entries = Vec::with_capacity(records.len());
    for record in records {
        let SealedRecord {
            fingerprint,
            at,
            sealed,
        } = record;
        let seq = insert.insert(params![fingerprint, account, at, sealed])?;
        entries.push((*fingerprint, seq));
    }
    Ok(entries)
}

/// Puts answers into the table of places.
fn merge(connection: &Connection, slice: &Slice) -> rusqlite::Result<()> {
    let mut insert = connection.prepare_cached("INSERT OR IGNORE INTO idx VALUES (?, ?)")?;
    for (fingerprint, seq) in &slice.entries {
        insert.execute([fingerprint, seq])?;
    }
    if let Some(up_to) = slice.completes {
        connection
            .prepare_cached("UPDATE merged SET up_to = max(up_to, ?)")?
            .execute([up_to])?;
    }
    Ok(())
}

impl Database for SqliteLedger {
    fn dialect(&self) -> &'static Dialect {
        &DIALECT
    }

    fn read(&mut self, queries: &str) -> Result<Vec<TableRow>, DbFault> {
        Ok(rows(&self.connection, queries)?)
    }

    fn transaction(
        &mut self,
        durable: bool,
        work: &mut dyn FnMut(&mut Query<'_>) -> Result<(), DbFault>,
    ) -> Result<(), DbFault> {
        self.attempt(durable, &mut |ledger| {
            work(&mut |statements| Ok(rows(&ledger.connection, statements)?))
        })
    }

    fn store(&mut self, group: &WriteGroup<'_>) -> Result<Vec<ClaimResult>, DbFault> {
        // A file without a name accepts everything, and loses it when it is closed.
        let is_there = |path: &Path| FileId::at(path) == self.file_id;
        if !self.path.as_deref().is_none_or(is_there) {
            let words = "it was removed or moved while it was in use";
            return Err(DbFault::new(DbFaultKind::Other, words));
        }
        // Claims need no sync: they are worth nothing after a power cut.
        let durable = !group.records.is_empty();
        let (results, entries, slice) =
            self.attempt(durable, &mut |ledger| ledger.write_group(group))?;
        let mut index = self.finder.index.lock();
        if self.path.is_some() {
            index.add_own(&entries);
        }
        if let Some(slice) = &slice {
            index.merged_slice(slice);
        }
        Ok(results)
    }

    fn lookup(&self, scope: Scope) -> Result<Box<dyn Lookup>, DbFault> {
        let connection = match &self.path {
            Some(path) => {
                self.finder.index.catch_up(&self.connection)?;
                let purpose = if self.is_look {
                    Purpose::Look
                } else {
                    Purpose::LookUp
                };
                Some(connect(path, purpose)?)
            }
            None => None,
        };
        Ok(Box::new(SqliteLookup {
            connection,
            shown: self.shown.clone(),
            finder: Finder::new(self.finder.index.clone()),
            scope,
        }))
    }

    fn rewrite(&mut self) -> Result<(), DbFault> {
        let statements = "VACUUM; PRAGMA wal_checkpoint(TRUNCATE)";
        Ok(self.connection.execute_batch(statements)?)
    }

    fn run_starts(&mut self) {
        self.new_file.keep();
    }

    fn is_full(&self) -> bool {
        self.is_full
    }

    fn answers_end(&mut self) {
        self.is_full = false;
        self.reserve = None;
    }
}

/// A second connection, which only reads.
struct SqliteLookup {
    /// `None` where nothing is known from before: what is asked for is found when it is claimed.
    connection: Option<Connection>,
    shown: PathBuf,
    finder: Finder,
    scope: Scope,
}

impl Lookup for SqliteLookup {
    fn look_up(&mut self, keys: &[RequestKey]) -> RunResult<Vec<LookupResult>> {
        let Some(connection) = &self.connection else {
            return Ok(vec![LookupResult::default(); keys.len()]);
        };
        let mut find_all = || {
            // One state of the ledger for all of them, which costs less for each.
            let reading = connection.unchecked_transaction()?;
            self.finder.index.catch_up(&reading)?;
            let found = { keys.iter() }
                .map(|key| self.finder.find(&reading, &self.scope, key))
                .collect::<rusqlite::Result<_>>();
            reading.finish()?;
            found
        };
        find_all().map_err(|error| DbFault::from(error).error("read", &self.shown))
    }
}
