//! Every paid answer, durable: what was asked once is never paid for again.
//!
//! A [`Ledger`] is one SQLite database of answers by what was asked. It gives three things: [`RequestHasher`], which name
//! requests; a [`Lookup`] for what earlier runs were told; and a [`Keeper`] that makes new answers durable. Without a run,
//! [`survey()`] tells what is in one and [`Care`] removes answers. It knows neither files of users nor calls, and holds
//! nothing of a person.

mod bloom_filter;
mod care;
mod checksum;
mod database;
#[cfg(test)]
mod failing;
mod failures;
mod fields;
mod file;
mod keeper;
mod left;
mod limits;
mod lookup;
mod place;
mod poison;
mod queue;
mod request_key;
mod run;
mod schema;
mod sqlite;
mod survey;

use std::collections::HashSet;
use std::fs::Metadata;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tempfile::TempDir;

pub(crate) use care::{Care, Cleaned};
pub(crate) use file::{ENDS, ledger_of};
pub(crate) use keeper::{Finished, Keeper, Whose};
pub(crate) use left::Standing;
pub(crate) use limits::Known as KnownLimit;
pub(crate) use lookup::Lookup;
pub use lookup::{Found, Known};
pub use place::Place;
pub(crate) use request_key::{RequestHasher, RequestKey};
pub(crate) use run::Past;
pub use survey::survey;
pub(crate) use survey::{AGES, Service};

#[cfg(test)]
pub(crate) use failing::Fails;

use crate::base::error::{Error, Result};
use crate::raw_json::Pointer;
use checksum::Checksums;
use database::{Database, Writing};
use fields::Fields;
use file::Lock;
use keeper::{Ended, Store};
use lookup::Reading;
use place::{Taken, Unused, refuse_other};
use run::Run;

/// Which answers of earlier runs are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reuse {
    /// All of them.
    All,
    /// Those that are not older, by the wall clock.
    Younger(Duration),
    /// None. In the run's own ledger its first answer replaces them all; in a shared one new answers take the place of
    /// old ones.
    Nothing,
    /// Those that a finished run used, with its own: only what failed is asked again.
    Retry,
}

/// What a ledger must know.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where it lies.
    pub place: Place,
    /// Which answers are used.
    pub reuse: Reuse,
    /// What the run writes: by it, one that was stopped is known again. `None` is standard output.
    pub output: Option<PathBuf>,
    /// The service's address.
    pub endpoint: String,
    /// The calling application's identifier.
    pub service_id: String,
    /// The further fields of an answer that the run needs.
    pub captured: Vec<Pointer>,
    /// How many calls can be in flight: answers come in groups of that order.
    pub in_flight: NonZeroUsize,
}

/// Answers that a run's own ledger holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Held {
    /// How many, of the address and service id at hand.
    pub(crate) answers: u64,
    /// When the run began that they are from.
    pub(crate) begun: SystemTime,
}

/// An open ledger.
pub struct Ledger {
    path: PathBuf,
    place: Place,
    keys: RequestHasher,
    checksums: Checksums,
    captured: Vec<Pointer>,
    fields: Box<[Pointer]>,
    in_flight: NonZeroUsize,
    run: Run,
    past: Past,
    reuse: Reuse,
    known: Option<KnownLimit>,
    poison: HashSet<RequestKey>,
    /// There are answers in it.
    any: bool,
    held: Option<Held>,
    /// None of its answers is used, and the first one of this run replaces them.
    replaces: bool,
    database: Option<Database>,
    ended: Option<Receiver<Ended>>,
    /// It was there when it was opened.
    was_there: bool,
    /// Made for a run that has not begun.
    unused: Unused,
    // Last: files are closed before their directory and their lock go.
    scratch: Option<TempDir>,
    _lock: Option<Lock>,
}

