//! A ledger from its opening for a run to the run's last act in it, and what a run finds there.

use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use super::accounts::{self, KnownLimit, StoredAccount};
use super::answers::{LookupResult, Scope};
use super::database::{Database, Purpose, read_meta};
use super::fault::DbFault;
use super::key::{RequestHasher, RequestKey};
use super::outputs::{self, OutputState};
use super::pace::PaceRow;
use super::runs::RunRecord;
use super::settings::{LedgerLocation, LedgerSettings, time};
use super::writer::{LedgerWriter, WriteThread};
use super::{postgres, sqlite};
use crate::base::error::{Error, Result};

/// What to do where there is no ledger that can be looked after.
pub(super) const NAME_IT: &str = "name it: a run has it in the folder of its output, with `--sandbox` as `rescore-sandbox.ledger`";

/// Opens a database; `None` if there is none yet, and none is made.
pub(super) fn connect(
    location: &LedgerLocation,
    purpose: Purpose<'_>,
) -> Result<Option<Box<dyn Database>>> {
    match location {
        LedgerLocation::File(path) => sqlite::open(path, purpose),
        LedgerLocation::Server(url) => Ok(Some(postgres::open(url, purpose))),
        LedgerLocation::Temporary => match purpose {
            Purpose::Run(_) => sqlite::temporary().map(Some),
            _ => Ok(None),
        },
    }
}

/// What a run finds in a ledger.
#[derive(Clone)]
pub(crate) struct LedgerFacts {
    /// Whether a run or another command has used the ledger before.
    pub(crate) existed: bool,
    /// Where it is, for people; `None` for one that is gone with the run.
    pub(crate) place: Option<PathBuf>,
    /// Makes the keys that answers are found by.
    pub(crate) hasher: RequestHasher,
    /// The address whose answers are found; `None` if there are answers of none.
    pub(crate) endpoint: Option<String>,
    /// What is known of the run.
    pub(crate) run: RunRecord,
    /// Answers of this address and service ID that the run may use.
    pub(crate) usable: u64,
    /// Those that are too old for it.
    pub(crate) too_old: u64,
    /// The limit that an earlier run found, unless that was too long ago.
    pub(crate) known_limit: Option<KnownLimit>,
    /// The addresses whose answers it has, if it has none of this address and service ID.
    pub(crate) other_accounts: Vec<String>,
}

/// An open ledger, its secret, and what a run finds in it.
type FoundLedger = (Box<dyn Database>, [u8; 32], LedgerFacts);

/// Opens a ledger, and reads what a run of these settings finds. Where it `starts`, its account is added if it is
/// missing. `None` if there is none, and none is made.
fn find(settings: &LedgerSettings, starts: bool) -> Result<Option<FoundLedger>> {
    let location = &settings.location;
    let purpose = if starts {
        Purpose::Run(settings)
    } else {
        Purpose::Look
    };
    let error = |fault: DbFault| location.cannot("open", &fault);
    let find = || {
        let Some(mut database) = connect(location, purpose)? else {
            return Ok(None);
        };
        let (secret, _) = read_meta(&mut *database).map_err(error)?;
        let facts = LedgerFacts::read(&mut *database, &secret, settings, starts)?;
        Ok(Some((database, secret, facts)))
    };
    find().map_err(|error: Error| match location {
        LedgerLocation::Server(_) => error,
        _ => error.or_hint(sqlite::ELSEWHERE),
    })
}

impl LedgerFacts {
    /// Reads what a run of these settings finds; where it `starts`, its account is added if it is missing.
    ///
    /// # Errors
    /// The ledger cannot be read or written. Exit code 2: it has answers of several accounts, and none was named.
    fn read(
        database: &mut dyn Database,
        secret: &[u8; 32],
        settings: &LedgerSettings,
        starts: bool,
    ) -> Result<Self> {
        let error = |fault| settings.location.cannot("open", &fault);
        let named = settings.account.as_ref();
        let added = match named {
            Some(named) if starts => StoredAccount::add(database, secret, named).map_err(error)?,
            _ => false,
        };
        let accounts = StoredAccount::all(database).map_err(error)?;
        // A server's is made by hand, and a file's with its first run.
        let is_server = matches!(settings.location, LedgerLocation::Server(_));
        let existed = is_server || !added || accounts.len() > 1;
        let (hasher, found, other_accounts) =
            accounts::find(named, accounts, secret, &settings.location.shown())?;
        // Only one host has a file.
        let place = is_server.then(|| outputs::place(secret, settings.output.as_deref()));
        let mut run = RunRecord::read(database, secret, settings, place.unwrap_or_default())
            .map_err(error)?;
        let recent = recent(database, run.scope.not_before).map_err(error)?;
        run.account = found.as_ref().map_or(0, |account| account.id);
        let answers = found.as_ref().map_or(0, |account| account.answers);
        let limit = found.as_ref().and_then(|account| account.limit);
        let answered = found.filter(|account| account.answers > 0);
        Ok(Self {
            existed,
            place: settings.location.path(),
            hasher,
            endpoint: answered.map(|account| account.address),
            usable: answers.min(recent),
            too_old: answers.saturating_sub(recent),
            known_limit: limit.filter(|limit| limit.is_recent(time(run.now()))),
            other_accounts,
            run,
        })
    }
}

