//! A ledger's database as a run writes it: groups of records, and the state of the run.

use std::fs;
use std::io;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rusqlite::Connection;

use super::answer_writer::{AnswerWriter, ArrivedAnswer};
use super::answers;
use super::captures::{self, CapturedFields, NewFields};
use super::checksum::Checksums;
use super::claims::{ClaimError, SharedClaims};
use super::connect::{self, Durability, writing};
use super::errors;
use super::latest_answers::LatestAnswers;
use super::limits::LimitRecorder;
use super::request_reader::{ReadScope, RequestReader};
use super::runs::RunRecord;
use super::space_reserve::SpaceReserve;
use super::{answer_blocks, failures};
use crate::base::error::{Error, Result};
use crate::base::file_id::FileId;
use crate::ledger::clock::millis;
use crate::ledger::file;
use crate::ledger::known_limit::KnownLimit;
use crate::ledger::store::{
    AnswerCounts, ClaimResult, FinishedRun, LeaseRenewal, Payload, Record, RunEnd, Store, Work,
};
use crate::raw_json::Pointer;

/// A ledger's database, open for a run to write.
pub(crate) struct Database {
    connection: Connection,
    path: PathBuf,
    file_id: Option<FileId>,
    scope: WriteScope,
    limits: LimitRecorder,
    /// What is claimed; `None` where no other run writes to the ledger.
    claims: Option<SharedClaims>,
    new_fields: NewFields,
    /// What commits promise now, where they do not all promise the same.
    durability: Durability,
    space: Space,
}

/// What is known of the space on the disk.
enum Space {
    /// None was lacking yet, and this is kept.
    Kept(Option<SpaceReserve>),
    /// The disk was full, and what was kept is in use: for answers to calls that are out, and for no others.
    InUse,
}

impl Space {
    /// Whether the disk was full.
    const fn is_in_use(&self) -> bool {
        matches!(self, Self::InUse)
    }
}

/// What a run writes for.
pub(crate) struct WriteScope {
    pub(crate) checksums: Checksums,
    /// What the process knows of the ledger's latest answers.
    pub(crate) latest: Arc<LatestAnswers>,
    pub(crate) context: i64,
    /// The fields that answers are stored with.
    pub(crate) fields: CapturedFields,
    pub(crate) run: RunRecord,
    /// Whether the ledger is the run's own. Only then are answers counted at the end, which takes a while.
    pub(crate) own: bool,
}

impl Database {
    /// The database of this connection, at this path.
    pub(crate) fn new(connection: Connection, path: PathBuf, scope: WriteScope) -> Self {
        Self {
            connection,
            file_id: FileId::at(&path),
            path,
            limits: LimitRecorder::new(scope.context, scope.checksums),
            scope,
            claims: None,
            new_fields: NewFields::default(),
            durability: Durability::Synced,
            space: Space::Kept(None),
        }
    }

    /// Keeps space for the answers to this many calls.
    ///
    /// # Errors
    /// Exit code 3: the disk is full.
    pub(crate) fn keep_space(&mut self, in_flight: NonZeroUsize) -> Result<()> {
        let reserve = SpaceReserve::beside(&self.path, in_flight)
            .map_err(|error| errors::no_space(&self.path, error))?;
        self.space = Space::Kept(reserve);
        Ok(())
    }

    /// Has the disk be full for the next answers, but for the space that is kept.
    #[cfg(test)]
    pub(crate) fn on_full_disk(self) -> rusqlite::Result<Self> {
        crate::ledger::faults::fill_disk_once(&self.connection)?;
        Ok(self)
    }

    /// Other runs write to the ledger as well: requests are claimed, for a worker with leases of this length, and looked up
    /// as `scope` says.
    ///
    /// # Errors
    /// Exit code 3: the ledger cannot be read.
    pub(crate) fn share(&mut self, scope: &ReadScope, lease: Duration) -> Result<()> {
        let cannot = |error| errors::cannot_use(&self.path, "read", &error);
        let reader = RequestReader::open(&self.connection, scope).map_err(cannot)?;
        let real = fs::canonicalize(&self.path).map_err(|e| file::cannot_write(&self.path, e))?;
        self.claims = Some(SharedClaims::new(real, lease, reader));
        Ok(())
    }

    /// Records that the run is under way, with so many calls in flight at most; with `replaces`, that it uses none of the
    /// answers that are there. Returns the run as it is recorded.
    ///
    /// # Errors
    /// Exit code 3: the ledger cannot be written.
    pub(crate) fn start_run(
        &mut self,
        replaces: bool,
        in_flight: NonZeroUsize,
    ) -> Result<RunRecord> {
        self.record_run(replaces, in_flight)
            .map_err(|error| errors::cannot_use(&self.path, "write", &error))?;
        Ok(self.scope.run)
    }

