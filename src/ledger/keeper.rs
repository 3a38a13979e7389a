//! Paid answers on their way to the disk, in groups: while one group is synced, the next one gathers.
//!
//! A thread of its own writes; whoever brings an answer waits until it is durable. A failed sync is never tried again: what the system says of the disk after
//! one cannot be trusted.

use std::cell::RefCell;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use rusqlite::{Connection, TransactionBehavior, params};
use tokio::sync::oneshot;

use super::file::Identity;
use super::key::Key;
use super::limits::{Finding, Known};
use super::lookup::{Found, Lookup};
use super::queue::{Entrance, Exit, queue};
use super::run::Run;
use super::seen::Seen;
use super::{millis, poison, sqlite};
use crate::error::{Error, Result};
use crate::event::Limit;
use crate::verdict::Answer;

/// An answer to keep.
#[derive(Debug)]
pub(super) struct Record {
    key: Key,
    answer: Answer,
    /// When it came, in milliseconds since 1970.
    at: i64,
}

/// Where groups of answers become durable.
pub(super) trait Store: Send {
    /// Returns when all of them are, or none.
    fn commit(&mut self, group: &[Record]) -> io::Result<()>;

    /// The service has shown another limit, or that there is none.
    fn found(&mut self, latest: Known);

    /// The service has failed over these.
    fn failed(&mut self, keys: Vec<Key>);

    /// The run is over; it is `finished` when it came to the end of its input.
    fn end(&mut self, finished: bool);

    /// How many answers there are.
    fn count(&self) -> Option<Counted>;
}

/// The calls' side of a ledger.
pub struct Keeper {
    // Closed before the thread is let go: of two connections that close together, neither is the last one, which alone
    // puts the log into the ledger.
    again: RefCell<Again>,
    /// No answer that comes now is from before, in milliseconds since 1970.
    earliest: i64,
    records: Entrance<Brought>,
    told: Arc<Told>,
}

/// What the thread that writes is told besides answers, for when it looks.
#[derive(Default)]
struct Told {
    finished: AtomicBool,
    news: Mutex<News>,
}

/// What it has not heard yet.
#[derive(Default)]
struct News {
    limit: Option<Known>,
    failed: Vec<Key>,
}

impl Told {
    fn news(&self) -> MutexGuard<'_, News> {
        // A panic beside it cannot leave it half written.
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An answer, and who waits for it to be durable.
type Brought = (Record, oneshot::Sender<Result<Answer>>);

/// What is looked up once more just before a call.
struct Again {
    lookup: Lookup,
    seen: Seen,
    /// Others write to the ledger as well, so that only the ledger itself can tell.
    shared: bool,
}

/// What came of the thread that writes.
pub(super) struct Ended {
    /// Answers that there are now; `None` when that cannot be told.
    pub(super) counted: Option<Counted>,
}

/// How many answers there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counted {
    /// Of the address and service id at hand.
    pub(super) ours: u64,
    /// Of all.
    pub(super) all: u64,
}

impl Keeper {
    /// Starts the thread, for which `enough` answers wait no longer for more; its end is told to the receiver when the keeper is gone.
    pub(super) fn start(
        store: impl Store + 'static,
        name: &Path,
        lookup: Lookup,
        shared: bool,
        enough: usize,
    ) -> Result<(Self, Receiver<Ended>)> {
        let (entrance, records) = queue(enough);
        let (ended, end) = channel();
        let name = name.to_owned();
        let told = Arc::new(Told::default());
        let heard = Arc::clone(&told);
        std::thread::Builder::new()
            .name("ledger".to_owned())
            .spawn(move || {
                let counted = keep(store, &records, &name, &heard);
                // Nobody waits any more when the run was given up.
                let _ = ended.send(Ended { counted });
            })
            .map_err(|e| Error::stopped("cannot start a thread").because(e))?;
        let earliest = lookup.earliest();
        let again = RefCell::new(Again {
            lookup,
            seen: Seen::default(),
            shared,
        });
        Ok((
            Self {
                again,
                earliest,
                records: entrance,
                told,
            },
            end,
        ))
    }

