//! A database that fails or hangs when a test says so, around the real one; and look-ups that fail.

use std::io;

use super::database::{ClaimResult, Database, Dialect, Lookup, Query, TableRow, WriteGroup};
use super::fault::{DbFault, DbFaultKind};
use super::key::RequestKey;
use super::outcome::{LookupResult, Scope};
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

    const fn fails(self, nth: usize) -> bool {
        self.nth != 0 && (nth == self.nth || (nth > self.nth && self.for_ever))
    }
}

/// The real database, with faults.
pub(super) struct FailingDatabase {
    database: Box<dyn Database>,
    /// Without any, it never answers, as that of a file server that is gone.
    faults: Option<StoreFaults>,
    groups: usize,
}

impl FailingDatabase {
    pub(super) fn around(
        database: Box<dyn Database>,
        faults: Option<StoreFaults>,
    ) -> Box<dyn Database> {
        Box::new(Self {
            database,
            faults,
            groups: 0,
        })
    }
}

impl Database for FailingDatabase {
    fn dialect(&self) -> &'static Dialect {
        self.database.dialect()
    }

    fn read(&mut self, queries: &str) -> Result<Vec<TableRow>, DbFault> {
        self.database.read(queries)
    }

    fn transaction(
        &mut self,
        durable: bool,
        work: &mut dyn FnMut(&mut Query<'_>) -> Result<(), DbFault>,
    ) -> Result<(), DbFault> {
        self.database.transaction(durable, work)
    }

    fn store(&mut self, group: &WriteGroup<'_>) -> Result<Vec<ClaimResult>, DbFault> {
        // A group that only claims fails with the next one that stores something.
        self.groups += usize::from(!group.records.is_empty());
        let faults = self.faults.unwrap_or(StoreFaults::NEVER);
        while self.faults.is_none() && !group.records.is_empty() {
            std::thread::park();
        }
        if group.records.is_empty() || !faults.fails(self.groups) {
            return self.database.store(group);
        }
        if faults.durable {
            self.database.store(group)?;
        }
        Err(if faults.kind == io::ErrorKind::StorageFull {
            DbFault::no_space()
        } else {
            DbFault::new(DbFaultKind::Other, "the disk failed")
        })
    }

    fn lookup(&self, scope: Scope) -> Result<Box<dyn Lookup>, DbFault> {
        self.database.lookup(scope)
    }

    fn rewrite(&mut self) -> Result<(), DbFault> {
        self.database.rewrite()
    }

    fn run_starts(&mut self) {
        self.database.run_starts();
    }

    fn is_full(&self) -> bool {
        self.database.is_full()
    }

    fn answers_end(&mut self) {
        self.database.answers_end();
    }
}

/// The real look-ups, with faults.
pub(crate) struct FailingLookup {
    pub(crate) lookup: Box<dyn Lookup>,
    pub(crate) faults: StoreFaults,
    pub(crate) reads: usize,
}

impl Lookup for FailingLookup {
    fn look_up(&mut self, keys: &[RequestKey]) -> RunResult<Vec<LookupResult>> {
        self.reads += 1;
        if self.faults.fails(self.reads) {
            return Err(Error::stopped("cannot read the ledger")
                .because(io::Error::other("the disk failed")));
        }
        self.lookup.look_up(keys)
    }
}
