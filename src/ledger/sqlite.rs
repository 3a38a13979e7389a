//! A ledger in a file: how answers are stored there, and how they are found again.
//!
//! Answers are appended; their fingerprints come in no order. Inserting each into a large table
//! when it arrives would rewrite a page for each answer. So the index of the latest ones is in
//! memory until there are many, and is then merged into a table in sorted slices: many entries
//! that are next to each other there rewrite few pages. What is not merged yet is read back when a
//! ledger is opened.
//!
//! A file that is scored again has its rows nearly in the order in which its answers arrived. So
//! after a hit the answers that follow it are read together, and the next requests are looked for
//! among them first, without an index.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use foldhash::fast::RandomState;
use rusqlite::{Connection, OptionalExtension as _, Row, ToSql, params};

use super::answers::{KnownResult, LookupResult, Scope, Stored};
use super::database::{Database, Dialect, Purpose, TableRow, Work, pause};
use super::fault::{DbFault, DbFaultKind};
use super::key::RequestKey;
use super::location::{LedgerLocation, ServerWait};
use super::sqlite_file::{
    self, DIALECT, RETRY_PAUSE, SUFFIXES, SpaceReserve, check_pages, connect,
};
use crate::base::error::Result as RunResult;
use crate::base::private_file::{self, FileId, with_suffix};
use crate::base::threads::lock;

/// Retries after the disk filled up and the reserve was released: the run's own output may have
/// taken it in this moment, and gives it back when its rows do not fit either.
const MAX_SPACE_RETRIES: u32 = 200;

/// A file up to this size is checked completely when it is opened, which takes a tenth of a second.
const FULL_CHECK_BYTES: u64 = 64 * 1024 * 1024;

/// From this many answers in memory on, they are merged into the table, while as many more may
/// arrive. With twice as many, merges write a third less, for 5 MiB more.
const MAX_TAIL: usize = if cfg!(test) { 1_000 } else { 200_000 };
/// How many are merged with each commit: with 48 answers a commit, all are merged long before the
/// same number has arrived.
const MERGED_PER_COMMIT: usize = if cfg!(test) { 50 } else { 500 };

/// How many answers are read together. Calls end in another order than they start, shifted by
/// about the number in flight.
const READ_AHEAD: i64 = 512;

/// A ledger in a file.
struct SqliteLedger {
    /// The space for answers to calls in flight on a full disk. It is given back before the
    /// connection is closed, which merges the log into the file.
    reserve: Option<SpaceReserve>,
    connection: Connection,
    /// Its real path.
    path: PathBuf,
    /// Which file is there.
    id: Option<FileId>,
    finder: Finder,
    is_synced: bool,
    /// The disk was full, and the reserve is in use.
    is_full: bool,
    /// The retries since then.
    space_retries: u32,
    /// A file that was made now. It is removed after the connection is closed, unless a run starts.
    new_file: Option<NewFile>,
}

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

/// A new file. Dropped, it is removed with the files beside it, which SQLite leaves there if a
/// full disk keeps it from merging the log.
struct NewFile(PathBuf);

impl Drop for NewFile {
    fn drop(&mut self) {
        for suffix in SUFFIXES.iter().chain(&[""]) {
            let _ = fs::remove_file(with_suffix(&self.0, suffix));
        }
    }
}

/// Opens a ledger. `None` if there is none, and this purpose makes none.
pub(super) fn open(path: &Path, purpose: Purpose<'_>) -> RunResult<Option<Box<dyn Database>>> {
    let real = sqlite_file::check(path)?;
    let is_missing = matches!(real.try_exists(), Ok(false));
    if matches!(purpose, Purpose::Run { .. }) {
        let made = private_file::append(&real, private_file::OWNER, false);
        made.map_err(|e| sqlite_file::cannot_write(path, e))?;
    } else if is_missing {
        return Ok(None);
    }
    let new_file = is_missing.then(|| NewFile(real.clone()));
    let open = || {
        let connection = connect(&real, purpose)?;
        let is_small = real.metadata().is_ok_and(|it| it.len() <= FULL_CHECK_BYTES);
        if is_small && !matches!(purpose, Purpose::SecondConnection(_)) {
            check_pages(&connection)?;
        }
        let mut ledger = SqliteLedger::new(connection, real.clone(), Finder::default());
        ledger.new_file = new_file;
        if let Purpose::Run { in_flight, .. } = purpose {
            ledger.reserve = SpaceReserve::take(&real, in_flight)?;
        }
        Ok::<_, DbFault>(Some(Box::new(ledger) as Box<dyn Database>))
    };
    match open() {
        Err(fault) if fault.kind == DbFaultKind::Missing => Ok(None),
        opened => {
            opened.map_err(|fault| fault.error("open", &LedgerLocation::File(path.to_owned())))
        }
    }
}

