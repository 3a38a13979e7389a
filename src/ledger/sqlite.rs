//! A ledger in a file: opening it, what a run writes there, and look-ups.

use std::fs;
use std::mem;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, Row, ToSql, params};

use super::answers::{LookupResult, Scope, Stored};
use super::database::{Database, Dialect, Purpose, TableRow, Work};
use super::fault::{DbFault, DbFaultKind};
use super::key::RequestKey;
use super::settings::ServerWait;
use super::sqlite_connect::{DIALECT, check_pages, connect, pause, set_synced};
use super::sqlite_file::{self, SUFFIXES, SpaceReserve};
use super::sqlite_find::{Finder, Slice};
use crate::base::error::Result as RunResult;
use crate::base::private_file::{FileId, with_suffix};

/// Retries after the disk filled up and the reserve was released: the run's own output may have taken it in this moment, and
/// gives it back when its rows do not fit either.
const WAITS_FOR_SPACE: u32 = 200;

/// A file up to this size is checked completely when it is opened, which takes a tenth of a second.
const CHECKED_COMPLETELY: u64 = 64 * 1024 * 1024;

/// A ledger in a file.
struct SqliteLedger {
    /// Kept for the answers to calls that are out when the disk is full. It is given back before the connection is closed, which
    /// merges the log into the file.
    reserve: Option<SpaceReserve>,
    connection: Connection,
    /// Its real path.
    path: PathBuf,
    /// Which file is there.
    id: Option<FileId>,
    finder: Finder,
    is_synced: bool,
    /// The disk was full, and what was kept is in use.
    is_full: bool,
    /// How often space was waited for since then.
    waits_for_space: u32,
    /// A file that was made now. It is removed after the connection is closed, if the run does not start.
    new_file: Option<NewFile>,
}

/// A new file. Dropped, it is removed with the files beside it, which stay where a full disk keeps its log from being merged.
struct NewFile(PathBuf);

impl Drop for SqliteLedger {
    /// Another run may have found the new file in the meantime, and have started with it.
    fn drop(&mut self) {
        if self.new_file.is_some() {
            let runs = "SELECT EXISTS (SELECT 1 FROM runs)";
            let is_used = self.connection.query_row(runs, [], |row| row.get(0));
            if is_used.unwrap_or(false) {
                self.run_starts();
            }
        }
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        for suffix in SUFFIXES.iter().chain(&[""]) {
            let _ = fs::remove_file(with_suffix(&self.0, suffix));
        }
    }
}

impl SqliteLedger {
    fn new(connection: Connection, path: PathBuf, finder: Finder) -> Self {
        Self {
            connection,
            id: FileId::at(&path),
            path,
            finder,
            is_synced: true,
            reserve: None,
            is_full: false,
            waits_for_space: 0,
            new_file: None,
        }
    }
}

/// Opens a ledger; `None` if there is none yet, and none is made.
pub(super) fn open(shown: &Path, purpose: Purpose<'_>) -> RunResult<Option<Box<dyn Database>>> {
    let (real, is_new) = match purpose {
        Purpose::Run(_) => sqlite_file::make(shown)?,
        _ => (sqlite_file::check(shown)?, false),
    };
    if matches!(real.try_exists(), Ok(false)) {
        return Ok(None);
    }
    let new_file = is_new.then(|| NewFile(real.clone()));
    let open = || {
        let connection = connect(&real, purpose)?;
        let is_small = { real.metadata() }.is_ok_and(|file| file.len() <= CHECKED_COMPLETELY);
        if is_small && !matches!(purpose, Purpose::SecondConnection(_)) {
            check_pages(&connection)?;
        }
        let mut ledger = SqliteLedger::new(connection, real.clone(), Finder::default());
        ledger.new_file = new_file;
        if let Purpose::Run(settings) = purpose {
            ledger.reserve = SpaceReserve::beside(&real, settings.in_flight)?;
        }
        Ok::<_, DbFault>(Some(Box::new(ledger) as Box<dyn Database>))
    };
    match open() {
        Err(fault) if fault.kind == DbFaultKind::Missing => Ok(None),
        opened => opened.map_err(|fault| fault.error("open", shown)),
    }
}

impl SqliteLedger {
    /// Does something in a transaction that takes the write lock when it starts: one that reads first could find the ledger
    /// changed when it writes.
    fn try_transaction(&mut self, durable: bool, work: &mut Work<'_>) -> Result<(), DbFault> {
        // A file without a name accepts everything, and loses it when it is closed.
        if FileId::at(&self.path) != self.id {
            let words = "it was removed or moved while it was in use";
            return Err(DbFault::new(DbFaultKind::Other, words));
        }
        if self.is_synced != durable {
            set_synced(&self.connection, durable)?;
            self.is_synced = durable;
        }
        self.connection.execute_batch("BEGIN IMMEDIATE")?;
        let seen = self.finder.index().seen;
        let done = work(self).and_then(|()| {
            let slice = self.merge()?;
            self.connection.execute_batch("COMMIT")?;
            Ok(slice)
        });
        match done {
            Ok(slice) => {
                if let Some(slice) = slice {
                    self.finder.index().merged_slice(&slice);
                }
                Ok(())
            }
            Err(fault) => {
                self.finder.index().forget_after(seen);
                if !self.connection.is_autocommit() {
                    self.connection.execute_batch("ROLLBACK")?;
                }
                Err(fault)
            }
        }
    }

