//! A ledger from its opening for a run to the run's last act in it, and what a run finds there.

use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use rusqlite::params;

use super::accounts::{self, RememberedLimit, StoredAccount};
use super::answers::LookupResult;
use super::database::{Database, Purpose, first, from_millis, read_meta};
use super::fault::{DbFault, VERSION};
use super::key::{RequestHasher, RequestKey};
use super::location::LedgerLocation;
use super::outputs::{self, OutputState};
use super::runs::{LedgerSettings, RunRecord};
use super::writer::{LedgerThread, LedgerWriter};
use super::{postgres, sqlite, sqlite_file};
use crate::base::error::{Error, Result};

/// Opens a database. `None` if there is none, and this purpose makes none.
pub(super) fn connect(
    location: &LedgerLocation,
    purpose: Purpose<'_>,
) -> Result<Option<Box<dyn Database>>> {
    match location {
        LedgerLocation::File(path) => sqlite::open(path, purpose),
        LedgerLocation::Server(url) => Ok(Some(postgres::open(url, purpose))),
    }
}

/// What a run finds in a ledger.
#[derive(Clone)]
pub(crate) struct LedgerFacts {
    /// Whether a run or another command has used the ledger before.
    pub(crate) existed: bool,
    /// Makes the keys that answers are found by.
    pub(crate) hasher: RequestHasher,
    /// The address whose answers are found; `None` if it has no answers.
    pub(crate) endpoint: Option<String>,
    /// What is recorded of the run.
    pub(crate) run: RunRecord,
    /// Answers of this address and service ID.
    pub(crate) answers: u64,
    /// Whether the latest of them are recent enough for the run.
    pub(crate) has_usable: bool,
    /// The limit that an earlier run found, unless that was too long ago.
    pub(crate) remembered_limit: Option<RememberedLimit>,
    /// The addresses whose answers the ledger has, if it has none of this address and service ID.
    pub(crate) other_accounts: Vec<String>,
}

impl LedgerFacts {
    /// Whether nothing was ever paid for.
    pub(crate) const fn is_new(&self) -> bool {
        self.answers == 0
    }
}

/// A ledger that is open for a run that has not started.
pub(crate) struct OpenLedger {
    pub(super) database: Box<dyn Database>,
    pub(super) secret: [u8; 32],
    /// What the run finds in it.
    pub(crate) facts: LedgerFacts,
}

impl OpenLedger {
    /// Opens the ledger, and makes it if there is none.
    ///
    /// # Errors
    /// Exit code 75: another program holds it, or another host has a run to the same path. Exit
    /// code 2: it is not a ledger, of another version, damaged, or cannot be made. Exit code 3:
    /// the disk is full, or its server cannot be reached.
    pub(crate) fn open(settings: &LedgerSettings) -> Result<Self> {
        let purpose = Purpose::Run {
            in_flight: settings.in_flight,
            wait: &settings.wait,
        };
        let ledger = Self::find(settings, purpose)?;
        let ledger = ledger.ok_or_else(|| Error::internal("a ledger was not made"))?;
        if ledger.facts.run.is_elsewhere {
            return Err(on_another_host());
        }
        Ok(ledger)
    }

