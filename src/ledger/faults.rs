//! A store that fails when a test says so, around the real one; one that hangs; and look-ups that fail.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::key::RequestKey;
use super::known_limit::KnownLimit;
use super::outcome::LookupResult;
use super::outputs::OutputState;
use super::store::{ClaimResult, LeaseRenewal, Lookup, OutputRecorder, RunEnd, Store, Work};
use crate::base::error::{Error, Result};

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
pub(super) struct FailingStore {
    pub(super) store: Box<dyn Store>,
    pub(super) faults: StoreFaults,
    pub(super) groups: usize,
}

impl Store for FailingStore {
    fn lookup(&self) -> Result<Box<dyn Lookup>> {
        self.store.lookup()
    }

    fn output_state(&mut self, file: &Path, input: Option<&Path>) -> Result<OutputState> {
        self.store.output_state(file, input)
    }

    fn output_recorder(&self) -> OutputRecorder {
        self.store.output_recorder()
    }

    fn start(&mut self) -> Result<()> {
        self.store.start()
    }

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

    fn renew(&mut self, calls: u64) -> io::Result<LeaseRenewal> {
        self.store.renew(calls)
    }

    fn given_up(&self) -> Option<Error> {
        self.store.given_up()
    }

    fn set_limit(&mut self, latest: KnownLimit) {
        self.store.set_limit(latest);
    }

    fn leave(&mut self, calls: u64) {
        self.store.leave(calls);
    }

    fn end(&mut self, end: RunEnd) {
        self.store.end(end);
    }
}

/// A disk that never answers, such as that of a file server that is gone.
pub(super) struct HangingStore;

impl Store for HangingStore {
    fn lookup(&self) -> Result<Box<dyn Lookup>> {
        Err(Error::internal("it hangs"))
    }

    fn output_state(&mut self, _: &Path, _: Option<&Path>) -> Result<OutputState> {
        Ok(OutputState::Absent)
    }

    fn output_recorder(&self) -> OutputRecorder {
        Arc::new(|_, _| Ok(()))
    }

    fn start(&mut self) -> Result<()> {
        Ok(())
    }

    fn write(&mut self, work: Work<'_>) -> io::Result<Vec<ClaimResult>> {
        while !work.records.is_empty() {
            std::thread::park();
        }
        let ours = ClaimResult::Ours { taken_over: false };
        Ok(vec![ours; work.claims.len()])
    }

    fn renew(&mut self, _: u64) -> io::Result<LeaseRenewal> {
        Ok(LeaseRenewal::Kept)
    }

    fn given_up(&self) -> Option<Error> {
        None
    }

    fn set_limit(&mut self, _: KnownLimit) {}

    fn leave(&mut self, _: u64) {}

    fn end(&mut self, _: RunEnd) {}
}

/// The real look-ups, with faults.
pub(crate) struct FailingLookup {
    pub(crate) lookup: Box<dyn Lookup>,
    pub(crate) faults: StoreFaults,
    pub(crate) reads: usize,
}

impl Lookup for FailingLookup {
    fn look_up(&mut self, keys: &[RequestKey]) -> Result<Vec<LookupResult>> {
        self.reads += 1;
        if self.faults.fails(self.reads) {
            return Err(Error::stopped("cannot read the ledger")
                .because(io::Error::other("the disk failed")));
        }
        self.lookup.look_up(keys)
    }
}
