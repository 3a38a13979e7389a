//! A store that fails when a test says so, around the real one; one that hangs; lookups that fail; and a disk that is full.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::Connection;
use rusqlite::functions::FunctionFlags;

use super::known_limit::KnownLimit;
use super::store::{AnswerCounts, ClaimResult, LeaseRenewal, RunEnd, Store, Work};

/// When and how storing answers or looking them up fails.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StoreFaults {
    /// Which group of answers or which read fails first, from 1; none does at 0.
    pub(crate) nth: usize,
    /// Whether all later ones fail as well.
    pub(crate) for_ever: bool,
    /// Whether the group is durable all the same, as when only the disk's confirmation was lost.
    pub(crate) durable: bool,
    /// The error; a read always fails as a disk does.
    pub(crate) kind: io::ErrorKind,
}

impl StoreFaults {
    pub(crate) const NEVER: Self = Self {
        nth: 0,
        for_ever: false,
        durable: false,
        kind: io::ErrorKind::Other,
    };

    const fn fails(self, nth: usize) -> bool {
        self.nth != 0 && (nth == self.nth || (nth > self.nth && self.for_ever))
    }
}

/// The real store, with faults.
pub(super) struct FailingStore<S> {
    store: S,
    faults: StoreFaults,
    groups: usize,
}

impl<S> FailingStore<S> {
    pub(super) const fn new(store: S, faults: StoreFaults) -> Self {
        Self {
            store,
            faults,
            groups: 0,
        }
    }
}

impl<S: Store> Store for FailingStore<S> {
    fn write(&mut self, work: Work<'_>) -> io::Result<Vec<ClaimResult>> {
        // A group that only claims fails with the next one that stores something.
        self.groups += usize::from(!work.records.is_empty());
        if work.records.is_empty() || !self.faults.fails(self.groups) {
            return self.store.write(work);
        }
        if self.faults.durable {
            self.store.write(work)?;
        }
        Err(self.faults.kind.into())
    }

    fn renew(&mut self) -> io::Result<LeaseRenewal> {
        self.store.renew()
    }

    fn set_limit(&mut self, latest: KnownLimit) {
        self.store.set_limit(latest);
    }

    fn leave(&mut self, end: RunEnd) {
        self.store.leave(end);
    }

    fn end(&mut self, end: RunEnd) {
        self.store.end(end);
    }

    fn count(&self) -> Option<AnswerCounts> {
        self.store.count()
    }
}

/// Reads of a lookup, counted.
pub(super) struct FailingReads {
    faults: StoreFaults,
    reads: usize,
}

impl Default for FailingReads {
    fn default() -> Self {
        Self::new(StoreFaults::NEVER)
    }
}

impl FailingReads {
    pub(super) const fn new(faults: StoreFaults) -> Self {
        Self { faults, reads: 0 }
    }

    pub(super) fn read(&mut self) -> rusqlite::Result<()> {
        self.reads += 1;
        if self.faults.fails(self.reads) {
            let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_IOERR_READ);
            return Err(rusqlite::Error::SqliteFailure(code, None));
        }
        Ok(())
    }
}

/// A disk that never answers, such as that of a file server that is gone.
pub(super) struct HangingStore;

impl Store for HangingStore {
    fn write(&mut self, work: Work<'_>) -> io::Result<Vec<ClaimResult>> {
        while !work.records.is_empty() {
            std::thread::park();
        }
        let ours = ClaimResult::Ours { taken_over: false };
        Ok(vec![ours; work.claims.len()])
    }

    fn renew(&mut self) -> io::Result<LeaseRenewal> {
        Ok(LeaseRenewal::NewWorker)
    }

    fn set_limit(&mut self, _: KnownLimit) {}

    fn leave(&mut self, _: RunEnd) {}

    fn end(&mut self, _: RunEnd) {}

    fn count(&self) -> Option<AnswerCounts> {
        None
    }
}

/// Has the disk be full for the next answers that are written to a ledger, and have space when they are written again.
pub(super) fn fill_disk_once(connection: &Connection) -> rusqlite::Result<()> {
    let is_full = AtomicBool::new(true);
    connection.create_scalar_function("disk", 0, FunctionFlags::default(), move |_| {
        if is_full.swap(false, Ordering::Relaxed) {
            let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_FULL);
            return Err(rusqlite::Error::SqliteFailure(code, None));
        }
        Ok(0)
    })?;
    connection.execute_batch(
        "CREATE TEMP TRIGGER full_disk BEFORE INSERT ON main.answer_blocks BEGIN SELECT disk(); END",
    )
}
