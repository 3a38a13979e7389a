//! A ledger that is open for a run that has not started.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rusqlite::Connection;

use super::file::LedgerFile;
use super::plan::{RunContext, RunPlan};
use super::running::RunningLedger;
use crate::base::error::Result;
use crate::ledger::clock::{LedgerClock, millis, time};
use crate::ledger::db::answers::AnswerReader;
use crate::ledger::db::captures::{self, LackingAnswers};
use crate::ledger::db::connect::{Connect, Mode};
use crate::ledger::db::database::{Database, WriteScope};
use crate::ledger::db::latest_answers::LatestAnswers;
use crate::ledger::db::outputs::OutputState;
use crate::ledger::db::request_reader::ReadScope;
use crate::ledger::db::runs::{PreviousRun, RunRecord};
use crate::ledger::db::schema::LedgerInfo;
use crate::ledger::db::{answers, contexts, errors, limits, outputs};
use crate::ledger::facts::{EarlierAnswers, LedgerFacts};
#[cfg(test)]
use crate::ledger::faults::{FailingStore, HangingStore, StoreFaults};
use crate::ledger::kept_fields::FieldsToKeep;
use crate::ledger::known_limit::KnownLimit;
use crate::ledger::lease::LeaseTerms;
use crate::ledger::location::{ClaimedLocation, NewFile};
use crate::ledger::lock::OutputLock;
use crate::ledger::lookup::Lookup;
use crate::ledger::request_key::RequestHasher;
use crate::ledger::settings::{LedgerSettings, Reuse};
use crate::ledger::store::Store;
use crate::ledger::writer::{LedgerWriter, WriterSettings};
use crate::raw_json::Pointer;

/// What a ledger has for a run.
struct Contents {
    /// Whether there are answers, of whatever run.
    any: bool,
    earlier: Option<EarlierAnswers>,
    known_limit: Option<KnownLimit>,
    /// Whether there are answers of this account.
    has_answers: bool,
    /// The addresses whose answers there are, if there are none of this account.
    other_accounts: Vec<String>,
}

/// A ledger that is open for a run that has not started.
pub struct OpenLedger {
    plan: RunPlan,
    /// Whether there are answers, of whatever run.
    any: bool,
    lookups: ReadScope,
    fields: FieldsToKeep,
    in_flight: NonZeroUsize,
    longest_call: Duration,
    database: Database,
    // In this order: the database is closed before its file is removed, and the lock is released last.
    new_file: NewFile,
    claim: ClaimedLocation,
}

impl OpenLedger {
    /// Opens the ledger, and creates it where there is none.
    ///
    /// # Errors
    /// Exit code 75: another run holds it. Exit code 2: it is not a ledger, of another version, damaged, or cannot be created;
    /// or there is no finished run whose failed rows could be retried.
    pub fn open(settings: LedgerSettings) -> Result<Self> {
        Ok(Self::open_with(settings, None)?.0)
    }

