//! A ledger wherever it is: from its opening for a run to the run's last act in it, for a look, and for looking after it by hand.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::account::LedgerStats;
use super::file::{self, ELSEWHERE, NewFile};
use super::key::RequestHasher;
use super::opening::{LedgerFacts, Opening};
use super::outputs::OutputState;
use super::settings::{LedgerLocation, LedgerSettings};
use super::store::{LedgerAdmin, Lookup, OutputRecorder, Store};
use super::write_thread::EndingThread;
use super::writer::{LedgerWriter, WriterSettings};
use super::{postgres, sqlite};
use crate::base::error::{Error, Result};

/// What to do where there is no ledger that can be looked after.
const NAME_IT: &str = "name it: a run has it in the folder of its output, with `--sandbox` as `rescore-sandbox.ledger`";

/// A ledger that is open for a run that has not started.
pub(crate) struct OpenLedger {
    // The store is closed before its new file is removed.
    store: Box<dyn Store>,
    new_file: NewFile,
    place: Option<PathBuf>,
    /// The real path of its file, if it is in one.
    file: Option<PathBuf>,
    hasher: RequestHasher,
    earliest: i64,
    enough: usize,
}

impl OpenLedger {
    /// Opens the ledger, and creates it where there is none. Also returns what the run learns of it.
    ///
    /// # Errors
    /// Exit code 75: another program holds it. Exit code 2: it is not a ledger, of another version, damaged, or cannot be
    /// created. Exit code 3: the disk is full.
    pub(crate) fn open(settings: &LedgerSettings) -> Result<(Self, LedgerFacts)> {
        let (file, is_new) = match &settings.location {
            LedgerLocation::File(path) => {
                let (real, is_new) = file::make(path).map_err(elsewhere)?;
                (Some(real), is_new)
            }
            LedgerLocation::Server(_) => (None, false),
            LedgerLocation::Temporary => (None, true),
        };
        let new_file = NewFile(file.clone().filter(|_| is_new));
        let (store, opening) = match &settings.location {
            LedgerLocation::Server(url) => postgres::open(settings, url)?,
            _ => sqlite::open(settings, file.as_deref()).map_err(elsewhere)?,
        };
        let mut facts = opening.facts;
        facts.existed = !is_new;
        let ledger = Self {
            store,
            new_file,
            place: facts.place.clone(),
            file,
            hasher: opening.hasher,
            earliest: facts.run.earliest(),
            // Three quarters of the answers gather while other calls are out: with half of them a run needs up to a fifth more
            // syncs, and with all of them calls would have to wait during each sync.
            enough: settings.in_flight.get().saturating_mul(3) / 4,
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
        self.store.output_state(file, input)
    }

    /// Makes the keys of requests.
    #[must_use]
    pub(crate) fn hasher(&self) -> RequestHasher {
        self.hasher.clone()
    }

    /// Looks up what is stored, on another thread.
    ///
    /// # Errors
    /// Exit code 2: the ledger cannot be opened again.
    pub(crate) fn lookup(&self) -> Result<Box<dyn Lookup>> {
        self.store.lookup()
    }

    /// As [`Self::start`], over a store that fails.
    #[cfg(test)]
    pub(crate) fn start_failing(
        mut self,
        faults: super::faults::StoreFaults,
    ) -> Result<(RunningLedger, LedgerWriter)> {
        let store = self.store;
        self.store = Box::new(super::faults::FailingStore {
            store,
            faults,
            groups: 0,
        });
        self.start()
    }

    /// As [`Self::start`], over a store that never answers.
    #[cfg(test)]
    pub(crate) fn start_hanging(mut self) -> Result<(RunningLedger, LedgerWriter)> {
        self.store = Box::new(super::faults::HangingStore);
        self.start()
    }

    /// Starts the run, when everything else is ready: the run is recorded now, and its answers can be written.
    ///
    /// # Errors
    /// Exit code 2 or 3: the ledger cannot be written, or a thread cannot be started.
    pub(crate) fn start(self) -> Result<(RunningLedger, LedgerWriter)> {
        let Self {
            mut store,
            mut new_file,
            place,
            file,
            earliest,
            enough,
            ..
        } = self;
        store.start()?;
        new_file.keep();
        let recorder = store.output_recorder();
        let settings = WriterSettings {
            path: place.clone().unwrap_or_else(|| PathBuf::from("memory")),
            earliest,
            is_kept: place.is_some(),
            enough,
        };
        let (writer, thread) = LedgerWriter::start(store, settings)?;
        let running = RunningLedger {
            thread,
            place,
            file,
            recorder,
        };
        Ok((running, writer))
    }
}

/// The ledger of a run under way.
pub(crate) struct RunningLedger {
    thread: EndingThread,
    place: Option<PathBuf>,
    file: Option<PathBuf>,
    recorder: OutputRecorder,
}

impl RunningLedger {
    /// Where it is, for people; `None` for one that is gone with the run.
    #[must_use]
    pub(crate) fn path(&self) -> Option<&Path> {
        self.place.as_deref()
    }