impl Ledger {
    /// Opens the ledger, and makes it where there is none.
    ///
    /// # Errors
    /// Exit code 2: another run has it, it is no ledger, of a newer version, damaged, or cannot be made; or there is no
    /// finished run whose failed rows could be retried.
    pub fn open(settings: Settings) -> Result<Self> {
        let Settings {
            place,
            reuse,
            output,
            endpoint,
            service_id,
            captured,
            in_flight,
        } = settings;
        let (taken, kind) = (place.take()?, place.kind());
        let path = &taken.path;
        let found = sqlite::check(path)?;
        refuse_other(found, kind, path)?;
        let was_there = found.is_some();
        let now = SystemTime::now();
        let own = taken.lock.is_some();
        // Of what cannot be read, no answer is lost.
        let beyond_use = own && reuse == Reuse::Nothing && was_there && sqlite::is_damaged(path);
        if beyond_use {
            file::remove(path).map_err(|e| taken.cannot_write().because(e))?;
        }
        let there = was_there && !beyond_use;
        let made = !there && own;
        let mut unused = Unused(made.then(|| path.clone()));
        file::create(path, kind).map_err(|e| taken.cannot_write().because(e))?;
        let damaged = |error| taken.cannot_open(&error);
        let connection = sqlite::open(path, kind, taken.scratch.is_none()).map_err(damaged)?;
        // A run of the other kind may have made it this very moment; then it is not ours to remove.
        let found = sqlite::kind(&connection).map_err(damaged)?;
        refuse_other(found, kind, path).inspect_err(|_| unused.stays())?;
        if there {
            sqlite::check_soundness(&connection, path).map_err(damaged)?;
        }
        let head = sqlite::head(&connection).map_err(damaged)?;
        sqlite::reserve(&connection, in_flight).map_err(damaged)?;
        let checksums = head.checksums();
        let keys = RequestHasher::new(&head.secret, &endpoint, &service_id);
        let output = output.as_deref();
        let noted = Run::find(&connection, checksums, &keys, output).map_err(damaged)?;
        let past = noted.map_or(Past::Nothing, |(_, past)| past);
        if reuse == Reuse::Retry && past == Past::Nothing {
            return Err(place::nothing_to_retry(path, there));
        }
        let context = sqlite::context(&connection, checksums, &keys, &endpoint).map_err(damaged)?;
        let Fields { pointers, list } =
            Fields::open(&connection, checksums, &captured, millis(now)).map_err(damaged)?;
        let known = limits::known(&connection, checksums, context, now).map_err(damaged)?;
        let poison = poison::known(&connection, context, now).map_err(damaged)?;
        let any = sqlite::any(&connection).map_err(damaged)?;
        let is_over = is_over(past, reuse, own);
        let replaces = own && any && (is_over || reuse == Reuse::Nothing);
        let not_before = match reuse {
            Reuse::All | Reuse::Retry => i64::MIN,
            Reuse::Younger(age) => millis(now.checked_sub(age).unwrap_or(UNIX_EPOCH)),
            // None that is there counts from the moment on at which the run is noted.
            Reuse::Nothing if own => i64::MIN,
            Reuse::Nothing => sqlite::fresh_from(&connection, millis(now)).map_err(damaged)?,
        };
        let run = match noted {
            Some((run, _)) if !is_over => run.again(reuse, own, millis(now), not_before),
            // What is too old for a run that uses nothing is from before it.
            _ => Run::begin(&keys, output, not_before.max(millis(now)), not_before),
        };
        let since = noted.map_or(head.begun, |(run, _)| run.begun);
        // What a new run that was stopped has not replaced yet is of no use to it.
        let answers = held(&connection, context, own, since)
            .map_err(damaged)?
            .filter(|_| !run.leftover);
        let Taken {
            path,
            lock,
            scratch,
        } = taken;
        let writing = Writing {
            checksums,
            context,
            capture: list,
            run,
            own,
        };
        let database = Database::new(connection, path.clone(), writing);
        Ok(Self {
            unused,
            was_there,
            any,
            held: answers,
            database: Some(database),
            path,
            place,
            keys,
            checksums,
            captured,
            fields: pointers,
            in_flight,
            run,
            past,
            reuse,
            known,
            poison,
            replaces,
            ended: None,
            scratch,
            _lock: lock,
        })
    }

    /// What the run's own ledger held of the run that this one goes on with.
    #[must_use]
    pub(crate) fn held(&self) -> Option<Held> {
        self.held.filter(|_| !self.replaces)
    }

    /// What it holds and will lose to the run's first answer.
    #[must_use]
    pub(crate) fn replaced(&self) -> Option<Held> {
        self.held.filter(|_| self.replaces)
    }

    /// What was noted of the run to this output before this one.
    #[must_use]
    pub(crate) const fn past(&self) -> Past {
        self.past
    }

