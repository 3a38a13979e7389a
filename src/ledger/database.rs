//! A ledger's database, to write to: groups of answers, and what is noted of the run.

use std::io;
use std::path::PathBuf;
use std::time::SystemTime;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Transaction, TransactionBehavior, params};

use super::checksum::Checksums;
use super::file::Identity;
use super::keeper::{Counted, Finished, Kept, Record, Store};
use super::limits::{Finding, Known};
use super::request_key::RequestKey;
use super::run::Run;
use super::{millis, poison, sqlite};
use crate::base::error::Result;
use crate::verdict::Answer;

/// A ledger's database, to write to.
pub(super) struct Database {
    connection: Connection,
    path: PathBuf,
    identity: Option<Identity>,
    checksums: Checksums,
    context: i64,
    /// The number of the list of fields that answers are kept with.
    capture: Option<i64>,
    run: Run,
    finding: Finding,
    /// What the service failed over and is not noted yet.
    failed: Vec<RequestKey>,
    /// Whether it is the run's own. Only then answers are counted at the end, which takes a while.
    own: bool,
}

/// What a database must know of its run.
#[derive(Clone, Copy)]
pub(super) struct Writing {
    pub(super) checksums: Checksums,
    pub(super) context: i64,
    pub(super) capture: Option<i64>,
    pub(super) run: Run,
    pub(super) own: bool,
}

impl Database {
    pub(super) fn new(connection: Connection, path: PathBuf, writing: Writing) -> Self {
        let Writing {
            checksums,
            context,
            capture,
            run,
            own,
        } = writing;
        Self {
            identity: Identity::at(&path),
            connection,
            path,
            checksums,
            context,
            capture,
            run,
            finding: Finding::new(context, checksums),
            failed: Vec::new(),
            own,
        }
    }

    /// Notes that the run is under way; `over` answers of an earlier one, none of which is used from now on. The run as it
    /// is noted.
    ///
    /// # Errors
    /// Exit code 3: it cannot be written.
    pub(super) fn begin_run(&mut self, over: bool) -> Result<Run> {
        self.note_run(over)
            .map_err(|error| sqlite::cannot_use(&self.path, "write", &error))?;
        Ok(self.run)
    }

    fn note_run(&mut self, over: bool) -> rusqlite::Result<()> {
        self.checksums.install(&self.connection)?;
        let transaction = begin(&mut self.connection)?;
        if over {
            let now = millis(SystemTime::now());
            self.run.replace_leftover(&transaction, now)?;
        }
        self.run.note(&transaction, self.checksums)?;
        transaction.commit()
    }

    /// Its files have been removed on purpose.
    #[cfg(unix)]
    pub(super) fn has_no_name(&mut self) {
        self.identity = None;
    }

    fn write(&mut self, group: &[Record]) -> rusqlite::Result<()> {
        let transaction = begin(&mut self.connection)?;
        self.finding.note(&transaction)?;
        poison::note(&transaction, self.context, &self.failed, SystemTime::now())?;
        // A group that fails is the last one: that the run believes it done does no harm.
        if group
            .iter()
            .any(|record| matches!(record.what, Kept::Answer(_)))
        {
            self.run
                .drop_leftover(&transaction, self.checksums, self.context)?;
        }
        let answers = Put {
            checksums: self.checksums,
            context: self.context,
            capture: self.capture,
            begun: self.run.begun,
        };
        for Record { key, what, at } in group {
            match what {
                Kept::Answer(answer) => answers.put(&transaction, key, answer, *at)?,
                Kept::Failure(failure) => {
                    failure.put(&transaction, self.checksums, key, self.run.id())?;
                }
            }
        }
        transaction.commit()?;
        self.failed.clear();
        Ok(())
    }

    fn note_failed(&mut self) -> rusqlite::Result<()> {
        if self.failed.is_empty() {
            return Ok(());
        }
        let transaction = begin(&mut self.connection)?;
        poison::note(&transaction, self.context, &self.failed, SystemTime::now())?;
        transaction.commit()
    }

