//! A ledger from its opening for a run to the run's last act in it, and what a run finds there.

use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use rusqlite::{ToSql, params};

use super::accounts::{self, KnownLimit, PaceRow, StoredAccount};
use super::answers::{LookupResult, Scope};
use super::budget::CallBudget;
use super::database::{Database, Purpose, read_meta};
use super::fault::DbFault;
use super::key::{RequestHasher, RequestKey};
use super::outputs::{self, OutputState};
use super::runs::RunRecord;
use super::settings::{LedgerLocation, LedgerSettings, time};
use super::writer::LedgerWriter;
use super::{postgres, sqlite, sqlite_connect, sqlite_file};
use crate::base::error::{Error, Result};

/// What to do where there is no ledger that can be looked after.
pub(super) const NAME_IT: &str = "`rescore check` says which ledger a run uses; that of `--sandbox` is `sandbox.ledger` beside yours";

/// Opens a database; `None` if there is none yet, and none is made.
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
    /// Where it is, for people.
    pub(crate) place: PathBuf,
    /// Makes the keys that answers are found by.
    pub(crate) hasher: RequestHasher,
    /// The address whose answers are found; `None` if there are answers of none.
    pub(crate) endpoint: Option<String>,
    /// What is known of the run.
    pub(crate) run: RunRecord,
    /// Answers of this address and service ID that the run may use; with a range of ages, not all of these.
    pub(crate) usable: u64,
    /// Those that are too old for it.
    pub(crate) too_old: u64,
    /// The limit that an earlier run found, unless that was too long ago.
    pub(crate) known_limit: Option<KnownLimit>,
    /// The addresses whose answers it has, if it has none of this address and service ID.
    pub(crate) other_accounts: Vec<String>,
}

impl LedgerFacts {
    /// Whether nothing was ever paid for.
    pub(crate) const fn is_new(&self) -> bool {
        self.usable + self.too_old == 0
    }
}

/// How many answers of all accounts arrived since then, or some more where places are empty: they are in the order in which they
/// arrived, so that the first of them is found by halves.
fn recent(database: &mut dyn Database, not_before: i64) -> Result<u64, DbFault> {
    if not_before == i64::MIN {
        return Ok(u64::MAX);
    }
    let mut number = |query: &str, values: &[&dyn ToSql]| {
        let rows = database.query(query, values)?;
        let number = rows.first().map(|row| row.get::<i64>(0)).transpose()?;
        Ok::<_, DbFault>(number.unwrap_or(0))
    };
    let last = number("SELECT seq FROM answers ORDER BY seq DESC LIMIT 1", &[])?;
    let (mut first, mut behind) = (0, last.saturating_add(1));
    while first < behind {
        let middle = first + (behind - first) / 2;
        let at = "SELECT at FROM answers WHERE seq >= $1 ORDER BY seq LIMIT 1";
        if number(at, params![middle])? < not_before {
            first = middle + 1;
        } else {
            behind = middle;
        }
    }
    Ok(last.saturating_sub(first).saturating_add(1).cast_unsigned())
}

/// A ledger that is open for a run that has not started.
pub(crate) struct OpenLedger {
    pub(super) database: Box<dyn Database>,
    pub(super) secret: [u8; 32],
    /// What the run finds in it.
    pub(crate) facts: LedgerFacts,
    settings: LedgerSettings,
}

impl OpenLedger {
    /// Opens the ledger, and creates it where there is none.
    ///
    /// # Errors
    /// Exit code 75: another program holds it, or another host has a run to the same path. Exit code 2: it is not a ledger, of
    /// another version, damaged, or cannot be created. Exit code 3: the disk is full, or its server cannot be reached.
    pub(crate) fn open(settings: &LedgerSettings) -> Result<Self> {
        let ledger = { Self::find(settings, Purpose::Run(settings))? }
            .ok_or_else(|| Error::internal("a ledger was not made"))?;
        if ledger.facts.run.is_elsewhere {
            return Err(on_another_host());
        }
        Ok(ledger)
    }