impl SqliteLedger {
    fn new(connection: Connection, path: PathBuf, finder: Finder) -> Self {
        Self {
            reserve: None,
            connection,
            id: FileId::at(&path),
            path,
            finder,
            is_synced: true,
            is_full: false,
            space_retries: 0,
            new_file: None,
        }
    }

    /// Does `work` in a transaction that takes the write lock when it starts: one that reads first
    /// could find the ledger changed when it writes.
    fn try_transaction(&mut self, durable: bool, work: &mut Work<'_>) -> Result<(), DbFault> {
        // A file without a name accepts everything, and loses it when it is closed.
        if FileId::at(&self.path) != self.id {
            let words = "it was removed or moved while it was in use";
            return Err(DbFault::new(DbFaultKind::Other, words));
        }
        if self.is_synced != durable {
            sqlite_file::set_synced(&self.connection, durable)?;
            self.is_synced = durable;
        }
        self.connection.execute_batch("BEGIN IMMEDIATE")?;
        let indexed_up_to = self.finder.index().indexed_up_to;
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
                self.finder.index().forget_after(indexed_up_to);
                if !self.connection.is_autocommit() {
                    self.connection.execute_batch("ROLLBACK")?;
                }
                Err(fault)
            }
        }
    }

    /// Puts the next slice of the index into its table, if it is time for that.
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
            let update = "UPDATE merged SET up_to = max(up_to, ?)";
            connection.prepare_cached(update)?.execute([up_to])?;
        }
        Ok(Some(slice))
    }

    /// The next answer to this request replaces the latest one.
    fn replace(&self, key: &RequestKey) -> rusqlite::Result<()> {
        let seqs = self.finder.seqs(&self.connection, key.fingerprint())?;
        if let Some(latest) = seqs.first() {
            let update = "UPDATE merged SET replaced_up_to = max(replaced_up_to, ?)";
            self.connection.prepare_cached(update)?.execute([latest])?;
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

    /// If the disk is full, the reserve is released, once.
    fn transaction(&mut self, durable: bool, work: &mut Work<'_>) -> Result<(), DbFault> {
        loop {
            match self.try_transaction(durable, work) {
                Err(fault) if fault.kind == DbFaultKind::NoSpace => {
                    if let Some(reserve) = self.reserve.take() {
                        reserve.release();
                        self.is_full = true;
                    } else if self.is_full && self.space_retries < MAX_SPACE_RETRIES {
                        self.space_retries += 1;
                        // The content of the log moves to pages that the ledger has already, and
                        // the log starts again.
                        let checkpoint = "PRAGMA wal_checkpoint(PASSIVE)";
                        let _ = self.connection.execute_batch(checkpoint);
                        pause(RETRY_PAUSE);
                    } else {
                        return Err(fault);
                    }
                }
                done => return done,
            }
        }
    }

    fn append(&mut self, account: i64, results: &[Stored]) -> Result<(), DbFault> {
        // What others have stored comes before it.
        self.finder.catch_up(&self.connection)?;
        let insert = "INSERT INTO answers VALUES (NULL, ?, ?, ?, ?, ?)";
        let mut insert = self.connection.prepare_cached(insert)?;
        let mut index = self.finder.index();
        for new in results {
            let values = params![new.fingerprint, account, new.at, new.price, new.sealed];
            index.add((new.fingerprint, insert.insert(values)?));
        }
        Ok(())
    }

    /// The rows stay, with the number of the start alone: other runs have indexed them.
    fn discard(&mut self, start: i64, fingerprints: &[i64]) -> Result<(), DbFault> {
        self.finder.catch_up(&self.connection)?;
        let discard = "UPDATE answers SET sealed = ?2 WHERE seq = ?1 AND substr(sealed, 1, 8) = ?2";
        let mut discard = self.connection.prepare_cached(discard)?;
        for fingerprint in fingerprints {
            for seq in self.finder.seqs(&self.connection, *fingerprint)? {
                discard.execute(params![seq, start.to_le_bytes()])?;
            }
        }
        Ok(())
    }

    fn find(&mut self, scope: &Scope, keys: &[RequestKey]) -> Result<Vec<LookupResult>, DbFault> {
        let is_claiming = !self.connection.is_autocommit();
        // All look-ups see one state of the ledger, and each costs less.
        let reading = if is_claiming {
            None
        } else {
            Some(self.connection.unchecked_transaction()?)
        };
        self.finder.catch_up(&self.connection)?;
        let mut all = Vec::with_capacity(keys.len());
        for key in keys {
            let found = self.finder.find(&self.connection, scope, key)?;
            if is_claiming && found.passed_over.is_some() {
                self.replace(key)?;
            }
            all.push(found);
        }
        if let Some(reading) = reading {
            reading.finish()?;
        }
        Ok(all)
    }

    fn second_connection(&self) -> Result<Box<dyn Database>, DbFault> {
        let purpose = Purpose::SecondConnection(&ServerWait::default());
        let connection = connect(&self.path, purpose)?;
        let finder = Finder {
            index: Arc::clone(&self.finder.index),
            ..Finder::default()
        };
        Ok(Box::new(Self::new(connection, self.path.clone(), finder)))
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

/// The fingerprint of an answer's request, and the number of the answer's row.
type Entry = (i64, i64);

/// Where the latest answers are.
#[derive(Debug, Default)]
struct Index {
    /// The entries that may not be in the table: one for each fingerprint.
    tail: HashMap<i64, i64, RandomState>,
    /// The other entries of these fingerprints: there are few.
    duplicates: BTreeSet<Entry>,
    /// All answers up to this one are in memory or in the table.
    indexed_up_to: i64,
    /// All answers up to this one are in the table.
    merged_up_to: i64,
    /// No answer behind this one has been replaced by a later one.
    replaced_up_to: i64,
    merge: Option<Merge>,
}

/// A merge under way.
#[derive(Debug)]
struct Merge {
    /// It merges the answers up to this one.
    up_to: i64,
    /// The entries that are not in the table yet, in its order, the last one first.
    left: Vec<Entry>,
}

/// Entries to be merged with the next commit.
#[derive(Debug)]
struct Slice {
    entries: Vec<Entry>,
    /// With them, all answers up to this one are in the table.
    completes: Option<i64>,
}

impl Index {
    /// Adds an answer that has arrived, in this process or another.
    fn add(&mut self, (fingerprint, seq): Entry) {
        self.indexed_up_to = self.indexed_up_to.max(seq);
        if *self.tail.entry(fingerprint).or_insert(seq) != seq {
            self.duplicates.insert((fingerprint, seq));
        }
    }

    /// Forgets the answers behind this one: they were not stored after all, and others may get
    /// their numbers.
    fn forget_after(&mut self, last: i64) {
        self.keep(|seq| seq <= last);
        self.indexed_up_to = self.indexed_up_to.min(last);
    }

    /// This answer is replaced by a later one.
    fn add_replaced(&mut self, seq: i64) {
        self.replaced_up_to = self.replaced_up_to.max(seq);
    }

    /// The answers with this fingerprint that are in memory.
    fn seqs(&self, fingerprint: i64) -> impl Iterator<Item = i64> {
        let all = (fingerprint, i64::MIN)..=(fingerprint, i64::MAX);
        let others = (!self.duplicates.is_empty()).then(|| self.duplicates.range(all));
        let one = self.tail.get(&fingerprint).copied();
        let others = others.into_iter().flatten().map(|(_, seq)| *seq);
        one.into_iter().chain(others)
    }

    /// Keeps only the answers for which this holds.
    fn keep(&mut self, is_kept: impl Fn(i64) -> bool) {
        self.tail.retain(|_, seq| is_kept(*seq));
        self.duplicates.retain(|(_, seq)| is_kept(*seq));
        if let Some(merge) = &mut self.merge {
            merge.left.retain(|(_, seq)| is_kept(*seq));
        }
    }

    /// Takes over how far the table has come, perhaps by another process.
    fn set_table(&mut self, merged_up_to: i64, replaced_up_to: i64) {
        self.add_replaced(replaced_up_to);
        if merged_up_to > self.merged_up_to {
            self.merged_up_to = merged_up_to;
            self.indexed_up_to = self.indexed_up_to.max(merged_up_to);
            self.keep(|seq| seq > merged_up_to);
            self.merge = None;
        }
    }

    /// What is merged with the next commit, if many are in memory.
    fn next_slice(&mut self) -> Option<Slice> {
        if self.merge.is_none() && self.tail.len() >= MAX_TAIL {
            let tail = self.tail.iter();
            let tail = tail.map(|(fingerprint, seq)| (*fingerprint, *seq));
            let mut left: Vec<_> = tail.chain(self.duplicates.iter().copied()).collect();
            left.sort_unstable_by(|one, other| other.cmp(one));
            let up_to = self.indexed_up_to;
            self.merge = Some(Merge { up_to, left });
        }
        let Merge { up_to, left } = self.merge.as_ref()?;
        let entries: Vec<_> = left.iter().rev().take(MERGED_PER_COMMIT).copied().collect();
        Some(Slice {
            completes: (entries.len() < MERGED_PER_COMMIT).then_some(*up_to),
            entries,
        })
    }

    /// A slice is in the table, durably.
    fn merged_slice(&mut self, slice: &Slice) {
        if let Some(up_to) = slice.completes {
            self.set_table(up_to, self.replaced_up_to);
        } else if let Some(merge) = &mut self.merge {
            let left = merge.left.len().saturating_sub(slice.entries.len());
            merge.left.truncate(left);
        }
    }
}

/// Finds answers over one connection.
#[derive(Default)]
struct Finder {
    /// All connections of the process share it.
    index: Arc<Mutex<Index>>,
    /// The answers that were read ahead last, by fingerprint, and those before them.
    ahead: HashMap<i64, Stored>,
    ahead_before: HashMap<i64, Stored>,
    /// The last answer that was read ahead.
    read_up_to: i64,
    /// The answer that was found last through the index.
    last_found: i64,
}

impl Finder {
    fn index(&self) -> MutexGuard<'_, Index> {
        lock(&self.index)
    }

    /// Indexes the answers that any process has stored since the last time, and at first all that
    /// are not in the table.
    fn catch_up(&self, connection: &Connection) -> rusqlite::Result<()> {
        let (merged, replaced) = connection
            .prepare_cached("SELECT up_to, replaced_up_to FROM merged")?
            .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let mut index = self.index();
        index.set_table(merged, replaced);
        let mut new =
            connection.prepare_cached("SELECT fp, seq FROM answers WHERE seq > ? ORDER BY seq")?;
        let mut rows = new.query([index.indexed_up_to])?;
        while let Some(row) = rows.next()? {
            index.add((row.get(0)?, row.get(1)?));
        }
        Ok(())
    }

    /// What is stored for a request.
    fn find(
        &mut self,
        connection: &Connection,
        scope: &Scope,
        key: &RequestKey,
    ) -> rusqlite::Result<LookupResult> {
        if let Some(found) = self.find_ahead(scope, key) {
            return Ok(found);
        }
        let seqs = self.seqs(connection, key.fingerprint())?;
        let Some(latest) = seqs.first().copied() else {
            return Ok(LookupResult::default());
        };
        let mut seqs = seqs.into_iter();
        let mut load = connection.prepare_cached(
            "SELECT fp, seq, at, price, sealed FROM answers WHERE seq = ? AND length(sealed) <> 8",
        )?;
        let found = scope.judge(key, || {
            for seq in seqs.by_ref() {
                // It was discarded, or another connection has just stored it and this one may not
                // see it yet.
                if let Some(stored) = load.query_row([seq], stored).optional()? {
                    return Ok(Some(stored));
                }
            }
            Ok::<_, rusqlite::Error>(None)
        })?;
        drop(load);
        self.read_ahead(connection, latest)?;
        Ok(found)
    }

    /// Looks among the answers that were read ahead. Without the index, only an answer that no
    /// later one has replaced is right.
    fn find_ahead(&self, scope: &Scope, key: &RequestKey) -> Option<LookupResult> {
        let fingerprint = &key.fingerprint();
        let found = self.ahead.get(fingerprint);
        let stored = found.or_else(|| self.ahead_before.get(fingerprint))?;
        // The index knows whether an answer of the run itself has replaced another one.
        let replaces = scope.not_before != i64::MIN && stored.at >= scope.started;
        if replaces || stored.seq <= self.index().replaced_up_to {
            return None;
        }
        let mut only = Some(stored.clone());
        let judged = scope.judge(key, || Ok::<_, ()>(only.take())).ok()?;
        // There may be an answer before a failure.
        matches!(judged.result, Some(KnownResult::Answer(_))).then_some(judged)
    }

    /// All answers to a request, the latest first.
    fn seqs(&self, connection: &Connection, fingerprint: i64) -> rusqlite::Result<Vec<i64>> {
        let index = self.index();
        let mut seqs: Vec<_> = index.seqs(fingerprint).collect();
        let has_table = index.merged_up_to > 0 || index.merge.is_some();
        drop(index);
        if has_table {
            let mut find = connection.prepare_cached("SELECT seq FROM idx WHERE fp = ?")?;
            for seq in find.query_map([fingerprint], |row| row.get(0))? {
                seqs.push(seq?);
            }
        }
        seqs.sort_unstable_by(|one, other| other.cmp(one));
        seqs.dedup();
        Ok(seqs)
    }

    /// An answer was found through the index: if it is near the last one, the answers that follow
    /// are read.
    fn read_ahead(&mut self, connection: &Connection, seq: i64) -> rusqlite::Result<()> {
        let is_near = (seq - self.last_found).abs() <= READ_AHEAD;
        self.last_found = seq;
        // Answers shortly before the last one that was read only come out of turn.
        if !is_near || (seq <= self.read_up_to && seq > self.read_up_to - 2 * READ_AHEAD) {
            return Ok(());
        }
        let continues = seq > self.read_up_to && seq <= self.read_up_to + READ_AHEAD;
        let from = if continues { self.read_up_to } else { seq };
        self.ahead_before = mem::take(&mut self.ahead);
        let mut read = connection.prepare_cached(
            "SELECT fp, seq, at, price, sealed FROM answers WHERE seq > ? ORDER BY seq LIMIT ?",
        )?;
        let mut rows = read.query(params![from, READ_AHEAD])?;
        while let Some(row) = rows.next()? {
            let stored = stored(row)?;
            self.read_up_to = stored.seq;
            self.ahead.insert(stored.fingerprint, stored);
        }
        Ok(())
    }
}

fn stored(row: &Row<'_>) -> rusqlite::Result<Stored> {
    Ok(Stored {
        fingerprint: row.get(0)?,
        seq: row.get(1)?,
        at: row.get(2)?,
        price: row.get(3)?,
        sealed: row.get(4)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_answer_is_in_memory_or_in_the_table_at_every_step_of_a_merge() {
        let mut index = Index::default();
        let fingerprint = |seq: i64| seq.wrapping_mul(0x5851_f42d_4c95_7f2d);
        let mut table = BTreeSet::new();
        let (mut seq, mut slices) = (0, 0);
        for _ in 0..10 * MAX_TAIL / 48 {
            for _ in 0..48 {
                seq += 1;
                index.add((fingerprint(seq), seq));
            }
            if let Some(slice) = index.next_slice() {
                // A commit that fails is tried again with the same slice.
                assert_eq!(index.next_slice().unwrap().entries, slice.entries);
                table.extend(slice.entries.iter().copied());
                index.merged_slice(&slice);
                slices += 1;
            }
        }
        assert!(slices > 40 && index.merged_up_to > 0);
        for seq in 1..=seq {
            let seqs: Vec<_> = index.seqs(fingerprint(seq)).collect();
            let is_merged = table.contains(&(fingerprint(seq), seq));
            assert!(seqs == [seq] || is_merged, "{seq}");
            assert!(is_merged || seq > index.merged_up_to, "{seq}");
        }
        assert!(index.tail.len() < 3 * MAX_TAIL);
        index.forget_after(seq - 48);
        assert_eq!(
            (index.indexed_up_to, index.seqs(fingerprint(seq)).next()),
            (seq - 48, None)
        );
    }
}
