//! Answers that wait on this machine while the server is away: a ledger in a file, made with the same secret.
//!
//! They were paid for, so they must be durable before their rows count, wherever that is.

use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::fault::ServerFault;
use super::import::{ImportCounts, LedgerInFile};
use super::secret_file::HashingSecret;
use super::server::Server;
use super::settle::SettleScope;
use crate::base::error::{Result, shown};
use crate::ledger::clock::millis;
use crate::ledger::db::captures::CapturedFields;
use crate::ledger::db::connect::{Connect, Mode};
use crate::ledger::db::database::{Database, WriteScope};
use crate::ledger::db::runs::RunRecord;
use crate::ledger::db::schema::{self, LedgerInfo};
use crate::ledger::db::{answers, contexts, errors};
use crate::ledger::file::{self, LedgerKind};
use crate::ledger::holder::this_process;
use crate::ledger::lock::Lock;
use crate::ledger::request_key::RequestHasher;
use crate::ledger::store::{Record, Store as _, Work};
use crate::raw_json::Pointer;

/// What a file of answers is made for.
pub(super) struct SpillSettings {
    pub(super) path: PathBuf,
    pub(super) secret: HashingSecret,
    pub(super) hasher: RequestHasher,
    pub(super) endpoint: String,
    /// The fields that answers are stored with, in their order.
    pub(super) fields: Box<[Pointer]>,
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
    _lock: Lock,
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

    /// Stores answers; returns when they are durable.
    ///
    /// # Errors
    /// The disk fails or is full, or another run has the file.
    pub(super) fn write(&mut self, records: &[Record]) -> io::Result<()> {
        if records.is_empty() {
            return Ok(());
        }
        let file = match &mut self.open {
            Some(file) => file,
            None => self.open.insert(SpillFile::make(&self.settings)?),
        };
        file.database.write(Work {
            records,
            ..Work::default()
        })?;
        self.answers += records.len() as u64;
        Ok(())
    }

    /// Brings what an earlier run has left in this file to the server, unless another run has it or it is another
    /// ledger's; what was brought in.
    ///
    /// # Errors
    /// The file is not one of this ledger, or the server is away.
    pub(super) fn bring_in_earlier(
        &self,
        path: &Path,
        server: &Server,
        scope: &SettleScope,
    ) -> Result<Result<ImportCounts, ServerFault>> {
        let nothing = || Ok(Ok(ImportCounts::default()));
        if !path.exists() {
            return nothing();
        }
        let Ok(lock) = Lock::try_take(path, &this_process())? else {
            return nothing();
        };
        let file = LedgerInFile::open(path)?;
        if !file.is_of(&self.settings.secret) {
            // That ledger's own next run brings it in.
            return nothing();
        }
        let brought = file.bring_in(server, &self.settings.secret, scope);
        drop(file);
        if brought.is_ok() {
            // What stays is brought in again by the next run, which changes nothing.
            let _ = file::remove(path);
        }
        drop(lock);
        Ok(brought)
    }

    /// Brings what this run has stored to the server, and removes the file.
    ///
    /// # Errors
    /// The server is away.
    pub(super) fn bring_in(
        &mut self,
        server: &Server,
        scope: &SettleScope,
    ) -> Result<(), ServerFault> {
        if self.open.is_none() {
            return Ok(());
        }
        let path = &self.settings.path;
        let file = LedgerInFile::open(path).map_err(|error| ServerFault::of_spill(&error))?;
        file.bring_in(server, &self.settings.secret, scope)?;
        drop(file);
        self.open = None;
        self.answers = 0;
        let _ = file::remove(path);
        Ok(())
    }

    /// What waits, in words; `None` if nothing does.
    pub(super) fn waiting(&self) -> Option<String> {
        (self.answers > 0).then(|| {
            let answers = match self.answers {
                1 => "1 paid answer waits".to_owned(),
                number => format!("{number} paid answers wait"),
            };
            format!("{answers} in `{}`", shown(&self.settings.path))
        })
    }
}

impl SpillFile {
    fn make(settings: &SpillSettings) -> io::Result<Self> {
        let failed = |error: crate::base::error::Error| io::Error::other(error.report());
        let path = &settings.path;
        let lock = Lock::try_take(path, &this_process()).map_err(failed)?;
        let lock = lock.map_err(|other| {
            io::Error::other(format!("another run ({other}) has `{}`", shown(path)))
        })?;
        file::create(path, LedgerKind::Shared)?;
        let open = || {
            let connection = Connect::to(Mode::Create(LedgerKind::Shared)).open(path)?;
            if !answers::any(&connection)? {
                schema::set_secret(&connection, settings.secret.bytes())?;
            }
            let checksums = LedgerInfo::read(&connection)?.checksums();
            let context =
                contexts::id(&connection, checksums, &settings.hasher, &settings.endpoint)?;
            let now = millis(SystemTime::now());
            let fields = CapturedFields::open(&connection, checksums, &settings.fields, now)?;
            let scope = WriteScope {
                checksums,
                latest: std::sync::Arc::default(),
                context,
                capture: fields.list,
                run: RunRecord::new(settings.hasher.run(None), now, i64::MIN),
                own: false,
            };
            Ok(Database::new(connection, path.clone(), scope))
        };
        let database = open().map_err(|error| errors::as_io_error(&error))?;
        Ok(Self {
            database,
            _lock: lock,
        })
    }
}