    /// Keeps an answer, and gives it back when it is durable.
    ///
    /// # Errors
    /// Exit code 3: it could not be written; nothing can be kept any more.
    pub async fn keep(&self, key: Key, answer: Answer) -> Result<Answer> {
        let gone = || Error::internal("the ledger's thread ended without a word");
        let record = Record {
            key,
            answer,
            at: millis(SystemTime::now()).max(self.earliest),
        };
        let (done, kept) = oneshot::channel();
        self.records.put((record, done)).map_err(|_| gone())?;
        let answer = kept.await.map_err(|_| gone())??;
        self.again.borrow_mut().seen.insert(&key);
        Ok(answer)
    }

    /// Looks for an answer that has come since the row was looked up: of this run or, in a shared ledger, of another.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub fn look_again(&self, key: &Key) -> Result<Option<(Found, Whose)>> {
        let mut again = self.again.borrow_mut();
        let Again {
            lookup,
            seen,
            shared,
        } = &mut *again;
        let ours = seen.has(key);
        if !ours && !*shared {
            return Ok(None);
        }
        let whose = if ours { Whose::Ours } else { Whose::Others };
        Ok(match lookup.find(key)? {
            found @ Found {
                answer: Some(_), ..
            } => Some((found, whose)),
            Found { answer: None, .. } => None,
        })
    }

    /// Has looking again fail from now on as said.
    #[cfg(test)]
    pub(crate) fn fail_to_look(&self, fails: super::Fails) {
        self.again.borrow_mut().lookup.fail(fails);
    }

    /// Has the ledger know that the run has come to its end, once its answers are durable: what is written to the same
    /// output after it is another run.
    pub fn finish(&self) {
        self.told.finished.store(true, Ordering::Release);
    }

    /// Has the ledger remember what the service was found to bear just now, with the next answers or at the end.
    pub fn found(&self, limit: Limit) {
        let found = SystemTime::now();
        self.told.news().limit = Some(Known { limit, found });
    }

    /// Has the ledger remember that the service failed over this while it answered others, with the next answers or at
    /// the end.
    pub fn failed(&self, key: Key) {
        self.told.news().failed.push(key);
    }

    /// Whether others write to the ledger as well.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.again.borrow().shared
    }
}

/// Which run an answer came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// This one.
    Ours,
    /// Another one that writes to the same ledger.
    Others,
}

fn keep(
    mut store: impl Store,
    records: &Exit<Brought>,
    name: &Path,
    told: &Told,
) -> Option<Counted> {
    let mut broken = None;
    while let Some(brought) = records.next() {
        let (group, waiting): (Vec<_>, Vec<_>) = brought.into_iter().unzip();
        if broken.is_none() {
            hear(&mut store, told);
            broken = store.commit(&group).err();
        }
        for (record, done) in group.into_iter().zip(waiting) {
            let result = match &broken {
                None => Ok(record.answer),
                Some(error) => Err(cannot_keep(name, error)),
            };
            // Whoever brought it may have been given up; it is kept all the same.
            let _ = done.send(result);
        }
    }
    // What a disk says after a failure cannot be trusted.
    if broken.is_none() {
        hear(&mut store, told);
        store.end(told.finished.load(Ordering::Acquire));
    }
    store.count()
}

fn hear(store: &mut impl Store, told: &Told) {
    let News { limit, failed } = std::mem::take(&mut *told.news());
    if let Some(limit) = limit {
        store.found(limit);
    }
    if !failed.is_empty() {
        store.failed(failed);
    }
}

fn cannot_keep(name: &Path, error: &io::Error) -> Error {
    Error::stopped(format!("cannot keep answers in `{}`", name.display()))
        .because(io::Error::new(error.kind(), error.to_string()))
        .about(name)
}

/// A ledger's database, to write to.
pub(super) struct Database {
    connection: Connection,
    path: PathBuf,
    identity: Option<Identity>,
    context: i64,
    capture: Option<i64>,
    run: Run,
    finding: Finding,
    /// What the service failed over and is not noted yet.
    failed: Vec<Key>,
    /// Whether its answers are counted at the end. It takes a while, so nobody's but the run's own.
    counted: bool,
}