    fn record_run(&mut self, replaces: bool, in_flight: NonZeroUsize) -> rusqlite::Result<()> {
        let WriteScope {
            checksums,
            run,
            own,
            ..
        } = &mut self.scope;
        let transaction = writing(&self.connection)?;
        if replaces {
            run.replace_leftover(&transaction, millis(SystemTime::now()))?;
        }
        if *own {
            // As many answers as there are calls in flight may be on their way to the disk.
            let most = in_flight.get().saturating_mul(2);
            run.calls = u32::try_from(most).unwrap_or(u32::MAX);
        }
        run.record(&transaction, *checksums)?;
        transaction.commit()
    }

    /// Its files have been removed on purpose.
    pub(crate) fn expect_no_name(&mut self) {
        self.file_id = None;
    }

    fn write_group(&mut self, work: Work<'_>) -> rusqlite::Result<Vec<ClaimResult>> {
        self.promise(&work)?;
        let answers = self.answers_of(work.records)?;
        let WriteScope {
            checksums,
            latest,
            context,
            fields,
            run,
            ..
        } = &mut self.scope;
        let transaction = writing(&self.connection)?;
        self.limits.record(&transaction)?;
        if !answers.is_empty() {
            run.drop_leftover(&transaction, *checksums, *context)?;
        }
        let writer = AnswerWriter {
            checksums: *checksums,
            latest: Arc::clone(latest),
            context: *context,
            started: run.started,
        };
        for Record { key, payload, .. } in work.records {
            if let Payload::Failure(failure) = payload {
                failures::put(&transaction, *checksums, key, run.id(), failure)?;
            }
        }
        if self.claims.is_some() {
            // Before claims are made: their answers then have what was asked for until now.
            self.new_fields.look(&transaction, fields)?;
        }
        // Before the answers are there: what a look-up finds is known to the whole process, and this may yet fail. None of the
        // claims is for one of them.
        let claimed = match &mut self.claims {
            Some(claims) if !self.space.is_in_use() => claims.handle(&transaction, work)?,
            // The claims end with the worker.
            Some(claims) => {
                claims.end_without_space(&work);
                Vec::new()
            }
            None => Vec::new(),
        };
        let written = writer.put(&transaction, answers.into_iter())?;
        transaction.commit()?;
        if let Some(claims) = &mut self.claims {
            claims.committed();
        }
        writer.committed(&self.connection, &written)?;
        Ok(claimed)
    }

    /// The answers among records, each with the number of its list of fields.
    fn answers_of<'a>(
        &mut self,
        records: &'a [Record],
    ) -> rusqlite::Result<Vec<ArrivedAnswer<'a>>> {
        let (connection, checksums) = (&self.connection, self.scope.checksums);
        let mut answers = Vec::with_capacity(records.len());
        for Record { key, payload, at } in records {
            if let Payload::Answer(answer) = payload {
                let number = |list: &[Pointer]| captures::number(connection, checksums, list);
                answers.push(ArrivedAnswer {
                    key,
                    answer,
                    at: *at,
                    capture: self.scope.fields.number(answer.captured.len(), number)?,
                });
            }
        }
        Ok(answers)
    }

    /// Gives the space that was kept to what comes next, once, if the disk is full.
    fn makes_room(&mut self, error: &rusqlite::Error) -> bool {
        if errors::as_io_error(error).kind() != io::ErrorKind::StorageFull {
            return false;
        }
        let Space::Kept(reserve) = &mut self.space else {
            return false;
        };
        let Some(reserve) = reserve.take() else {
            return false;
        };
        reserve.release();
        self.space = Space::InUse;
        if let Some(claims) = &mut self.claims {
            claims.rolled_back();
        }
        true
    }

    /// Has the next commit promise what it must: claims need no sync, as they are worth nothing after a power cut.
    fn promise(&mut self, work: &Work<'_>) -> rusqlite::Result<()> {
        let only_claims = work.records.is_empty() && self.claims.is_some();
        self.set_durability(if only_claims {
            Durability::Ordered
        } else {
            Durability::Synced
        })
    }

    fn set_durability(&mut self, durability: Durability) -> rusqlite::Result<()> {
        // The ledger of one run promises what it was opened with.
        if self.claims.is_some() && durability != self.durability {
            connect::set_durability(&self.connection, durability)?;
            self.durability = durability;
        }
        Ok(())
    }

    fn renew_lease(&mut self) -> Result<LeaseRenewal, ClaimError> {
        self.set_durability(Durability::Ordered)?;
        let Some(claims) = &mut self.claims else {
            return Ok(LeaseRenewal::Kept);
        };
        let transaction = writing(&self.connection)?;
        let renewal = claims.renew(&transaction)?;
        transaction.commit()?;
        claims.committed();
        Ok(renewal)
    }

    fn end_worker(&mut self) -> rusqlite::Result<()> {
        let Some(claims) = &mut self.claims else {
            return Ok(());
        };
        let transaction = writing(&self.connection)?;
        claims.end(&transaction)?;
        transaction.commit()?;
        claims.committed();
        Ok(())
    }

    /// No call is out any more: a kill loses no answer from now on.
    fn end_calls(&mut self) -> rusqlite::Result<()> {
        let WriteScope {
            checksums,
            run,
            own,
            ..
        } = &mut self.scope;
        if !*own {
            return Ok(());
        }
        let transaction = writing(&self.connection)?;
        run.calls = 0;
        run.record_stop(&transaction, *checksums)?;
        transaction.commit()
    }

    /// The run can be continued.
    fn stop_run(&mut self, only_failed: bool) -> rusqlite::Result<()> {
        let WriteScope { checksums, run, .. } = &mut self.scope;
        let transaction = writing(&self.connection)?;
        run.only_failed = only_failed;
        run.record_stop(&transaction, *checksums)?;
        transaction.commit()
    }

    fn end_run(&self, finished: FinishedRun) -> rusqlite::Result<()> {
        let WriteScope {
            checksums,
            run,
            own,
            ..
        } = &self.scope;
        let transaction = writing(&self.connection)?;
        // What is left of a run's own ledger after a complete run must not look like a run to continue.
        if finished.is_complete() && !own {
            run.forget(&transaction)?;
        } else {
            run.finish(&transaction, *checksums, finished)?;
        }
        transaction.commit()
    }
}

