//! Bringing the answers of a ledger in a file to one on a server: those of an outage, and those of the time before there was
//! a server. Doing it again changes nothing.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use uuid::Uuid;

use super::fault::{AtStart, ServerFault};
use super::ledger::ServerLedger;
use super::secret_file::HashingSecret;
use super::server::{COMMAND_PATIENCE, Server};
use super::settle::{SettleScope, Settled, settle};
use super::sources;
use super::stored::{NewAnswer, NewAnswers, packed_key};
use crate::base::error::{Error, Result, shown};
use crate::ledger::access::{cannot_open, existing};
use crate::ledger::db::connect::{Connect, Mode};
use crate::ledger::db::schema::LedgerInfo;
use crate::ledger::db::{answers, captures, contexts, errors};
use crate::ledger::named_ledger::ServerSettings;
use crate::ledger::packed::PackedKey;
use crate::ledger::stored_answer::StoredAnswer;

/// Answers that are sent in one statement.
const AT_ONCE: usize = 1_000;

/// What was brought in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ImportCounts {
    /// Answers that the server did not have, or had older ones of.
    pub(crate) new: u64,
    /// Answers that it had already.
    pub(crate) known: u64,
    /// Answers of runs with `--no-dedupe`, which belong to rows of one input.
    pub(crate) of_rows: u64,
    /// Answers that are damaged.
    pub(crate) damaged: u64,
}

/// What is to be imported, and where to.
#[derive(Debug)]
pub(crate) struct ImportSettings {
    /// The ledger in a file.
    pub(crate) file: PathBuf,
    /// The server.
    pub(crate) server: ServerSettings,
}

/// Brings in all answers of a file.
///
/// # Errors
/// Exit code 2: one of the ledgers cannot be used, or they were made with different secrets. Exit code 3: the server is away;
/// what was brought in stays.
pub(crate) fn import(settings: &ImportSettings) -> Result<ImportCounts> {
    let ledger = ServerLedger::open(&settings.server, COMMAND_PATIENCE)?;
    let secret = ledger.secret(&settings.server)?;
    let file = LedgerInFile::open(&settings.file)?;
    if file.info.secret != *secret.bytes() {
        return Err(Error::usage(format!(
            "`{}` was made with another secret than the ledger `{}`, so none of its answers would be found there",
            shown(&settings.file),
            ledger.server.shown()
        ))
        .hint("a new ledger takes its secret over with `rescore ledger init` and `--secret-from`"));
    }
    let scope = SettleScope {
        worker: Uuid::nil(),
        started: i64::MAX,
        earliest: i64::MIN,
    };
    match file.bring_in(&ledger.server, &secret, &scope) {
        Ok(counts) => Ok(counts),
        Err(ImportFault::File(error)) => Err(cannot_open(&settings.file, &error)),
        Err(ImportFault::Server(fault)) => {
            Err(fault).at_start("bring answers to", &ledger.server.shown())
        }
    }
}

/// Why the answers of a file were not brought in.
pub(super) enum ImportFault {
    /// The file cannot be read.
    File(rusqlite::Error),
    /// The server is away, or refuses.
    Server(ServerFault),
}

/// A ledger in a file whose answers are brought in.
pub(super) struct LedgerInFile {
    connection: Connection,
    info: LedgerInfo,
}

impl LedgerInFile {
    /// Opens an existing file.
    ///
    /// # Errors
    /// Exit code 2: it is not a ledger, of another version, or damaged.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let real = existing(path)?;
        Self::of_ours(&real).map_err(|error| cannot_open(path, &error))
    }

    /// Opens a file that a run has made.
    ///
    /// # Errors
    /// It is damaged.
    pub(super) fn of_ours(path: &Path) -> rusqlite::Result<Self> {
        let connection = Connect::to(Mode::Inspect).open(path)?;
        let info = LedgerInfo::read(&connection)?;
        Ok(Self { connection, info })
    }

    /// Whether it was made with this secret.
    pub(super) fn is_of(&self, secret: &HashingSecret) -> bool {
        self.info.secret == *secret.bytes()
    }

    /// Brings in all its answers.
    ///
    /// # Errors
    /// The server is away, or refuses; or the file is damaged.
    pub(super) fn bring_in(
        &self,
        server: &Server,
        secret: &HashingSecret,
        scope: &SettleScope,
    ) -> Result<ImportCounts, ImportFault> {
        let mut import = Import {
            file: self,
            server,
            secret,
            scope,
            sources: HashMap::new(),
            waiting: NewAnswers::default(),
            counts: ImportCounts::default(),
            failed: None,
        };
        let damaged = answers::for_each_stored(
            &self.connection,
            self.info.checksums(),
            |context, key, answer| import.add(context, key, answer),
        );
        import.send();
        if let Some(fault) = import.failed {
            return Err(fault);
        }
        let damaged = damaged.map_err(ImportFault::File)?;
        Ok(ImportCounts {
            damaged,
            ..import.counts
        })
    }
}

/// Answers on their way from a file to a server.
struct Import<'a> {
    file: &'a LedgerInFile,
    server: &'a Server,
    secret: &'a HashingSecret,
    scope: &'a SettleScope,
    /// The server's numbers of accounts and lists of fields, by those of the file.
    sources: HashMap<(i64, Option<i64>), i32>,
    waiting: NewAnswers,
    counts: ImportCounts,
    /// Why it has failed; nothing is sent after that.
    failed: Option<ImportFault>,
}

impl Import<'_> {
    fn add(&mut self, context: i64, key: PackedKey, answer: StoredAnswer) {
        if self.failed.is_some() {
            return;
        }
        if key.row != 0 {
            self.counts.of_rows += 1;
            return;
        }
        match self.source(context, answer.capture) {
            Ok(source) => self.waiting.push(NewAnswer {
                key: packed_key(&key),
                transaction_id: &answer.transaction_id,
                score: &answer.score,
                captured: answer.captured,
                at: Some(answer.at),
                replaced: answer.replaced,
                source,
            }),
            Err(fault) => self.failed = Some(fault),
        }
        if self.waiting.len() == AT_ONCE {
            self.send();
        }
    }

    fn source(&mut self, context: i64, capture: Option<i64>) -> Result<i32, ImportFault> {
        if let Some(known) = self.sources.get(&(context, capture)) {
            return Ok(*known);
        }
        let (connection, checksums) = (&self.file.connection, self.file.info.checksums());
        let fields = match capture {
            Some(list) => captures::list(connection, checksums, list).map_err(ImportFault::File)?,
            None => None,
        };
        let accounts = contexts::all(connection, checksums).map_err(ImportFault::File)?;
        let account = { accounts.into_iter() }
            .find(|account| account.id == context)
            .ok_or_else(|| ImportFault::File(errors::damaged()))?;
        let source = sources::context(self.server, self.secret, &account.hasher, &account.endpoint)
            .and_then(|id| sources::source(self.server, id, &fields.unwrap_or_default()))
            .map_err(ImportFault::Server)?;
        self.sources.insert((context, capture), source);
        Ok(source)
    }

    fn send(&mut self) {
        if self.failed.is_some() || self.waiting.is_empty() {
            return;
        }
        let waiting = std::mem::take(&mut self.waiting);
        match self.server.wait(settle(self.server, &waiting, self.scope)) {
            Ok(Settled { stored, .. }) => {
                self.counts.new += stored;
                self.counts.known += waiting.len() as u64 - stored;
            }
            Err(fault) => self.failed = Some(ImportFault::Server(fault)),
        }
    }
}