impl Database {
    pub(super) fn new(
        connection: Connection,
        path: PathBuf,
        context: i64,
        capture: Option<i64>,
        run: Run,
        counted: bool,
    ) -> Self {
        let identity = Identity::at(&path);
        Self {
            connection,
            path,
            identity,
            context,
            capture,
            run,
            finding: Finding::new(context),
            failed: Vec::new(),
            counted,
        }
    }
}

impl Database {
    /// Removes all answers, at once or not at all.
    pub(super) fn start_over(&self) -> Result<()> {
        sqlite::start_over(&self.connection).map_err(|error| {
            Error::stopped(format!("cannot empty the ledger `{}`", self.path.display()))
                .because(sqlite::system(&error))
                .about(&self.path)
        })
    }

    /// Its files have been removed on purpose.
    #[cfg(unix)]
    pub(super) fn has_no_name(&mut self) {
        self.identity = None;
    }
}

impl Database {
    fn note_failed(&mut self) -> rusqlite::Result<()> {
        if self.failed.is_empty() {
            return Ok(());
        }
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        poison::note(&transaction, self.context, &self.failed, SystemTime::now())?;
        transaction.commit()
    }
}

impl Store for Database {
    fn commit(&mut self, group: &[Record]) -> io::Result<()> {
        // A file without a name takes everything and keeps nothing.
        if Identity::at(&self.path) != self.identity {
            return Err(io::Error::other("it was removed while it was in use"));
        }
        let Self {
            connection,
            context,
            capture,
            run,
            finding,
            failed,
            ..
        } = self;
        write(connection, *context, *capture, run, finding, failed, group)
            .map_err(|error| sqlite::system(&error))?;
        run.is_noted();
        failed.clear();
        Ok(())
    }

    fn found(&mut self, latest: Known) {
        self.finding.changed(latest);
    }

    fn failed(&mut self, keys: Vec<Key>) {
        self.failed.extend(keys);
    }

    fn end(&mut self, finished: bool) {
        // Where it cannot be done, the next run looks for the limit itself.
        let _ = self.finding.end(&self.connection);
        // And it takes what fails for an outage, and waits.
        let _ = self.note_failed();
        if !finished {
            return;
        }
        // Where it cannot be done, the next run to the same output takes itself for this one and tells its changes once
        // more. That is no reason to fail with every row written.
        let _ = self.run.end(&self.connection);
    }

    fn count(&self) -> Option<Counted> {
        if !self.counted {
            return None;
        }
        Some(Counted {
            ours: sqlite::count(&self.connection, self.context).ok()?,
            all: sqlite::count_all(&self.connection).ok()?,
        })
    }
}

fn write(
    connection: &mut Connection,
    context: i64,
    capture: Option<i64>,
    run: &Run,
    finding: &mut Finding,
    failed: &[Key],
    group: &[Record],
) -> rusqlite::Result<()> {
    // An answer from before the run leaves its score behind; one that came since leaves what it had been left itself.
    const INSERT: &str = "
        INSERT INTO answers VALUES (?, ?, ?, ?, ?, ?, ?, NULL, NULL)
        ON CONFLICT (key) DO UPDATE SET
            replaced = iif(at < ?8, score, replaced),
            replaced_at = iif(at < ?8, at, replaced_at),
            transaction_id = excluded.transaction_id,
            score = excluded.score,
            capture = excluded.capture,
            captured = excluded.captured,
            at = excluded.at";
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    run.note(&transaction)?;
    finding.note(&transaction)?;
    poison::note(&transaction, context, failed, SystemTime::now())?;
    {
        let mut insert = transaction.prepare_cached(INSERT)?;
        for Record { key, answer, at } in group {
            let captured = capture.map(|_| serde_json::to_string(&answer.captured));
            insert.execute(params![
                key.0,
                context,
                answer.transaction_id.as_str(),
                answer.score.digits(),
                capture,
                captured.transpose().unwrap_or_default(),
                at,
                run.begun(),
            ])?;
        }
    }
    transaction.commit()
}
