//! How the ledger's thread and look-ups fail when a test says so.

use std::io;

use super::fault::{DbFault, DbFaultKind};
use crate::base::error::{Error, Result as RunResult};

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
}

/// The faults of one thread, and how many groups or reads it has had.
pub(super) struct GroupFaults {
    /// Without any, nothing is ever answered, as by a file server that is gone.
    faults: Option<StoreFaults>,
    groups: usize,
}

impl GroupFaults {
    pub(super) const NONE: Self = Self::new(Some(StoreFaults::NEVER));

    pub(super) const fn new(faults: Option<StoreFaults>) -> Self {
        Self { faults, groups: 0 }
    }

    /// The faults, if the present group or read fails.
    fn now(&self) -> Option<StoreFaults> {
        let is_now = |faults: &StoreFaults| {
            let StoreFaults { nth, for_ever, .. } = *faults;
            nth != 0 && (nth == self.groups || (nth < self.groups && for_ever))
        };
        self.faults.filter(is_now)
    }

    /// Before and after a group with answers is stored. One that only claims fails with the next one that stores something.
    pub(super) fn check_group(&mut self, is_stored: bool) -> Result<(), DbFault> {
        while self.faults.is_none() {
            std::thread::park();
        }
        self.groups += usize::from(!is_stored);
        match self.now() {
            Some(faults) if faults.durable == is_stored => {
                Err(if faults.kind == io::ErrorKind::StorageFull {
                    DbFault::no_space()
                } else {
                    DbFault::new(DbFaultKind::Other, "the disk failed")
                })
            }
            _ => Ok(()),
        }
    }

    pub(super) fn check_read(&mut self) -> RunResult<()> {
        self.groups += 1;
        match self.now() {
            Some(_) => Err(Error::stopped("cannot read the ledger")
                .because(io::Error::other("the disk failed"))),
            None => Ok(()),
        }
    }
}