    /// What records how this run leaves its files.
    pub(crate) fn outputs(&self) -> OutputRecorder {
        OutputRecorder::clone(&self.recorder)
    }

    /// Whether its file was removed or moved.
    #[must_use]
    pub(crate) fn is_gone(&self) -> bool {
        { self.file.as_deref() }.is_some_and(|file| file.symlink_metadata().is_err())
    }

    /// Whether its file is damaged, so that no run can continue with it. All of it is read.
    #[must_use]
    pub(crate) fn is_damaged(&self) -> bool {
        self.file.as_deref().is_some_and(sqlite::is_damaged)
    }

    /// Waits until everything is durable, once its writer is gone; whether that took no longer than this, on a disk that may
    /// hang.
    pub(crate) fn settle(&self, patience: Duration) -> bool {
        self.thread.settle(patience)
    }

    /// Has it recorded how the run has ended, when all its files are written. A run that is killed before is one to continue.
    pub(crate) fn finish(self, patience: Duration) {
        self.thread.end(patience);
    }
}

/// The error of a ledger that a run cannot use.
fn elsewhere(error: Error) -> Error {
    error.or_hint(ELSEWHERE)
}

/// Looks at a ledger as a run that starts now would, beside runs that use it, and without changing anything. `None` if there is
/// none yet, and the first run would make it.
///
/// # Errors
/// Exit code 2: it cannot be used, or has answers of several accounts and none was named.
pub(crate) fn preview(settings: &LedgerSettings) -> Result<Option<(Box<dyn Lookup>, Opening)>> {
    match &settings.location {
        LedgerLocation::File(path) => sqlite::preview(settings, path).map_err(elsewhere),
        LedgerLocation::Server(url) => postgres::preview(settings, url).map(Some),
        LedgerLocation::Temporary => Ok(None),
    }
}

/// Opens an existing ledger.
///
/// # Errors
/// Exit code 75: a run or another command uses it. Exit code 2: it is missing, not a ledger, of another version, or damaged.
/// Exit code 3: its server cannot be reached.
pub(crate) fn administer(ledger: &LedgerLocation) -> Result<Box<dyn LedgerAdmin>> {
    match ledger {
        LedgerLocation::File(path) => match sqlite::SqliteAdmin::open(path) {
            Ok(ledger) => Ok(Box::new(ledger)),
            Err(error) => Err(error.or_hint(NAME_IT)),
        },
        LedgerLocation::Server(url) => Ok(Box::new(postgres::PostgresAdmin::open(url)?)),
        LedgerLocation::Temporary => Err(nowhere()),
    }
}

/// What is in a ledger, while runs may be using it.
///
/// # Errors
/// As [`administer`], but for exit code 75.
pub(crate) fn stats(ledger: &LedgerLocation) -> Result<LedgerStats> {
    match ledger {
        LedgerLocation::File(path) => sqlite::stats(path).map_err(|error| error.or_hint(NAME_IT)),
        LedgerLocation::Server(url) => postgres::stats(url),
        LedgerLocation::Temporary => Err(nowhere()),
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

fn nowhere() -> Error {
    Error::internal("a ledger without a place has nothing to look after")
}