    /// Opens a ledger, and reads what a run of these settings finds. Where it starts, its account is added if it is missing.
    /// `None` if there is no ledger, and none is made.
    ///
    /// # Errors
    /// It cannot be read or written. Exit code 2: it has answers of several accounts, and none was named.
    fn find(settings: &LedgerSettings, purpose: Purpose<'_>) -> Result<Option<Self>> {
        let location = &settings.location;
        let is_server = matches!(location, LedgerLocation::Server(_));
        let elsewhere = |error: Error| match location {
            LedgerLocation::Server(_) => error,
            LedgerLocation::File(_) => error.or_hint(sqlite_file::HINT_OTHER_PATH),
        };
        let error = |fault: DbFault| elsewhere(location.cannot("open", &fault));
        let Some(mut opened) = connect(location, purpose).map_err(elsewhere)? else {
            return Ok(None);
        };
        let database = &mut *opened;
        let (secret, _) = read_meta(database).map_err(error)?;
        let named = settings.account.as_ref().map(|account| {
            let hasher = RequestHasher::new(&secret, &account.endpoint, &account.service_id);
            (account, hasher)
        });
        let is_added = match &named {
            Some((account, hasher)) if matches!(purpose, Purpose::Run(_)) => {
                StoredAccount::add(database, account, hasher).map_err(error)?
            }
            _ => false,
        };
        let accounts = StoredAccount::all(database).map_err(error)?;
        // A server's is made by hand, and a file's with its first run.
        let existed = is_server || !is_added || accounts.len() > 1;
        let hasher = match named {
            Some((_, hasher)) => hasher,
            None => accounts::only(&accounts, &location.shown())?,
        };
        let (own, others): (Vec<_>, Vec<_>) = { accounts.into_iter() }
            .partition(|account| account.hasher.account() == hasher.account());
        let own = own.into_iter().next();
        let answers = own.as_ref().map_or(0, |account| account.answers);
        let others = others
            .into_iter()
            .filter(|other| answers == 0 && other.answers > 0);
        // Only one host has a file.
        let place = is_server.then(|| outputs::place(&secret, settings.output.as_deref()));
        let place = place.unwrap_or_default();
        let mut run = RunRecord::read(database, &secret, settings, place).map_err(error)?;
        let recent = recent(database, run.scope.not_before).map_err(error)?;
        run.account = own.as_ref().map_or(0, |account| account.id);
        let now = run.now();
        { run.spending.read(database, run.account, now) }.map_err(error)?;
        let limit = own.as_ref().and_then(|account| account.limit);
        let facts = LedgerFacts {
            existed,
            place: location.path().to_owned(),
            hasher,
            endpoint: own.filter(|_| answers > 0).map(|account| account.address),
            usable: answers.min(recent),
            too_old: answers.saturating_sub(recent),
            known_limit: limit.filter(|limit| limit.is_recent(time(now))),
            other_accounts: others.map(|account| account.address).collect(),
            run,
        };
        Ok(Some(Self {
            database: opened,
            secret,
            facts,
            settings: settings.clone(),
        }))
    }

    /// How a file relates to the run that this one continues, over this input; `None` is an input without a path.
    ///
    /// # Errors
    /// Exit code 2: the ledger cannot be read.
    pub(crate) fn output_state(
        &mut self,
        file: &Path,
        input: Option<&Path>,
    ) -> Result<OutputState> {
        outputs::find(&mut *self.database, &self.secret, file, input)
            .map_err(|fault| self.settings.location.cannot("read", &fault))
    }

    /// Looks up what is stored, on another thread.
    ///
    /// # Errors
    /// Exit code 2: the ledger cannot be opened again.
    pub(crate) fn lookup(&self) -> Result<Lookup> {
        let error = |fault| self.settings.location.cannot("open", &fault);
        let database = self.database.beside().map_err(error)?;
        Ok(Lookup::new(database, &self.facts, &self.settings.location))
    }

    /// Starts the run, when everything else is ready: the run is recorded now, and its answers can be written.
    ///
    /// # Errors
    /// Exit code 2 or 3: the ledger cannot be written, or a thread cannot be started.
    pub(crate) fn start(mut self) -> Result<(RunningLedger, LedgerWriter)> {
        let (mut run, location) = (self.facts.run, &self.settings.location);
        let started = run.start(&mut *self.database);
        if !started.map_err(|fault| location.cannot("write", &fault))? {
            return Err(on_another_host());
        }
        self.database.run_starts();
        // Three quarters of the answers gather while other calls are out: with half of them a run needs up to a fifth more syncs,
        // and with all of them calls would have to wait during each sync.
        let enough = self.settings.in_flight.get().saturating_mul(3) / 4;
        let account = run.account;
        let budget = CallBudget::new(self.settings.limits.clone(), run.spending.clone());
        let (writer, drained, files_are_written) =
            LedgerWriter::start(self.database, run, location.path(), enough, budget)?;
        let running = RunningLedger {
            drained,
            files_are_written,
            account,
            secret: self.secret,
            settings: self.settings,
        };
        Ok((running, writer))
    }
}

/// Why a run cannot start: the lease of one to the same path lasts, which no lock here keeps apart from it.
fn on_another_host() -> Error {
    Error::busy("another host runs the same command, or a run to an output of the same path")
        .hint("give it another path; after a kill there, run this again a minute later")
}

