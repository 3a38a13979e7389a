//! A database that fails when a test says so, and counts what it is asked to do.

use std::collections::HashSet;
use std::io;
use std::ops::DerefMut;
use std::sync::{Arc, Mutex};

use rusqlite::ToSql;

use crate::ledger::answers::{LookupResult, Scope, Stored};
use crate::ledger::database::{Database, Dialect, TableRow, Work};
use crate::ledger::fault::{DbFault, DbFaultKind};
use crate::ledger::key::RequestKey;
use crate::ledger::open::OpenLedger;

/// When and how storing answers or looking them up fails.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StoreFaults {
    /// Which group of answers or which read fails first, from 1; none does at 0.
    pub(crate) nth: usize,
    /// Whether all later ones fail as well.
    pub(crate) for_ever: bool,
    /// Whether the group is durable all the same, as when only the disk's confirmation was lost.
    pub(crate) durable: bool,
    /// The error; a read always fails as a disk does. After a connection was reset, the group is
    /// stored again.
    pub(crate) kind: io::ErrorKind,
}

impl StoreFaults {
    pub(crate) const NEVER: Self = Self {
        nth: 0,
        for_ever: false,
        durable: false,
        kind: io::ErrorKind::Other,
    };

    /// Whether this group or read fails.
    const fn has(&self, number: usize) -> bool {
        self.nth != 0 && (self.nth == number || (self.nth < number && self.for_ever))
    }
}

impl OpenLedger {
    /// The same ledger, in which storing answers fails like this once the run has started, and
    /// look-ups like that. `None` hangs when it stores any, like a file server that is gone.
    pub(crate) fn failing(self, keeping: Option<StoreFaults>, reading: StoreFaults) -> Self {
        self.counted(keeping, reading).0
    }

    /// The same, with a count of what the database is asked to do.
    pub(crate) fn counted(
        mut self,
        keeping: Option<StoreFaults>,
        reading: StoreFaults,
    ) -> (Self, Arc<Mutex<Asked>>) {
        let counted = Arc::default();
        self.database = Box::new(FailingDatabase {
            database: self.database,
            keeping,
            reading,
            has_started: false,
            groups: 0,
            reads: 0,
            counted: Arc::clone(&counted),
        });
        (self, counted)
    }
}

/// What a database was asked to do.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    /// Statements, without those that store answers or find them.
    pub(crate) statements: usize,
    /// Those that differ in their texts: each is parsed once.
    pub(crate) texts: HashSet<String>,
    /// Transactions that had to be durable: each is a sync.
    pub(crate) syncs: usize,
}

struct FailingDatabase<D> {
    database: D,
    keeping: Option<StoreFaults>,
    reading: StoreFaults,
    has_started: bool,
    groups: usize,
    reads: usize,
    counted: Arc<Mutex<Asked>>,
}

impl<D> Database for FailingDatabase<D>
where
    D: DerefMut<Target: Database> + Send,
{
    fn dialect(&self) -> &'static Dialect {
        self.database.dialect()
    }

    fn query(&mut self, statement: &str, values: &[&dyn ToSql]) -> Result<Vec<TableRow>, DbFault> {
        let mut counted = self.counted.lock().unwrap();
        counted.statements += 1;
        counted.texts.insert(statement.to_owned());
        drop(counted);
        self.database.query(statement, values)
    }

    /// Only groups with answers are durable.
    fn transaction(&mut self, durable: bool, work: &mut Work<'_>) -> Result<(), DbFault> {
        let has_answers = durable && self.has_started;
        self.groups += usize::from(has_answers);
        let counted = &self.counted;
        counted.lock().unwrap().syncs += usize::from(durable);
        let work = &mut |database: &mut dyn Database| {
            work(&mut FailingDatabase {
                database,
                keeping: Some(StoreFaults::NEVER),
                reading: StoreFaults::NEVER,
                has_started: false,
                groups: 0,
                reads: 0,
                counted: Arc::clone(counted),
            })
        };
        let faults = loop {
            match self.keeping {
                Some(faults) => break faults,
                None if has_answers => std::thread::park(),
                None => break StoreFaults::NEVER,
            }
        };
        if !has_answers || !faults.has(self.groups) {
            return self.database.transaction(durable, work);
        }
        if faults.durable {
            self.database.transaction(durable, work)?;
        }
        if faults.kind == io::ErrorKind::ConnectionReset {
            return self.database.transaction(durable, work);
        }
        Err(match faults.kind {
            io::ErrorKind::StorageFull => DbFault::no_space(),
            _ => DbFault::new(DbFaultKind::Other, "the disk failed"),
        })
    }

    fn append(&mut self, account: i64, results: &[Stored]) -> Result<(), DbFault> {
        self.database.append(account, results)
    }

    fn discard(&mut self, start: i64, fingerprints: &[i64]) -> Result<(), DbFault> {
        self.database.discard(start, fingerprints)
    }

    fn find(&mut self, scope: &Scope, keys: &[RequestKey]) -> Result<Vec<LookupResult>, DbFault> {
        self.reads += 1;
        if self.reading.has(self.reads) {
            return Err(DbFault::new(DbFaultKind::Other, "the disk failed"));
        }
        self.database.find(scope, keys)
    }

    fn second_connection(&self) -> Result<Box<dyn Database>, DbFault> {
        Ok(Box::new(FailingDatabase {
            database: self.database.second_connection()?,
            keeping: self.keeping,
            reading: self.reading,
            has_started: false,
            groups: self.groups,
            reads: self.reads,
            counted: Arc::clone(&self.counted),
        }))
    }

    fn rewrite(&mut self) -> Result<(), DbFault> {
        self.database.rewrite()
    }

    fn run_starts(&mut self) {
        self.has_started = true;
        self.database.run_starts();
    }

    fn is_full(&self) -> bool {
        self.database.is_full()
    }
}