    /// Whether this run goes on with the one before, or retries what failed there.
    #[must_use]
    pub(crate) fn goes_on(&self) -> bool {
        match self.past {
            Past::Nothing => false,
            Past::Stopped => self.reuse != Reuse::Nothing,
            Past::Finished { .. } => self.reuse == Reuse::Retry,
        }
    }

    /// Whether it was there when it was opened.
    #[must_use]
    pub(crate) const fn was_there(&self) -> bool {
        self.was_there
    }

    /// Where it is; `None` for one that goes with the run.
    #[must_use]
    pub(crate) fn path(&self) -> Option<&Path> {
        (self.place != Place::Scratch).then_some(&*self.path)
    }

    /// Whether it goes with the run.
    #[must_use]
    pub(crate) fn is_scratch(&self) -> bool {
        self.place == Place::Scratch
    }

    /// Whether it is the run's own and stays until every row has a verdict.
    #[must_use]
    pub(crate) const fn is_own(&self) -> bool {
        matches!(self.place, Place::Beside(_))
    }

    /// How a file stands to the run that this one goes on with, over this input; `None` is one without a path.
    ///
    /// # Errors
    /// Exit code 2: the ledger cannot be read.
    pub fn standing(&self, file: &Path, input: Option<&Path>) -> Result<Standing> {
        sqlite::open_beside(&self.path)
            .and_then(|connection| {
                let head = sqlite::head(&connection)?;
                left::standing(&connection, &head, file, input)
            })
            .map_err(|error| sqlite::cannot_open(&self.path, &error))
    }

    /// Notes how this run is about to leave its files.
    ///
    /// # Errors
    /// Exit code 3: the ledger cannot be written. Then the same command does not know them again.
    pub(crate) fn note(&self, files: &[(PathBuf, Metadata)], input: Option<&Path>) -> Result<()> {
        sqlite::open_beside(&self.path)
            .and_then(|mut connection| {
                let head = sqlite::head(&connection)?;
                left::note(&mut connection, &head, files, input)
            })
            .map_err(|error| {
                Error::stopped(format!("cannot write the ledger `{}`", self.path.display()))
                    .because(sqlite::system(&error))
            })
    }

    /// The limit that an earlier run found, unless that was too long ago.
    #[must_use]
    pub(crate) const fn known(&self) -> Option<KnownLimit> {
        self.known
    }

    /// Requests over which the service failed in earlier runs while it answered others.
    #[must_use]
    pub(crate) fn poison(&self) -> HashSet<RequestKey> {
        self.poison.clone()
    }

    /// Names requests.
    #[must_use]
    pub fn keys(&self) -> RequestHasher {
        self.keys.clone()
    }

    /// The further fields that new answers must be brought with: those that the run needs, in its order, and then those
    /// that other runs of the ledger do.
    #[must_use]
    pub fn fields(&self) -> &[Pointer] {
        &self.fields
    }

    /// For what earlier runs were told; `None` where there is nothing to be found.
    ///
    /// # Errors
    /// Exit code 2: it cannot be opened once more.
    pub fn lookup(&self) -> Result<Option<Lookup>> {
        // A run that was stopped may have failures alone.
        let may_find = (self.any && !self.replaces) || self.goes_on();
        may_find.then(|| self.open_lookup()).transpose()
    }

    fn open_lookup(&self) -> Result<Lookup> {
        let reading = Reading {
            checksums: self.checksums,
            keys: self.keys.clone(),
            run: self.run,
            ages: matches!(self.reuse, Reuse::Younger(_)),
            wanted: self.captured.iter().map(Pointer::to_string).collect(),
        };
        Lookup::open(&self.path, reading)
    }

    /// For what this run is told. There is one, and with it the run begins: it is noted now, and not before everything
    /// else is ready.
    ///
    /// # Errors
    /// Exit code 2 or 3: it cannot be opened once more or written, or a thread cannot be started.
    pub fn keeper(&mut self) -> Result<Keeper> {
        self.keeper_over(|database| database)
    }

    /// As [`Self::keeper`], over a store that fails.
    #[cfg(test)]
    pub(crate) fn failing_keeper(&mut self, fails: Fails) -> Result<Keeper> {
        self.keeper_over(|database| failing::Failing::new(database, fails))
    }

    /// As [`Self::keeper`], over a store that never answers.
    #[cfg(test)]
    pub(crate) fn hanging_keeper(&mut self) -> Result<Keeper> {
        self.keeper_over(|_| failing::Hanging)
    }