/// How many answers of all accounts arrived since then, or some more where places are empty: they are in the order in which they
/// arrived, so that the first of them is found by halves.
fn recent(database: &mut dyn Database, not_before: i64) -> Result<u64, DbFault> {
    if not_before == i64::MIN {
        return Ok(u64::MAX);
    }
    let mut number = |query: &str| {
        let rows = database.query(query)?;
        let number = rows.first().map(|row| row.get::<i64>(0)).transpose()?;
        Ok::<_, DbFault>(number.unwrap_or(0))
    };
    let last = number("SELECT seq FROM answers ORDER BY seq DESC LIMIT 1")?;
    let (mut first, mut behind) = (0, last.saturating_add(1));
    while first < behind {
        let middle = first + (behind - first) / 2;
        let at = format!("SELECT at FROM answers WHERE seq >= {middle} ORDER BY seq LIMIT 1");
        if number(&at)? < not_before {
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
    pub(super) facts: LedgerFacts,
    settings: LedgerSettings,
}

impl OpenLedger {
    /// Opens the ledger, and creates it where there is none. Also returns what the run learns of it.
    ///
    /// # Errors
    /// Exit code 75: another program holds it, or another host has a run to the same path. Exit code 2: it is not a ledger, of
    /// another version, damaged, or cannot be created. Exit code 3: the disk is full, or its server cannot be reached.
    pub(crate) fn open(settings: &LedgerSettings) -> Result<(Self, LedgerFacts)> {
        let (database, secret, facts) =
            { find(settings, true)? }.ok_or_else(|| Error::internal("a ledger was not made"))?;
        if facts.run.is_elsewhere {
            return Err(on_another_host());
        }
        let ledger = Self {
            database,
            secret,
            facts: facts.clone(),
            settings: settings.clone(),
        };
        Ok((ledger, facts))
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

    /// Makes the keys of requests.
    pub(crate) fn hasher(&self) -> RequestHasher {
        self.facts.hasher.clone()
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

    /// As [`Self::start`], with a thread that fails like this, or never answers.
    #[cfg(test)]
    pub(crate) fn start_failing(
        self,
        faults: impl Into<Option<super::faults::StoreFaults>>,
    ) -> Result<(RunningLedger, LedgerWriter)> {
        self.start_with(|thread| thread.faults = super::faults::GroupFaults::new(faults.into()))
    }

    /// As [`Self::start`], over a database that never answers.
    #[cfg(test)]
    pub(crate) fn start_hanging(self) -> Result<(RunningLedger, LedgerWriter)> {
        self.start_failing(None)
    }

    /// Starts the run, when everything else is ready: the run is recorded now, and its answers can be written.
    ///
    /// # Errors
    /// Exit code 2 or 3: the ledger cannot be written, or a thread cannot be started.
    pub(crate) fn start(self) -> Result<(RunningLedger, LedgerWriter)> {
        self.start_with(|_| {})
    }

    fn start_with(
        self,
        change: impl FnOnce(&mut WriteThread),
    ) -> Result<(RunningLedger, LedgerWriter)> {
        let Self {
            mut database,
            secret,
            facts,
            settings,
        } = self;
        let mut run = facts.run;
        let started = run.start(&mut *database);
        if !started.map_err(|fault| settings.location.cannot("write", &fault))? {
            return Err(on_another_host());
        }
        database.run_starts();
        // Three quarters of the answers gather while other calls are out: with half of them a run needs up to a fifth more syncs,
        // and with all of them calls would have to wait during each sync.
        let enough = settings.in_flight.get().saturating_mul(3) / 4;
        let (place, account) = (settings.location.path(), run.account);
        let mut thread = WriteThread::new(database, run, place.as_deref(), enough);
        change(&mut thread);
        let (writer, (settled, files_are_written)) = LedgerWriter::start(thread, place.is_some())?;
        let running = RunningLedger {
            settled,
            files_are_written,
            place,
            account,
            secret,
            settings,
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
    settled: mpsc::Receiver<()>,
    files_are_written: mpsc::Sender<()>,
    place: Option<PathBuf>,
    account: i64,
    secret: [u8; 32],
    settings: LedgerSettings,
}

impl RunningLedger {
    /// Where it is, for people; `None` for one that is gone with the run.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.place.as_deref()
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
        let database = connect(location, Purpose::Beside(&self.settings.wait))?;
        Ok(database.map(|database| PaceRow {
            database,
            account: self.account,
            location: location.clone(),
        }))
    }

    /// What records how a run over an input is about to leave its files.
    pub(crate) fn recorder(
        &self,
    ) -> impl Fn(&[(PathBuf, Metadata)], Option<&Path>) -> Result<()> + use<> {
        let (settings, secret) = (self.settings.clone(), self.secret);
        move |files, input| {
            let Some(mut database) = connect(&settings.location, Purpose::Beside(&settings.wait))?
            else {
                return Ok(());
            };
            let recorded = database.write(&outputs::record(&secret, files, input));
            let recorded = recorded.map(drop);
            recorded.map_err(|fault| settings.location.cannot("write", &fault))
        }
    }

    /// Its file, if it is in one.
    fn file(&self) -> Option<&Path> {
        match &self.settings.location {
            LedgerLocation::File(path) => Some(path),
            LedgerLocation::Server(_) | LedgerLocation::Temporary => None,
        }
    }

    /// Whether its file was removed or moved.
    pub(crate) fn is_gone(&self) -> bool {
        { self.file() }.is_some_and(|file| file.symlink_metadata().is_err())
    }

    /// Whether its file is damaged, so that no run can continue with it. All of it is read.
    pub(crate) fn is_damaged(&self) -> bool {
        self.file().is_some_and(sqlite::is_damaged)
    }

    /// Waits until everything is durable, once its writer is gone; whether that took no longer than this, on a disk that may
    /// hang.
    pub(crate) fn settle(&self, patience: Duration) -> bool {
        self.settled.recv_timeout(patience) != Err(mpsc::RecvTimeoutError::Timeout)
    }

    /// Has it recorded how the run has ended, when all its files are written. A run that is killed before is one to continue.
    pub(crate) fn finish(self, patience: Duration) {
        // If the thread is gone, so is its database.
        let _ = self.files_are_written.send(());
        // As much as can be waited for.
        let _ = self.settled.recv_timeout(patience);
    }
}

/// Looks at a ledger as a run that starts now would, beside runs that use it, and without changing anything. `None` if there is
/// none yet, and the first run would make it.
///
/// # Errors
/// Exit code 2: it cannot be used, or has answers of several accounts and none was named.
pub(crate) fn preview(settings: &LedgerSettings) -> Result<Option<(Lookup, LedgerFacts)>> {
    let found = find(settings, false)?;
    Ok(found.map(|(database, _, facts)| {
        let lookup = Lookup::new(Some(database), &facts, &settings.location);
        (lookup, facts)
    }))
}

/// Looks up what is known of requests.
pub(crate) struct Lookup {
    /// What is of use in which ledger; `None` where nothing is known from before: what is asked for is found when it is claimed.
    known: Option<(Box<dyn Database>, Scope, LedgerLocation)>,
    #[cfg(test)]
    faults: super::faults::GroupFaults,
}

impl Lookup {
    /// Look-ups in a ledger that the first run will make, or in none.
    pub(crate) const fn nowhere() -> Self {
        Self::over(None)
    }

    fn new(
        database: Option<Box<dyn Database>>,
        facts: &LedgerFacts,
        ledger: &LedgerLocation,
    ) -> Self {
        let known = database.map(|database| (database, facts.run.scope.clone(), ledger.clone()));
        Self::over(known)
    }

    const fn over(known: Option<(Box<dyn Database>, Scope, LedgerLocation)>) -> Self {
        Self {
            known,
            #[cfg(test)]
            faults: super::faults::GroupFaults::NONE,
        }
    }

    /// The same, failing like this.
    #[cfg(test)]
    pub(crate) fn failing(mut self, faults: super::faults::StoreFaults) -> Self {
        self.faults = super::faults::GroupFaults::new(Some(faults));
        self
    }

    /// What is known of each of these requests, in their order.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub(crate) fn look_up(&mut self, keys: &[RequestKey]) -> Result<Vec<LookupResult>> {
        #[cfg(test)]
        self.faults.check_read()?;
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