    /// As [`Self::open`], for a run that holds the lock of its output already. Also returns what the run learns of it.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(crate) fn open_with(
        settings: LedgerSettings,
        lock: Option<OutputLock>,
    ) -> Result<(Self, LedgerFacts)> {
        let (mut ledger, facts) = Self::find(settings, lock)?;
        // What is paid for must have a place.
        ledger.database.keep_space(ledger.in_flight)?;
        Ok((ledger, facts))
    }

    /// Opens or creates it, and finds what it has for the run.
    fn find(settings: LedgerSettings, lock: Option<OutputLock>) -> Result<(Self, LedgerFacts)> {
        let now = SystemTime::now();
        let claim = settings.location.claim(lock)?;
        let file = LedgerFile::open(&claim, settings.reuse)?;
        let (connection, own) = (&file.connection, claim.is_own());
        let unreadable = |error| claim.cannot_open(&error);

        let info = LedgerInfo::read(connection).map_err(unreadable)?;
        let checksums = info.checksums();
        let hasher = hasher(&claim, &info, (&settings.endpoint, &settings.service_id));
        let name = hasher.run(settings.output.as_deref());
        let found = RunRecord::find(connection, checksums, name).map_err(unreadable)?;
        if settings.reuse == Reuse::Retry && found.is_none() {
            return Err(claim.nothing_to_retry(file.existed));
        }
        let context = contexts::id(connection, checksums, &hasher, &settings.endpoint);
        let context = context.map_err(unreadable)?;
        let fields = captures::open(connection, checksums, &settings.captured, millis(now));
        let fields = fields.map_err(unreadable)?;
        let (to_keep, latest) = (fields.to_keep(), Arc::<LatestAnswers>::default());
        let contents = Contents::read(connection, &latest, &info, (context, own), found, now)
            .map_err(unreadable)?;
        let plan = RunContext {
            name,
            found,
            reuse: settings.reuse,
            own,
            any: contents.any,
        };
        let plan = RunPlan::make(connection, &plan, now).map_err(unreadable)?;
        let lacking =
            lacking(connection, &info, (context, &settings.captured), &plan).map_err(unreadable)?;

        let scope = WriteScope {
            checksums,
            latest: Arc::clone(&latest),
            context,
            fields,
            run: plan.run,
            own,
        };
        let ledger = Self {
            database: Database::new(file.connection, claim.path().to_owned(), scope),
            new_file: file.new_file,
            lookups: ReadScope {
                checksums,
                latest,
                hasher,
                run: plan.run,
                ages: matches!(plan.reuse, Reuse::Recent(_)),
                clock: LedgerClock::at(millis(now)),
                fields: settings.captured.iter().map(Pointer::to_string).collect(),
            },
            plan,
            any: contents.any,
            fields: to_keep,
            in_flight: settings.in_flight,
            longest_call: settings.longest_call,
            claim,
        };
        let facts = contents.facts(&ledger.plan, lacking, file.existed, &ledger.claim);
        Ok((ledger, facts))
    }

    /// How a file relates to the run that this one continues, over this input; `None` is an input without a path.
    ///
    /// # Errors
    /// Exit code 2: the ledger cannot be read.
    pub fn output_state(&self, file: &Path, input: Option<&Path>) -> Result<OutputState> {
        let path = self.claim.path();
        Connect::to(Mode::Read)
            .open(path)
            .and_then(|connection| {
                let info = LedgerInfo::read(&connection)?;
                outputs::state(&connection, &info, file, input)
            })
            .map_err(|error| errors::cannot_open(path, &error))
    }

    /// Makes the keys of requests.
    #[must_use]
    pub fn hasher(&self) -> RequestHasher {
        self.lookups.hasher.clone()
    }

    /// The additional fields that new answers must be stored with: those that the run needs, in its order, and then those
    /// that other runs of the ledger need.
    #[must_use]
    pub fn fields(&self) -> FieldsToKeep {
        self.fields.clone()
    }

    /// Looks up what earlier runs stored; `None` where there is nothing to find.
    ///
    /// # Errors
    /// Exit code 2: the ledger cannot be opened again.
    pub fn lookup(&self) -> Result<Option<Lookup>> {
        // A run that was stopped may have stored only failures.
        let may_find = (self.any && !self.plan.replaces) || self.plan.continues();
        may_find.then(|| self.open_lookup()).transpose()
    }

    pub(in crate::ledger) fn open_lookup(&self) -> Result<Lookup> {
        Lookup::open(self.claim.path(), &self.lookups)
    }

    /// Starts the run, when everything else is ready: the run is recorded now, and its answers can be written.
    ///
    /// # Errors
    /// Exit code 2 or 3: the ledger cannot be opened again or written, or a thread cannot be started.
    pub fn start(self) -> Result<(RunningLedger, LedgerWriter)> {
        self.start_over(|database| database)
    }

    /// As [`Self::start`], over a store that fails.
    #[cfg(test)]
    pub(crate) fn start_failing(
        self,
        faults: StoreFaults,
    ) -> Result<(RunningLedger, LedgerWriter)> {
        self.start_over(|database| FailingStore::new(database, faults))
    }

    /// As [`Self::start`], on a disk that is full when the first answers come, but for the space that is kept.
    #[cfg(test)]
    #[allow(clippy::unwrap_used)]
    pub(crate) fn start_on_full_disk(self) -> Result<(RunningLedger, LedgerWriter)> {
        self.start_over(|database| database.on_full_disk().unwrap())
    }

    /// As [`Self::start`], over a store that never answers.
    #[cfg(test)]
    pub(crate) fn start_hanging(self) -> Result<(RunningLedger, LedgerWriter)> {
        self.start_over(|_| HangingStore)
    }

    fn start_over<S: Store + 'static>(
        mut self,
        store: impl FnOnce(Database) -> S,
    ) -> Result<(RunningLedger, LedgerWriter)> {
        self.lookups.run = self
            .database
            .start_run(self.plan.replaces, self.in_flight)?;
        let lookup = self.open_lookup()?;
        if self.claim.remove_scratch() {
            self.database.expect_no_name();
        }
        let lease = { self.claim.is_shared() }.then(|| LeaseTerms::for_calls_of(self.longest_call));
        if let Some(LeaseTerms { length, .. }) = lease {
            self.database.share(&self.lookups, length)?;
        }
        let settings = WriterSettings {
            path: self.claim.path().to_owned(),
            earliest: self.lookups.run.earliest(),
            hasher: self.lookups.hasher,
            lookup: Some(lookup),
            in_memory: self.claim.is_scratch(),
            lease,
            // Three quarters of the answers gather while other calls are out: with half of them a run needs up to a fifth more
            // syncs, and with all of them calls would have to wait during each sync.
            enough: self.in_flight.get().saturating_mul(3) / 4,
        };
        let (writer, thread) = LedgerWriter::start(store(self.database), settings)?;
        self.new_file.keep();
        Ok((RunningLedger::new(self.claim, thread), writer))
    }
}

