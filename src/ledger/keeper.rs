//! Paid answers on their way to the disk, in groups: while one group is synced, the next one gathers.
//!
//! A thread of its own writes; whoever brings an answer waits until it is durable. A failed sync is never tried again: what the system says of the disk after
//! one cannot be trusted.

use std::cell::RefCell;
use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use tokio::sync::oneshot;

use super::failures::SealedFailure;
use super::key::{Key, Keys};
use super::limits;
use super::lookup::{Found, Lookup};
use super::millis;
use super::queue::{Entrance, Exit, queue};
use super::seen::Seen;
use crate::base::error::{Error, Result};
use crate::telemetry::pace::Limit;
use crate::verdict::{Answer, Failure};

/// What became of a request, to keep.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) key: Key,
    pub(super) what: Kept,
    /// When it came, in milliseconds since 1970.
    pub(super) at: i64,
}

#[derive(Debug)]
pub(super) enum Kept {
    Answer(Answer),
    Failure(SealedFailure),
}

/// Where groups of answers become durable.
pub(super) trait Store: Send {
    /// Returns when all of them are, or none.
    fn commit(&mut self, group: &[Record]) -> io::Result<()>;

    /// The service has shown another limit, or that there is none.
    fn found(&mut self, latest: limits::Known);

    /// The service has failed over these.
    fn failed(&mut self, keys: Vec<Key>);

    /// The run is over; what is noted of it where it came to the end of its input.
    fn end(&mut self, finished: Option<Finished>);

    /// How many answers there are.
    fn count(&self) -> Option<Counted>;
}

/// How a run came to the end of its input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Finished {
    /// Rows without a verdict, whose number may be 0: there is nothing to come back to.
    pub(crate) failed_rows: u64,
    /// Of them, those that a call was made for.
    pub(crate) failed_calls: u64,
}

/// The calls' side of a ledger.
pub struct Keeper {
    keys: Keys,
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
    news: Mutex<News>,
}

/// What it has not heard yet.
#[derive(Default)]
struct News {
    limit: Option<limits::Known>,
    failed: Vec<Key>,
    finished: Option<Finished>,
}

impl Told {
    fn news(&self) -> MutexGuard<'_, News> {
        // A panic beside it cannot leave it half written.
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is to be kept, and who waits for it to be durable.
type Brought = (Record, oneshot::Sender<Result<Kept>>);

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
        keys: Keys,
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
                keys,
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
        match self.put(key, Kept::Answer(answer)).await? {
            Kept::Answer(answer) => Ok(answer),
            Kept::Failure(_) => Err(gone()),
        }
    }

    /// Keeps that the request with this key and body is not to be sent again in this run; returns when that is durable.
    ///
    /// # Errors
    /// As [`Self::keep`].
    pub(crate) async fn keep_failure(
        &self,
        key: Key,
        body: &[u8],
        failure: &Failure,
    ) -> Result<()> {
        let sealed = SealedFailure::new(&self.keys, &key, body, failure);
        self.put(key, Kept::Failure(sealed)).await?;
        self.again.borrow_mut().lookup.expect_failures();
        Ok(())
    }

    async fn put(&self, key: Key, what: Kept) -> Result<Kept> {
        let record = Record {
            key,
            what,
            at: millis(SystemTime::now()).max(self.earliest),
        };
        let (done, kept) = oneshot::channel();
        self.records.put((record, done)).map_err(|_| gone())?;
        let what = kept.await.map_err(|_| gone())??;
        self.again.borrow_mut().seen.insert(&key);
        Ok(what)
    }

    /// Looks for what has become of a request since its row was looked up: in this run or, in a shared ledger, in
    /// another.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub(crate) fn look_again(&self, key: &Key, body: &[u8]) -> Result<Option<(Found, Whose)>> {
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
        let found = lookup.find(key, body)?;
        Ok(found.known.is_some().then_some((found, whose)))
    }

    /// Has looking again fail from now on as said.
    #[cfg(test)]
    pub(crate) fn fail_to_look(&self, fails: super::Fails) {
        self.again.borrow_mut().lookup.fail(fails);
    }

    /// Has the ledger know that the run has come to the end of its input, once its answers are durable: what is written
    /// to the same output after it is another run.
    pub(crate) fn finish(&self, finished: Finished) {
        self.told.news().finished = Some(finished);
    }

    /// Has the ledger remember what the service was found to bear just now, with the next answers or at the end.
    pub fn found(&self, limit: Limit) {
        let found = SystemTime::now();
        self.told.news().limit = Some(limits::Known { limit, found });
    }

    /// Has the ledger remember that the service failed over this while it answered others, with the next answers or at
    /// the end.
    pub fn failed(&self, key: Key) {
        self.told.news().failed.push(key);
    }

    /// Whether others write to the ledger as well.
    #[must_use]
    pub(crate) fn is_shared(&self) -> bool {
        self.again.borrow().shared
    }
}

/// Which run an answer came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whose {
    /// This one.
    Ours,
    /// Another one that writes to the same ledger.
    Others,
}

fn gone() -> Error {
    Error::internal("the ledger's thread ended without a word")
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
                None => Ok(record.what),
                Some(error) => Err(cannot_keep(name, error)),
            };
            // Whoever brought it may have been given up; it is kept all the same.
            let _ = done.send(result);
        }
    }
    // What a disk says after a failure cannot be trusted.
    if broken.is_none() {
        let finished = hear(&mut store, told);
        store.end(finished);
    }
    store.count()
}

/// Passes on what was told; how the run finished, where it has.
fn hear(store: &mut impl Store, told: &Told) -> Option<Finished> {
    let News {
        limit,
        failed,
        finished,
    } = std::mem::take(&mut *told.news());
    if let Some(limit) = limit {
        store.found(limit);
    }
    if !failed.is_empty() {
        store.failed(failed);
    }
    finished
}

fn cannot_keep(name: &Path, error: &io::Error) -> Error {
    Error::stopped(format!("cannot keep answers in `{}`", name.display()))
        .because(io::Error::new(error.kind(), error.to_string()))
        .about(name)
}
