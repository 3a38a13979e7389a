//! A store that fails as a test says, around the real one, and one that hangs; and look-ups that fail.

use std::io;

use super::keeper::{Counted, Finished, Record, Store};
use super::limits::Known;
use super::request_key::RequestKey;

/// When and how keeping answers or looking them up fails.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fails {
    /// Which group of answers or which read fails first, from 1; none does at 0.
    pub(crate) nth: usize,
    /// Whether all later ones do as well.
    pub(crate) for_ever: bool,
    /// Whether the group is durable all the same, as when only the last word of the disk got lost.
    pub(crate) durable: bool,
    /// With this; a read always fails as the disk does.
    pub(crate) kind: io::ErrorKind,
}

impl Fails {
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

pub(super) struct Failing<S> {
    store: S,
    fails: Fails,
    groups: usize,
}

impl<S> Failing<S> {
    pub(super) const fn new(store: S, fails: Fails) -> Self {
        Self {
            store,
            fails,
            groups: 0,
        }
    }
}

impl<S: Store> Store for Failing<S> {
    fn commit(&mut self, group: &[Record]) -> io::Result<()> {
        self.groups += 1;
        if !self.fails.fails(self.groups) {
            return self.store.commit(group);
        }
        if self.fails.durable {
            self.store.commit(group)?;
        }
        Err(self.fails.kind.into())
    }

    fn found(&mut self, latest: Known) {
        self.store.found(latest);
    }

    fn failed(&mut self, keys: Vec<RequestKey>) {
        self.store.failed(keys);
    }

    fn end(&mut self, finished: Option<Finished>) {
        self.store.end(finished);
    }

    fn count(&self) -> Option<Counted> {
        self.store.count()
    }
}

/// Reads of a look-up, counted.
pub(super) struct FailingReads {
    fails: Fails,
    reads: usize,
}

impl Default for FailingReads {
    fn default() -> Self {
        Self::new(Fails::NEVER)
    }
}

impl FailingReads {
    pub(super) const fn new(fails: Fails) -> Self {
        Self { fails, reads: 0 }
    }

    pub(super) fn read(&mut self) -> rusqlite::Result<()> {
        self.reads += 1;
        if self.fails.fails(self.reads) {
            let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_IOERR_READ);
            return Err(rusqlite::Error::SqliteFailure(code, None));
        }
        Ok(())
    }
}

/// A disk that never answers, as that of a file server that is gone.
pub(super) struct Hanging;

impl Store for Hanging {
    fn commit(&mut self, _: &[Record]) -> io::Result<()> {
        loop {
            std::thread::park();
        }
    }

    fn found(&mut self, _: Known) {}

    fn failed(&mut self, _: Vec<RequestKey>) {}

    fn end(&mut self, _: Option<Finished>) {}

    fn count(&self) -> Option<Counted> {
        None
    }
}