/// Makes the keys of this address and service ID. Those of a ledger that is removed with the run mean nothing after it.
fn hasher(
    claim: &ClaimedLocation,
    info: &LedgerInfo,
    (endpoint, service_id): (&str, &str),
) -> RequestHasher {
    if claim.is_scratch() {
        RequestHasher::of_pass()
    } else {
        RequestHasher::new(&info.secret, endpoint, service_id)
    }
}

/// The answers that a run finds and cannot use, as they lack fields that it captures; or, if it replaces the answers of a
/// finished run, that another try at its failed rows would find.
fn lacking(
    connection: &Connection,
    info: &LedgerInfo,
    (context, captured): (i64, &[Pointer]),
    plan: &RunPlan,
) -> rusqlite::Result<Option<LackingAnswers>> {
    let not_before = if plan.replaces {
        i64::MIN
    } else {
        plan.run.not_before
    };
    LackingAnswers::find(connection, info.checksums(), captured, context, not_before)
}

impl Contents {
    fn read(
        connection: &Connection,
        latest: &Arc<LatestAnswers>,
        info: &LedgerInfo,
        (context, own): (i64, bool),
        found: Option<(RunRecord, PreviousRun)>,
        now: SystemTime,
    ) -> rusqlite::Result<Self> {
        // In a shared ledger nobody waits for all of it to be counted.
        let answers = if own {
            answers::count_of(connection, context)?
        } else {
            0
        };
        let started = found.map_or(info.created, |(run, _)| run.started);
        let mut reader = AnswerReader::new(info.checksums(), Arc::clone(latest));
        // Whatever comes from now on is noted.
        reader.begin(connection)?;
        let any = answers::any(connection)?;
        reader.end(connection)?;
        let has_answers = answers::any_of(connection, context)?;
        let mut other_accounts = Vec::new();
        if any && !has_answers {
            for (id, endpoint) in contexts::endpoints(connection)? {
                // A run whose key was refused leaves an address without an answer.
                if answers::any_of(connection, id)? {
                    other_accounts.push(endpoint);
                }
            }
        }
        Ok(Self {
            any,
            has_answers,
            other_accounts,
            earlier: (answers > 0).then(|| EarlierAnswers {
                answers,
                started: time(started),
            }),
            known_limit: limits::known(connection, info.checksums(), context, now)?,
        })
    }

    /// What a run with this plan learns of them and of their ledger.
    fn facts(
        self,
        plan: &RunPlan,
        lacking_answers: Option<LackingAnswers>,
        existed: bool,
        claim: &ClaimedLocation,
    ) -> LedgerFacts {
        // A new run that was stopped has no use for what it has not replaced yet.
        let earlier = self.earlier.filter(|_| !plan.run.leftover);
        LedgerFacts {
            existed,
            is_own: claim.is_own(),
            place: (!claim.is_scratch()).then(|| claim.path().to_owned()),
            previous_run: plan.previous,
            continues: plan.continues(),
            only_failed: plan.run.only_failed,
            earlier_answers: earlier.filter(|_| !plan.replaces),
            replaced_answers: earlier.filter(|_| plan.replaces),
            lacking_answers,
            known_limit: self.known_limit,
            lost_calls: plan.run.calls,
            has_answers: self.has_answers && !plan.replaces,
            other_accounts: self.other_accounts,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
impl OpenLedger {
    /// The database of a run that has started on a ledger that others share, without its thread.
    pub(in crate::ledger) fn into_database(mut self) -> Database {
        self.lookups.run = self
            .database
            .start_run(self.plan.replaces, self.in_flight)
            .unwrap();
        let LeaseTerms { length, .. } = LeaseTerms::for_calls_of(self.longest_call);
        self.database.share(&self.lookups, length).unwrap();
        self.new_file.keep();
        self.database
    }

    /// The run as it will be recorded.
    pub(in crate::ledger) const fn run(&self) -> RunRecord {
        self.plan.run
    }

    /// The path, also of a ledger that is removed with the run.
    pub(in crate::ledger) fn scratch_path(&self) -> std::path::PathBuf {
        self.claim.path().to_owned()
    }
}
