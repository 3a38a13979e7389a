//! Answers that wait on this machine while the server is away: a ledger in a file, made with the same secret.
//!
//! They were paid for, so they must be durable before their rows count, wherever that is. A run that ends meanwhile also
//! leaves the name of its worker here, whose claims it could not give back. What earlier runs have left is brought in by
//! `earlier_spills`.

use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use uuid::Uuid;

use super::contact::WaitingAnswers;
use super::fault::ServerFault;
use super::import::{ImportFault, LedgerInFile};
use super::secret_file::HashingSecret;
use super::server::Server;
use super::settle::SettleScope;
use crate::base::error::{Error, shown};
use crate::base::own_file;
use crate::ledger::clock::millis;
use crate::ledger::db::connect::{Connect, Mode};
use crate::ledger::db::database::{Database, WriteScope};
use crate::ledger::db::runs::RunRecord;
use crate::ledger::db::schema::{self, LedgerInfo};
use crate::ledger::db::{contexts, errors};
use crate::ledger::file::{self, LedgerKind, PRIVATE};
use crate::ledger::holder::this_process;
use crate::ledger::kept_fields::{FieldsToKeep, KeptFields};
use crate::ledger::lock::Lock;
use crate::ledger::request_key::RequestHasher;
use crate::ledger::store::{Record, Store as _, Work};

/// What a file of answers is made for.
pub(super) struct SpillSettings {
    pub(super) path: PathBuf,
    pub(super) secret: HashingSecret,
    pub(super) hasher: RequestHasher,
    pub(super) endpoint: String,
    /// The fields that answers are stored with, in their order.
    pub(super) fields: FieldsToKeep,
    /// The command that brings its answers to the server.
    pub(super) import: String,
    /// Whether it is beside an output, and not in the current directory.
    pub(super) has_output: bool,
}

impl SpillSettings {
    /// What brings its answers to the server, for people.
    fn hint(&self, finished: bool) -> String {
        let Self {
            import, has_output, ..
        } = self;
        if finished {
            // The same command would be another run.
            return format!("when the server answers, bring them in with `{import}`");
        }
        let here = if *has_output {
            ""
        } else {
            " in this directory"
        };
        format!(
            "when the server answers, run the same command again{here}, which brings them in and continues from here; or bring them in alone with `{import}`"
        )
    }
}

/// The file, where there is one.
pub(super) struct Spill {
    settings: SpillSettings,
    open: Option<SpillFile>,
    /// How many answers are in it.
    answers: u64,
}

struct SpillFile {
    // Closed before the lock is released.
    database: Database,
    lock: Lock,
}

impl Spill {
    /// No file yet.
    pub(super) const fn new(settings: SpillSettings) -> Self {
        Self {
            settings,
            open: None,
            answers: 0,
        }
    }

    /// Where it is, or will be.
    pub(super) fn path(&self) -> &Path {
        &self.settings.path
    }

    /// Stores answers; returns when they are durable.
    ///
    /// # Errors
    /// The file cannot be made or written.
    pub(super) fn write(&mut self, records: &[Record]) -> io::Result<()> {
        let answers = records.iter().filter(|record| record.is_answer()).count();
        if answers == 0 {
            return Ok(());
        }
        self.file()?.database.write(Work {
            records,
            ..Work::default()
        })?;
        self.answers += answers as u64;
        Ok(())
    }

    fn file(&mut self) -> io::Result<&mut SpillFile> {
        let file = match self.open.take() {
            Some(file) => file,
            None => SpillFile::make(&self.settings)?,
        };
        Ok(self.open.insert(file))
    }

    /// Notes that the run has ended as this worker: the next run to this output gives its claims back, of which so many are
    /// `doubtful`. A run that was not `stopped` has none that others wait for, and one without an output may have no next run:
    /// these make no file for them.
    ///
    /// # Errors
    /// The file cannot be made or written.
    pub(super) fn leave_claims(
        &mut self,
        worker: Uuid,
        stopped: bool,
        doubtful: usize,
    ) -> io::Result<()> {
        let makes_file = stopped && self.settings.has_output;
        if worker.is_nil() || (self.open.is_none() && !makes_file) {
            return Ok(());
        }
        self.file()?;
        let note = || {
            let connection = Connect::to(Mode::Write).open(&self.settings.path)?;
            let checksums = LedgerInfo::read(&connection)?.checksums();
            let now = millis(SystemTime::now());
            let mut run = RunRecord::new(worker.into_bytes(), now, i64::MIN);
            run.calls = doubtful.try_into().unwrap_or(u32::MAX);
            run.record(&connection, checksums)
        };
        note().map_err(|error| errors::as_io_error(&error))
    }

    /// Brings what this run has stored to the server, and removes the file.
    ///
    /// # Errors
    /// The file cannot be read; or the server is away.
    pub(super) fn bring_in(
        &mut self,
        server: &Server,
        scope: &SettleScope,
    ) -> io::Result<Result<(), ServerFault>> {
        let Some(SpillFile { database, lock }) = self.open.take() else {
            return Ok(Ok(()));
        };
        let path = &self.settings.path;
        let brought = LedgerInFile::of_ours(path)
            .map_err(ImportFault::File)
            .and_then(|file| file.bring_in(server, &self.settings.secret, scope));
        if let Err(fault) = brought {
            self.open = Some(SpillFile { database, lock });
            return match fault {
                ImportFault::File(error) => Err(errors::as_io_error(&error)),
                ImportFault::Server(fault) => Ok(Err(fault)),
            };
        }
        self.answers = 0;
        drop(database);
        let removed = file::remove(path);
        drop(lock);
        removed.map(Ok)
    }

    /// What waits in it, in words, and what to do, which depends on whether the run has `finished`; `None` if nothing does.
    pub(super) fn waiting(&self, finished: bool) -> Option<WaitingAnswers> {
        (self.answers > 0).then(|| {
            let answers = match self.answers {
                1 => "1 paid answer waits".to_owned(),
                number => format!("{number} paid answers wait"),
            };
            WaitingAnswers {
                words: format!("{answers} in `{}`", shown(&self.settings.path)),
                hint: self.settings.hint(finished),
            }
        })
    }
}

impl SpillFile {
    /// Makes the file, which must be new: what an earlier run had left was brought in when this one started.
    fn make(settings: &SpillSettings) -> io::Result<Self> {
        let failed = |error: Error| io::Error::other(error.causes().join(": "));
        let path = &settings.path;
        let lock = Lock::try_take(path, &this_process()).map_err(failed)?;
        let lock =
            lock.map_err(|other| io::Error::other(format!("another run ({other}) has it")))?;
        own_file::open(path, PRIVATE, true)?;
        let open = || {
            let connection = Connect::to(Mode::Create(LedgerKind::Shared)).open(path)?;
            schema::set_secret(&connection, settings.secret.bytes())?;
            let checksums = LedgerInfo::read(&connection)?.checksums();
            let context =
                contexts::id(&connection, checksums, &settings.hasher, &settings.endpoint)?;
            let now = millis(SystemTime::now());
            let scope = WriteScope {
                checksums,
                latest: std::sync::Arc::default(),
                context,
                fields: KeptFields::new(settings.fields.borrow().clone()),
                run: RunRecord::new(settings.hasher.run(None), now, i64::MIN),
                own: false,
            };
            Ok(Database::new(connection, path.clone(), scope))
        };
        let database = open().map_err(|error| errors::as_io_error(&error))?;
        Ok(Self { database, lock })
    }
}