/// The ledger of a run under way.
pub(crate) struct RunningLedger {
    /// The thread says that everything is durable; closed when its database is.
    drained: mpsc::Receiver<()>,
    files_are_written: mpsc::Sender<()>,
    account: i64,
    secret: [u8; 32],
    settings: LedgerSettings,
}

impl RunningLedger {
    /// Where it is, for people.
    pub(crate) fn path(&self) -> &Path {
        self.settings.location.path()
    }

    /// Where the runs of the account share their pace; `None` for a ledger in a file, which one host has.
    ///
    /// # Errors
    /// Exit code 2: the server's address cannot be used.
    pub(crate) fn pace_row(&self) -> Result<Option<PaceRow>> {
        let location = &self.settings.location;
        if !matches!(location, LedgerLocation::Server(_)) {
            return Ok(None);
        }
        let database = connect(location, Purpose::SecondConnection(&self.settings.wait))?;
        Ok(database.map(|database| PaceRow {
            database,
            account: self.account,
            location: location.clone(),
        }))
    }

    /// What records how a run over an input is about to leave its files. If it fails, the same command will refuse to replace them.
    /// That is better than failing the run.
    pub(crate) fn recorder(&self) -> impl Fn(&[(PathBuf, Metadata)], Option<&Path>) + use<> {
        let (settings, secret) = (self.settings.clone(), self.secret);
        move |files, input| {
            let database = connect(
                &settings.location,
                Purpose::SecondConnection(&settings.wait),
            );
            if let Ok(Some(mut database)) = database {
                let _ = outputs::record(&mut *database, &secret, files, input);
            }
        }
    }

    /// Whether its file was removed or moved.
    pub(crate) fn is_gone(&self) -> bool {
        { self.settings.location.file() }.is_some_and(|file| file.symlink_metadata().is_err())
    }

    /// Whether its file is damaged, so that no run can continue with it. All of it is read.
    pub(crate) fn is_damaged(&self) -> bool {
        { self.settings.location.file() }.is_some_and(sqlite_connect::is_damaged)
    }

    /// Waits until everything is durable, once its writer is gone; whether that took no longer than this, on a disk that may
    /// hang.
    pub(crate) fn wait_until_stored(&self, patience: Duration) -> bool {
        self.drained.recv_timeout(patience) != Err(mpsc::RecvTimeoutError::Timeout)
    }

    /// Has it recorded how the run has ended, when all its files are written. A run that is killed before is one to continue.
    pub(crate) fn finish(self, patience: Duration) {
        // If the thread is gone, so is its database.
        let _ = self.files_are_written.send(());
        // As much as can be waited for.
        let _ = self.drained.recv_timeout(patience);
    }
}

/// Looks at a ledger as a run that starts now would, beside runs that use it, and without changing anything. `None` if there is
/// none yet, and the first run would make it.
///
/// # Errors
/// Exit code 2: it cannot be used, or has answers of several accounts and none was named.
pub(crate) fn preview(settings: &LedgerSettings) -> Result<Option<(Lookup, LedgerFacts)>> {
    let found = OpenLedger::find(settings, Purpose::Look)?;
    Ok(found.map(|found| {
        let lookup = Lookup::new(found.database, &found.facts, &settings.location);
        (lookup, found.facts)
    }))
}

/// Names requests, and looks up what is known of them.
pub(crate) struct Lookup {
    hasher: RequestHasher,
    /// What is of use in which ledger; `None` where nothing is known from before.
    known: Option<(Box<dyn Database>, Scope, LedgerLocation)>,
}

impl Lookup {
    /// Look-ups in a ledger that the first run will make, or in none: what a run has paid for itself is found when it is claimed.
    pub(crate) fn nowhere() -> Self {
        Self {
            hasher: RequestHasher::of_pass(),
            known: None,
        }
    }

    fn new(database: Box<dyn Database>, facts: &LedgerFacts, ledger: &LedgerLocation) -> Self {
        Self {
            hasher: facts.hasher.clone(),
            known: Some((database, facts.run.scope.clone(), ledger.clone())),
        }
    }

    /// The key of the request with this body.
    pub(crate) fn key(&self, body: &[u8]) -> RequestKey {
        self.hasher.key(body)
    }

    /// What is known of each of these requests, in their order.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub(crate) fn look_up(&mut self, keys: &[RequestKey]) -> Result<Vec<LookupResult>> {
        let Some((database, scope, ledger)) = &mut self.known else {
            return Ok(vec![LookupResult::default(); keys.len()]);
        };
        let found = database.find(scope, keys);
        found.map_err(|fault| ledger.cannot("read", &fault))
    }
}

/// Makes a ledger on a server where there is none; whether there was none.
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