impl Store for Database {
    fn write(&mut self, work: Work<'_>) -> io::Result<Vec<ClaimResult>> {
        // A file without a name accepts everything, and loses it when it is closed.
        if FileId::at(&self.path) != self.file_id {
            return Err(io::Error::other(
                "it was removed or moved while it was in use",
            ));
        }
        let before = (self.scope.run, self.limits);
        let written = match self.write_group(work) {
            Err(error) if self.makes_room(&error) => {
                // Nothing of it is stored.
                (self.scope.run, self.limits) = before;
                self.write_group(work)
            }
            written => written,
        };
        written.map_err(|error| errors::as_io_error(&error))
    }

    fn renew(&mut self) -> io::Result<LeaseRenewal> {
        let renewed = match self.renew_lease() {
            Err(ClaimError::Database(error)) if self.makes_room(&error) => self.renew_lease(),
            renewed => renewed,
        };
        renewed.map_err(|error| match error {
            ClaimError::Database(error) => errors::as_io_error(&error),
            ClaimError::Lock(error) => error,
        })
    }

    fn given_up(&self) -> Option<Error> {
        if !self.space.is_in_use() {
            return None;
        }
        let full = io::Error::new(io::ErrorKind::StorageFull, "no space left on device");
        Some(errors::cannot_keep(&self.path, &full))
    }

    fn set_limit(&mut self, latest: KnownLimit) {
        self.limits.set(latest);
    }

    fn leave(&mut self, end: RunEnd) {
        // No call is out any more.
        self.space = Space::Kept(None);
        // If this fails, the next run searches for the limit itself.
        let _ = self.limits.record_last(&self.connection);
        // If this fails, the next run counts calls that have ended.
        let _ = self.end_calls();
        // If this fails, others find out that the worker is gone.
        let _ = self.end_worker();
        if matches!(end, RunEnd::Finished(_)) {
            // Closing the database would copy its log, after the run's last act. If this fails, it does.
            let _ = self.connection.execute_batch("PRAGMA wal_checkpoint");
        }
    }

    fn end(&mut self, end: RunEnd) {
        // If this fails, the next run to the same output takes itself for this one and continues it, or counts calls that have
        // ended or were counted. That is not worth failing for when every row is written.
        let _ = match end {
            RunEnd::Finished(finished) => self.end_run(finished),
            RunEnd::WithoutSomeInputs => self.stop_run(true),
            RunEnd::Stopped if self.scope.own => self.stop_run(false),
            RunEnd::Stopped => Ok(()),
        };
    }

    fn count(&self) -> Option<AnswerCounts> {
        if !self.scope.own {
            return None;
        }
        Some(AnswerCounts {
            ours: answers::count_of(&self.connection, self.scope.context).ok()?,
            all: answers::count_all(&self.connection).ok()?,
            others_paid: answer_blocks::any_paid_by_others(&self.connection, self.scope.context)
                .ok()?,
        })
    }
}