    /// Opens a ledger, and reads what a run of these settings finds. If a run starts, its account
    /// is added if it is missing. `None` if there is no ledger, and this purpose makes none.
    ///
    /// # Errors
    /// It cannot be read or written. Exit code 2: it has answers of several accounts, and none was
    /// named.
    fn find(settings: &LedgerSettings, purpose: Purpose<'_>) -> Result<Option<Self>> {
        let location = &settings.location;
        let is_server = matches!(location, LedgerLocation::Server(_));
        let with_hint = |error: Error| {
            if is_server {
                error
            } else {
                error.or_hint(sqlite_file::HINT_OTHER_PATH)
            }
        };
        let cannot = |fault: DbFault| with_hint(fault.error("open", location));
        let Some(mut opened) = connect(location, purpose).map_err(with_hint)? else {
            return Ok(None);
        };
        let database = &mut *opened;
        let secret = read_meta(database, VERSION).map_err(cannot)?.secret;
        let mut accounts = StoredAccount::all(database).map_err(cannot)?;
        // A person makes a server's ledger, and the first run makes a file.
        let existed = is_server || !accounts.is_empty();
        let hasher = match &settings.account {
            Some(account) => RequestHasher::new(&secret, &account.endpoint, &account.service_id),
            None => accounts::only_hasher(&accounts, location)?,
        };
        let is_asking = |it: &StoredAccount| it.hasher.account() == hasher.account();
        let asking = accounts.iter().position(is_asking);
        let asking = asking.map(|index| accounts.remove(index));
        let id = match (&asking, &settings.account) {
            (Some(account), _) => account.id,
            (None, Some(account)) if matches!(purpose, Purpose::Run { .. }) => {
                StoredAccount::add(database, &account.endpoint, &hasher).map_err(cannot)?
            }
            (None, _) => 0,
        };
        let answers = asking.as_ref().map_or(0, |account| account.answers);
        let others = accounts.into_iter();
        let others = others.filter(|other| answers == 0 && other.answers > 0);
        // A file is used by one host only.
        let host_id = if is_server {
            outputs::host_id(&secret, settings.output.as_deref())
        } else {
            String::new()
        };
        let run = RunRecord::read(database, &secret, settings, id, host_id).map_err(cannot)?;
        let now = from_millis(run.now());
        let limit = asking.as_ref().and_then(|account| account.limit);
        let facts = LedgerFacts {
            existed,
            endpoint: asking
                .filter(|_| answers > 0)
                .map(|account| account.address),
            hasher,
            answers,
            has_usable: answers > 0 && run.has_recent,
            remembered_limit: limit.filter(|limit| limit.is_recent(now)),
            other_accounts: others.map(|account| account.address).collect(),
            run,
        };
        Ok(Some(Self {
            database: opened,
            secret,
            facts,
        }))
    }

    /// Where the ledger is.
    pub(crate) const fn location(&self) -> &LedgerLocation {
        &self.facts.run.settings.location
    }

    /// How a file relates to the run that this one continues, over this input; `None` is an input
    /// without a path.
    ///
    /// # Errors
    /// Exit code 2: the ledger cannot be read.
    pub(crate) fn output_state(
        &mut self,
        file: &Path,
        input: Option<&Path>,
    ) -> Result<OutputState> {
        outputs::find(&mut *self.database, &self.secret, file, input)
            .map_err(|fault| fault.error("read", self.location()))
    }

    /// Look-ups over another connection, for another thread.
    ///
    /// # Errors
    /// Exit code 2: the ledger cannot be opened again.
    pub(crate) fn lookup(&self) -> Result<Lookup> {
        let database = self.database.second_connection();
        let database = database.map_err(|fault| fault.error("open", self.location()))?;
        Ok(Lookup::new(database, &self.facts))
    }

    /// Starts the run, when everything else is ready: the run is recorded now, and its answers can
    /// be written.
    ///
    /// # Errors
    /// Exit code 2 or 3: the ledger cannot be written, or a thread cannot be started.
    pub(crate) fn start(mut self) -> Result<(RunningLedger, LedgerWriter)> {
        let mut run = self.facts.run;
        let settings = run.settings.clone();
        let started = run.start(&mut *self.database);
        if !started.map_err(|fault| fault.error("write", &settings.location))? {
            return Err(on_another_host());
        }
        self.database.run_starts();
        let account = run.account;
        let (writer, thread) = LedgerWriter::start(self.database, run)?;
        let running = RunningLedger {
            thread,
            account,
            secret: self.secret,
            settings,
        };
        Ok((running, writer))
    }
}

/// Why a run cannot start: a run to the same path has a lease that lasts, and no lock here keeps
/// the two apart.
fn on_another_host() -> Error {
    Error::busy("another host runs the same command, or a run to an output of the same path")
        .hint("give it another path; after a kill there, run this again a minute later")
}

/// The ledger of a run under way.
pub(crate) struct RunningLedger {
    thread: LedgerThread,
    account: i64,
    secret: [u8; 32],
    settings: LedgerSettings,
}

impl RunningLedger {
    /// Its path or address, for people.
    pub(crate) fn path(&self) -> &Path {
        self.settings.location.path()
    }

    /// Exchanges the pace that the runs of the account share: takes what this run has observed and
    /// returns what is allowed, both as JSON, and waits for a server that does not answer. `None`
    /// for a ledger in a file, which only one host uses.
    ///
    /// # Errors
    /// Exit code 2: the server's address cannot be used, or it refuses. Exit code 3: it does not
    /// answer for too long.
    pub(crate) fn pace_exchange(
        &self,
    ) -> Result<Option<impl FnMut(&str) -> Result<String> + Send + use<>>> {
        let (account, location) = (self.account, self.settings.location.clone());
        if location.file().is_some() {
            return Ok(None);
        }
        let database = connect(&location, Purpose::SecondConnection(&self.settings.wait))?;
        let exchange = |mut database: Box<dyn Database>| {
            move |observed: &str| {
                let statement = "SELECT cast(ask_pace($1, $2) AS TEXT)";
                let reply = database.query(statement, params![account, observed]);
                let reply = reply.and_then(|rows| first(&rows)?.get(0));
                reply.map_err(|fault| fault.error("ask", &location))
            }
        };
        Ok(database.map(exchange))
    }

