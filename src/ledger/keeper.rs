//! Paid answers on their way to the disk, in groups: while one group is synced, the next one gathers.
//!
//! A thread of its own writes; whoever brings an answer waits until it is durable. A failed sync is never tried again: what the system says of the disk after
//! one cannot be trusted.

use std::cell::RefCell;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::time::{SystemTime, UNIX_EPOCH};

use rusqlite::{Connection, TransactionBehavior, params};
use tokio::sync::oneshot;

use super::file::Identity;
use super::key::Key;
use super::lookup::{Found, Lookup};
use super::queue::{Entrance, Exit, queue};
use super::seen::Seen;
use super::sqlite;
use crate::error::{Error, Result};
use crate::verdict::Answer;

/// An answer to keep.
#[derive(Debug)]
pub(super) struct Record {
    key: Key,
    answer: Answer,
    /// When it came, in seconds since 1970.
    at: i64,
}

/// Where groups of answers become durable.
pub(super) trait Store: Send {
    /// Returns when all of them are, or none.
    fn commit(&mut self, group: &[Record]) -> io::Result<()>;

    /// How many answers there are.
    fn count(&self) -> Option<Counted>;
}

/// The calls' side of a ledger.
pub struct Keeper {
    // Closed before the thread is let go: of two connections that close together, neither is the last one, which alone
    // puts the log into the ledger.
    again: RefCell<Again>,
    /// Answers from before are too old, in seconds since 1970.
    not_before: i64,
    records: Entrance<Brought>,
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
        std::thread::Builder::new()
            .name("ledger".to_owned())
            .spawn(move || {
                let counted = keep(store, &records, &name);
                // Nobody waits any more when the run was given up.
                let _ = ended.send(Ended { counted });
            })
            .map_err(|e| Error::stopped("cannot start a thread").because(e))?;
        let not_before = lookup.not_before();
        let again = RefCell::new(Again {
            lookup,
            seen: Seen::default(),
            shared,
        });
        Ok((
            Self {
                again,
                not_before,
                records: entrance,
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
        let at = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |time| time.as_secs());
        let at = i64::try_from(at).unwrap_or(i64::MAX);
        let record = Record {
            key,
            answer,
            // Whatever the clock does meanwhile: what comes now is not too old for this run.
            at: at.max(self.not_before),
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
    pub fn look_again(&self, key: &Key) -> Result<Option<(Answer, Whose)>> {
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
            Found::Current(answer) => Some((answer, whose)),
            Found::Aged(_) | Found::Nothing => None,
        })
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

fn keep(mut store: impl Store, records: &Exit<Brought>, name: &Path) -> Option<Counted> {
    let mut broken = None;
    while let Some(brought) = records.next() {
        let (group, waiting): (Vec<_>, Vec<_>) = brought.into_iter().unzip();
        if broken.is_none() {
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
    store.count()
}

fn cannot_keep(name: &Path, error: &io::Error) -> Error {
    Error::stopped(format!("cannot keep answers in `{}`", name.display()))
        .because(io::Error::new(error.kind(), error.to_string()))
}

/// A ledger's database, to write to.
pub(super) struct Database {
    connection: Connection,
    path: PathBuf,
    identity: Option<Identity>,
    context: i64,
    capture: Option<i64>,
    /// Whether its answers are counted at the end. It takes a while, so nobody's but the run's own.
    counted: bool,
}

impl Database {
    pub(super) fn new(
        connection: Connection,
        path: PathBuf,
        context: i64,
        capture: Option<i64>,
        counted: bool,
    ) -> Self {
        let identity = Identity::at(&path);
        Self {
            connection,
            path,
            identity,
            context,
            capture,
            counted,
        }
    }
}

impl Database {
    /// Its files have been removed on purpose.
    #[cfg(unix)]
    pub(super) fn has_no_name(&mut self) {
        self.identity = None;
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
            ..
        } = self;
        write(connection, *context, *capture, group).map_err(|error| sqlite::system(&error))
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
    group: &[Record],
) -> rusqlite::Result<()> {
    const INSERT: &str = "INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?, ?, ?, ?)";
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
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
            ])?;
        }
    }
    transaction.commit()
}