    fn end_run(&mut self, finished: Finished) -> rusqlite::Result<()> {
        let transaction = begin(&mut self.connection)?;
        let Finished {
            failed_rows,
            failed_calls,
        } = finished;
        // What is left of a run's own ledger after a whole run must not seem to be of one that goes on.
        if failed_rows == 0 && !self.own {
            self.run.forget(&transaction)?;
        } else {
            self.run
                .finish(&transaction, self.checksums, failed_calls)?;
        }
        transaction.commit()
    }
}

impl Store for Database {
    fn commit(&mut self, group: &[Record]) -> io::Result<()> {
        // A file without a name takes everything and keeps nothing.
        if Identity::at(&self.path) != self.identity {
            return Err(io::Error::other("it was removed while it was in use"));
        }
        self.write(group).map_err(|error| sqlite::system(&error))
    }

    fn found(&mut self, latest: Known) {
        self.finding.changed(latest);
    }

    fn failed(&mut self, keys: Vec<RequestKey>) {
        self.failed.extend(keys);
    }

    fn end(&mut self, finished: Option<Finished>) {
        // Where it cannot be done, the next run looks for the limit itself.
        let _ = self.finding.end(&self.connection);
        // And it takes what fails for an outage, and waits.
        let _ = self.note_failed();
        if let Some(finished) = finished {
            // Where it cannot be done, the next run to the same output takes itself for this one and goes on with it. That
            // is no reason to fail with every row written.
            let _ = self.end_run(finished);
        }
    }

    fn count(&self) -> Option<Counted> {
        if !self.own {
            return None;
        }
        Some(Counted {
            ours: sqlite::count(&self.connection, self.context).ok()?,
            all: sqlite::count_all(&self.connection).ok()?,
        })
    }
}

/// A transaction that writes from its start on: one that reads first could find the ledger changed when it writes.
fn begin(connection: &mut Connection) -> rusqlite::Result<Transaction<'_>> {
    connection.transaction_with_behavior(TransactionBehavior::Immediate)
}

/// How answers are put.
struct Put {
    checksums: Checksums,
    context: i64,
    capture: Option<i64>,
    /// When the run began.
    begun: i64,
}

/// What an answer leaves behind of the one whose place it takes: the score of one from before the run; of one that came
/// since, what that had been left itself; of a damaged one, nothing.
macro_rules! replaced {
    ($old:literal, $left:literal) => {
        concat!(
            "iif(checksum = answer_checksum(key, row, transaction_id, score, capture, captured, at, replaced), iif(at < ?9, ",
            $old,
            ", ",
            $left,
            "), NULL)"
        )
    };
}

const PUT: &str = concat!(
    "INSERT INTO answers VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, NULL, NULL, ?10)
    ON CONFLICT (key, row) DO UPDATE SET
        checksum = answer_checksum(key, row, excluded.transaction_id, excluded.score, excluded.capture, excluded.captured, excluded.at, ",
    replaced!("score", "replaced"),
    "),
        replaced = ",
    replaced!("score", "replaced"),
    ",
        replaced_at = ",
    replaced!("at", "replaced_at"),
    ",
        transaction_id = excluded.transaction_id,
        score = excluded.score,
        capture = excluded.capture,
        captured = excluded.captured,
        at = excluded.at"
);

impl Put {
    fn put(
        &self,
        connection: &Connection,
        key: &RequestKey,
        answer: &Answer,
        at: i64,
    ) -> rusqlite::Result<()> {
        let captured = self
            .capture
            .and_then(|_| serde_json::to_string(&answer.captured).ok());
        let (id, score) = (answer.transaction_id.as_str(), answer.score.digits());
        let checksum = self.checksums.of_answer([
            ValueRef::Blob(&key.hash),
            ValueRef::Integer(key.stored_row()),
            id.into(),
            score.into(),
            self.capture.map_or(ValueRef::Null, ValueRef::Integer),
            captured.as_deref().into(),
            ValueRef::Integer(at),
            ValueRef::Null,
        ]);
        connection
            .prepare_cached(PUT)?
            .execute(params![
                key.hash,
                key.stored_row(),
                self.context,
                id,
                score,
                self.capture,
                captured,
                at,
                self.begun,
                checksum
            ])
            .map(drop)
    }
}