    /// What records how a run over an input is about to leave its files. If it fails, the same
    /// command will refuse to replace them. That is better than failing the run.
    pub(crate) fn recorder(&self) -> impl Fn(&[(PathBuf, Metadata)], Option<&Path>) + use<> {
        let (settings, secret) = (self.settings.clone(), self.secret);
        move |files, input| {
            let purpose = Purpose::SecondConnection(&settings.wait);
            if let Ok(Some(mut database)) = connect(&settings.location, purpose) {
                let _ = outputs::record(&mut *database, &secret, files, input);
            }
        }
    }

    /// Whether its file was removed or moved.
    pub(crate) fn is_gone(&self) -> bool {
        let file = self.settings.location.file();
        file.is_some_and(|file| file.symlink_metadata().is_err())
    }

    /// Whether its file is damaged, so that no run can continue with it. All of it is read.
    pub(crate) fn is_damaged(&self) -> bool {
        let file = self.settings.location.file();
        file.is_some_and(sqlite_file::is_damaged)
    }

    /// Waits until everything is durable, once its writer is dropped. `false` if that takes longer
    /// than this, on a disk that may hang.
    pub(crate) fn wait_until_stored(&self, longest: Duration) -> bool {
        self.thread.drained.recv_timeout(longest) != Err(RecvTimeoutError::Timeout)
    }

    /// Has it recorded how the run has ended, when all its files are written. If the run is killed
    /// before, the same command continues it.
    pub(crate) fn finish(self, longest: Duration) {
        // If the thread is gone, so is its database.
        let _ = self.thread.files_are_written.send(());
        // If it takes longer, the run ends all the same.
        let _ = self.thread.drained.recv_timeout(longest);
    }
}

/// Looks at a ledger as a run that starts now would, beside runs that use it, and without changing
/// anything. `None` if there is no ledger, which the first run would make.
///
/// # Errors
/// Exit code 2: it cannot be used, or has answers of several accounts and none was named.
pub(crate) fn preview(settings: &LedgerSettings) -> Result<Option<(Lookup, LedgerFacts)>> {
    let found = OpenLedger::find(settings, Purpose::Look)?;
    Ok(found.map(|found| {
        let lookup = Lookup::new(found.database, &found.facts);
        (lookup, found.facts)
    }))
}

/// Names requests, and looks up what is stored for them.
pub(crate) struct Lookup {
    hasher: RequestHasher,
    /// A ledger, and the run that asks; `None` if nothing is stored from before.
    ledger: Option<(Box<dyn Database>, RunRecord)>,
}

impl Lookup {
    /// Look-ups in no ledger, or in one that the first run will make. What a run has paid for
    /// itself is found when it is claimed.
    pub(crate) fn without_ledger() -> Self {
        Self {
            hasher: RequestHasher::of_pass(),
            ledger: None,
        }
    }

    fn new(database: Box<dyn Database>, facts: &LedgerFacts) -> Self {
        Self {
            hasher: facts.hasher.clone(),
            ledger: Some((database, facts.run.clone())),
        }
    }

    /// The key of the request with this body.
    pub(crate) fn key(&self, body: &[u8]) -> RequestKey {
        self.hasher.key(body)
    }

    /// What is stored for each of these requests, in their order.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub(crate) fn look_up(&mut self, keys: &[RequestKey]) -> Result<Vec<LookupResult>> {
        let Some((database, run)) = &mut self.ledger else {
            return Ok(vec![LookupResult::default(); keys.len()]);
        };
        let found = database.find(&run.scope, keys);
        found.map_err(|fault| fault.error("read", &run.settings.location))
    }
}

/// Makes a ledger on a server if there is none. True if there was none.
///
/// # Errors
/// Exit code 2: it cannot be made. Exit code 3: the server cannot be reached.
pub(crate) fn init(ledger: &LedgerLocation) -> Result<bool> {
    let LedgerLocation::Server(url) = ledger else {
        let error = Error::usage("only a ledger on a server is made by hand");
        return Err(error.hint(
            "give its address as `postgresql://USER@HOST/DATABASE`; a run makes its file itself",
        ));
    };
    postgres::init(url)
}