    /// Puts the next answers into the table of places, if it is time for that.
    fn merge(&self) -> rusqlite::Result<Option<Slice>> {
        let Some(slice) = self.finder.index().next_slice() else {
            return Ok(None);
        };
        let connection = &self.connection;
        let mut insert = connection.prepare_cached("INSERT OR IGNORE INTO idx VALUES (?, ?)")?;
        for (fingerprint, seq) in &slice.entries {
            insert.execute([fingerprint, seq])?;
        }
        if let Some(up_to) = slice.completes {
            connection
                .prepare_cached("UPDATE merged SET up_to = max(up_to, ?)")?
                .execute([up_to])?;
        }
        Ok(Some(slice))
    }

    /// The answer to come replaces the latest one.
    fn replace(&self, key: &RequestKey) -> rusqlite::Result<()> {
        let places = self.finder.places(&self.connection, key.fingerprint())?;
        if let Some(latest) = places.first() {
            self.connection
                .prepare_cached("UPDATE merged SET replaced_up_to = max(replaced_up_to, ?)")?
                .execute([latest])?;
            self.finder.index().add_replaced(*latest);
        }
        Ok(())
    }
}

impl Database for SqliteLedger {
    fn dialect(&self) -> &'static Dialect {
        &DIALECT
    }

    fn query(&mut self, statement: &str, values: &[&dyn ToSql]) -> Result<Vec<TableRow>, DbFault> {
        let mut statement = self.connection.prepare_cached(statement)?;
        let columns = statement.column_count();
        let row = |row: &Row<'_>| {
            let values = (0..columns).map(|column| row.get(column));
            values.collect::<rusqlite::Result<_>>().map(TableRow)
        };
        let rows = statement.query_map(values, row)?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// If the disk is full, what was kept is given to it, once.
    fn transaction(&mut self, durable: bool, work: &mut Work<'_>) -> Result<(), DbFault> {
        loop {
            match self.try_transaction(durable, work) {
                Err(fault) if fault.kind == DbFaultKind::NoSpace => {
                    if let Some(reserve) = self.reserve.take() {
                        reserve.release();
                        self.is_full = true;
                    } else if self.is_full && self.waits_for_space < WAITS_FOR_SPACE {
                        self.waits_for_space += 1;
                        // What the log has goes to pages that the ledger has already, and the log starts again.
                        let _ = self
                            .connection
                            .execute_batch("PRAGMA wal_checkpoint(PASSIVE)");
                        pause();
                    } else {
                        return Err(fault);
                    }
                }
                done => return done,
            }
        }
    }

    fn append(&mut self, account: i64, records: &[(i64, Stored)]) -> Result<(), DbFault> {
        // What others have stored comes before it.
        self.finder.catch_up(&self.connection)?;
        let mut insert = { &self.connection }
            .prepare_cached("INSERT INTO answers VALUES (NULL, ?, ?, ?, ?, ?)")?;
        let mut index = self.finder.index();
        for (fingerprint, new) in records {
            let values = params![fingerprint, account, new.at, new.price, new.sealed];
            index.add((*fingerprint, insert.insert(values)?));
        }
        Ok(())
    }

    /// The rows stay, with the number of the start alone, as other runs know all places up to the last one.
    fn discard(&mut self, start: i64, fingerprints: &[i64]) -> Result<(), DbFault> {
        self.finder.catch_up(&self.connection)?;
        let discard = "UPDATE answers SET sealed = ?2 WHERE seq = ?1 AND substr(sealed, 1, 8) = ?2";
        let mut discard = self.connection.prepare_cached(discard)?;
        for fingerprint in fingerprints {
            for place in self.finder.places(&self.connection, *fingerprint)? {
                discard.execute(params![place, start.to_le_bytes()])?;
            }
        }
        Ok(())
    }

    fn find(&mut self, scope: &Scope, keys: &[RequestKey]) -> Result<Vec<LookupResult>, DbFault> {
        let is_alone = self.connection.is_autocommit();
        // One state of the ledger for all of them, which costs less for each.
        let reading = { is_alone }
            .then(|| self.connection.unchecked_transaction())
            .transpose()?;
        self.finder.catch_up(&self.connection)?;
        let mut all = Vec::with_capacity(keys.len());
        for key in keys {
            let found = self.finder.find(&self.connection, scope, key)?;
            if !is_alone && found.passed_over.is_some() {
                self.replace(key)?;
            }
            all.push(found);
        }
        if let Some(reading) = reading {
            reading.finish()?;
        }
        Ok(all)
    }

    fn beside(&self) -> Result<Box<dyn Database>, DbFault> {
        let connection = connect(
            &self.path,
            Purpose::SecondConnection(&ServerWait::default()),
        )?;
        let ledger = Self::new(connection, self.path.clone(), self.finder.beside());
        Ok(Box::new(ledger))
    }

    fn rewrite(&mut self) -> Result<(), DbFault> {
        let statements = "VACUUM; PRAGMA wal_checkpoint(TRUNCATE)";
        Ok(self.connection.execute_batch(statements)?)
    }

    fn run_starts(&mut self) {
        mem::forget(self.new_file.take());
    }

    fn is_full(&self) -> bool {
        self.is_full
    }
}