    fn keeper_over<S: Store + 'static>(
        &mut self,
        store: impl FnOnce(Database) -> S,
    ) -> Result<Keeper> {
        let mut database = self
            .database
            .take()
            .ok_or_else(|| Error::internal("a ledger has one keeper"))?;
        let shared = matches!(self.place, Place::Shared(_));
        self.run = database.begin_run(std::mem::take(&mut self.replaces))?;
        let lookup = self.open_lookup()?;
        #[cfg(unix)]
        if self.scratch.take().is_some() {
            // Everybody who needs it has it open: without a name it is gone with us, whatever ends us.
            database.has_no_name();
        }
        // Half of the calls gather while the others are out.
        let (keeper, ended) = Keeper::start(
            store(database),
            &self.path,
            self.keys.clone(),
            lookup,
            shared,
            self.in_flight.get() / 2,
        )?;
        self.ended = Some(ended);
        self.unused.stays();
        Ok(keeper)
    }

    /// Whether its file is damaged, so that no run can go on with it. All of it is read.
    #[must_use]
    pub(crate) fn is_damaged(&self) -> bool {
        sqlite::is_damaged(&self.path)
    }

    /// Ends it, once its keeper is gone. The run's own is removed as `removed` says; another one never. The thread that
    /// writes gets `patience` to close the database, on a disk that may hang.
    ///
    /// # Errors
    /// It should be removed and cannot be.
    pub fn end(self, removed: Removed, patience: Duration) -> Result<Rest> {
        let counted = match &self.ended {
            None => None,
            Some(ended) => match ended.recv_timeout(patience) {
                Ok(Ended { counted }) => counted,
                // It is still at the files: they stay.
                Err(_) if self.is_own() => return Ok(Rest::Kept(None)),
                Err(_) => None,
            },
        };
        // What somebody has removed is not there to be told of.
        if self.place == Place::Scratch || !self.path.exists() {
            return Ok(Rest::Nothing);
        }
        let goes = match (removed, counted) {
            (Removed::Never, _) => false,
            (Removed::WhenUsed(used), Some(counted)) => counted.all <= used.saturating_mul(2),
            (Removed::WhenEmpty, Some(counted)) => counted.all == 0,
            (Removed::WhenUsed(_) | Removed::WhenEmpty, None) => self.ended.is_none() && !self.any,
        };
        let answers = counted.map(|counted| counted.ours);
        if self.is_own() && goes {
            file::remove(&self.path).map_err(|e| {
                Error::stopped(format!("cannot remove `{}`", self.path.display())).because(e)
            })?;
            return Ok(Rest::Nothing);
        }
        Ok(Rest::Kept(answers))
    }
}

/// Whether a run to the same output is another one than what is noted.
fn is_over(past: Past, reuse: Reuse, own: bool) -> bool {
    match past {
        Past::Nothing => false,
        // In a shared ledger it is still compared with what was there before it was stopped first.
        Past::Stopped => own && reuse == Reuse::Nothing,
        Past::Finished { .. } => reuse != Reuse::Retry,
    }
}

/// What a run's own ledger holds for it. Nobody else waits for all of a ledger to be counted.
fn held(
    connection: &rusqlite::Connection,
    context: i64,
    own: bool,
    begun: i64,
) -> rusqlite::Result<Option<Held>> {
    if !own {
        return Ok(None);
    }
    let answers = sqlite::count(connection, context)?;
    Ok((answers > 0).then(|| Held {
        answers,
        begun: time(begun),
    }))
}

/// When the run's own ledger is removed at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removed {
    /// Every row has its verdict, from so many answers: it goes, with what is left of rows that were edited meanwhile. It
    /// stays when most of it was not used: then it is another file's or account's, by a slip, and was paid for as well.
    WhenUsed(u64),
    /// There is nothing to go on with but what may be in it.
    WhenEmpty,
    /// Rows are there that the next run goes on with.
    Never,
}

/// What stays of a ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    /// Nothing.
    Nothing,
    /// The file, with so many answers of the address and service id at hand, where that is known.
    Kept(Option<u64>),
}

/// A time as the database has it. In seconds, runs that follow each other at once could not be told apart.
fn millis(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

fn time(millis: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}

#[cfg(test)]
mod tests;
