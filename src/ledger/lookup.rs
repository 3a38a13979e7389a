//! Looking up what a ledger knows about a request.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use rusqlite::Connection;

use super::clock::millis;
use super::db::answers::AnswerReader;
use super::db::checksum::Checksums;
use super::db::connect::{Connect, Mode};
use super::db::latest_answers::LatestAnswers;
use super::db::runs::RunRecord;
use super::db::schema::MAX_AHEAD;
use super::db::stored_answer::{AnswerState, StoredAnswer};
use super::db::{captures, errors, failures};
#[cfg(test)]
use super::faults::{FailingReads, StoreFaults};
use super::packed::BlockNumber;
use super::request_key::{RequestHasher, RequestKey};
use crate::base::error::{Error, Result};
use crate::telemetry::event::Unusable;
use crate::verdict::{Answer, Failure, Score};

/// What a ledger knows about a request.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LookupResult {
    /// What became of it, where that can be used.
    pub known: Option<KnownOutcome>,
    /// The user's score before the run started, where this run replaces that answer or has done so: the same however often
    /// the run was stopped since, and for all rows that ask the same.
    pub(crate) old: Option<Score>,
    /// Why an existing answer is not used, if no setting asks for that.
    pub(crate) unusable: Option<Unusable>,
    /// When the answer arrived that this run got before it was stopped and no longer uses, because of `--max-age` or
    /// `--fresh`; in milliseconds since 1970.
    pub(crate) expired: Option<i64>,
}

impl LookupResult {
    fn unusable(why: Unusable) -> Self {
        Self {
            unusable: Some(why),
            ..Self::default()
        }
    }
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum KnownOutcome {
    /// It was answered.
    Answer(Answer),
    /// It must not be sent again in this run.
    Failure(Failure),
}

/// The run that an answer arrived in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnsweredIn {
    /// This one.
    ThisRun,
    /// Another one that writes to the same ledger.
    OtherRun,
}

/// Looks requests up, over a connection of its own.
pub struct Lookup {
    connection: Connection,
    answers: AnswerReader,
    path: PathBuf,
    scope: LookupScope,
    /// Answers from later have their age checked, in milliseconds since 1970.
    not_after: i64,
    /// Where the run's fields are in what was captured; `None` where not all of them were, or where that is damaged.
    places: HashMap<i64, Option<Box<[usize]>>>,
    /// Whether the run may have stored failures.
    failures: bool,
    #[cfg(test)]
    reads: FailingReads,
}

/// What a lookup must know about its run.
#[derive(Clone)]
pub(super) struct LookupScope {
    pub(super) checksums: Checksums,
    /// What the process knows of the ledger's latest answers.
    pub(super) latest: Arc<LatestAnswers>,
    pub(super) hasher: RequestHasher,
    pub(super) run: RunRecord,
    /// Whether answers may be too old to be used: then an answer from the future is not used either.
    pub(super) ages: bool,
    /// The additional fields that the run needs of an answer, as pointers.
    pub(super) fields: Vec<String>,
}

impl Lookup {
    /// For a run, beside its connection that writes.
    pub(super) fn open(path: &Path, scope: LookupScope) -> Result<Self> {
        Self::open_as(Mode::Read, path, scope)
    }

    /// Without a run: nothing is changed.
    pub(super) fn inspect(path: &Path, scope: LookupScope) -> Result<Self> {
        Self::open_as(Mode::Inspect, path, scope)
    }

    fn open_as(mode: Mode, path: &Path, scope: LookupScope) -> Result<Self> {
        let open = || {
            let connection = Connect::to(mode).open(path)?;
            let failures = failures::any(&connection, scope.run.id())?;
            Ok((connection, failures))
        };
        let (connection, failures) = open().map_err(|error| errors::cannot_open(path, &error))?;
        let answers = AnswerReader::new(scope.checksums, Arc::clone(&scope.latest));
        Ok(Self {
            connection,
            answers,
            path: path.to_owned(),
            scope,
            not_after: millis(SystemTime::now()),
            places: HashMap::new(),
            failures,
            #[cfg(test)]
            reads: FailingReads::default(),
        })
    }

    /// Fails from now on.
    #[cfg(test)]
    pub(crate) const fn fail(&mut self, faults: StoreFaults) {
        self.reads = FailingReads::new(faults);
    }

    /// Answers that arrive now are dated no earlier, whatever the clock does meanwhile: they are of this run, and usable.
    pub(super) fn earliest(&self) -> i64 {
        self.scope.run.not_before.max(self.scope.run.started)
    }

    /// From now on the run may have stored failures.
    pub(super) const fn expect_failures(&mut self) {
        self.failures = true;
    }

    /// What is known now about the request with this key and body.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub fn find(&mut self, key: &RequestKey, body: &[u8]) -> Result<LookupResult> {
        let found = self.look(key, body);
        let (found, _) = found.map_err(|error| self.cannot_read(&error))?;
        Ok(found)
    }

    /// As [`Self::find`], with the run that what is known arrived in.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub(super) fn find_with_run(
        &mut self,
        key: &RequestKey,
        body: &[u8],
    ) -> Result<(LookupResult, AnsweredIn)> {
        let found = self.look(key, body);
        let (found, block) = found.map_err(|error| self.cannot_read(&error))?;
        // A failure is known only to the run that it happened in.
        let is_ours = block.is_none_or(|block| self.answers.is_ours(block));
        let run = if is_ours {
            AnsweredIn::ThisRun
        } else {
            AnsweredIn::OtherRun
        };
        Ok((found, run))
    }

    /// Whether an answer to this request may have come since the run has the ledger open. "No" is always right, but for
    /// answers that other runs have stored since [`Self::note_others`].
    pub(super) fn may_have_come(&self, key: &RequestKey) -> bool {
        self.answers.may_have_come(key)
    }

    /// Notes which answers other runs have stored.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub(super) fn note_others(&mut self) -> Result<()> {
        self.begin()?;
        self.end()
    }

    /// Makes the lookups that follow see the ledger's present state, which costs less for each. To be ended soon: the log
    /// grows meanwhile.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub(crate) fn begin(&mut self) -> Result<()> {
        #[cfg(test)]
        self.reads
            .read()
            .map_err(|error| self.cannot_read(&error))?;
        let begun = self.answers.begin(&self.connection);
        begun.map_err(|error| self.cannot_read(&error))
    }

    /// Ends what [`Self::begin`] started.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub(crate) fn end(&mut self) -> Result<()> {
        let ended = self.answers.end(&self.connection);
        ended.map_err(|error| self.cannot_read(&error))
    }

    fn cannot_read(&self, error: &rusqlite::Error) -> Error {
        errors::cannot_use(&self.path, "read", error)
    }

    /// What is known about a request, and the block of an answer that can be used.
    fn look(
        &mut self,
        key: &RequestKey,
        body: &[u8],
    ) -> rusqlite::Result<(LookupResult, Option<BlockNumber>)> {
        #[cfg(test)]
        self.reads.read()?;
        if let Some(recent) = self.answers.recent(key) {
            let block = recent.block;
            let found = self.judge(recent)?;
            if found.known.is_some() {
                return Ok((found, Some(block)));
            }
            // It may have been replaced by one that can be used.
        }
        let mut found = match self.answers.find(&self.connection, key)? {
            AnswerState::Absent => LookupResult::default(),
            AnswerState::Damaged(_) => LookupResult::unusable(Unusable::Damaged),
            AnswerState::Sound(answer) => {
                let block = answer.block;
                let found = self.judge(answer)?;
                if found.known.is_some() {
                    return Ok((found, Some(block)));
                }
                found
            }
        };
        if self.failures && found.known.is_none() {
            let failure = failures::find(
                &self.connection,
                self.scope.checksums,
                &self.scope.hasher,
                (key, body),
                self.scope.run.id(),
            )?;
            found.known = failure.map(KnownOutcome::Failure);
        }
        Ok((found, None))
    }

    /// What a stored answer is to this run.
    fn judge(&mut self, stored: StoredAnswer) -> rusqlite::Result<LookupResult> {
        let captured = self.captured(&stored)?;
        let RunRecord {
            started,
            not_before,
            leftover,
            ..
        } = self.scope.run;
        if leftover && stored.at < not_before {
            // It is removed with this run's first answer, and must not be found before that either.
            return Ok(LookupResult::default());
        }
        let from_the_future = self.scope.ages && is_ahead(stored.at, &mut self.not_after);
        // An answer that lacks a field which the run writes cannot be used either.
        let captured = captured.filter(|_| stored.at >= not_before && !from_the_future);
        let old = if stored.at >= started {
            stored.replaced.map(|replaced| replaced.score)
        } else if captured.is_none() {
            Some(stored.score.clone())
        } else {
            None
        };
        let known = captured.map(|captured| {
            KnownOutcome::Answer(Answer {
                transaction_id: stored.transaction_id,
                score: stored.score,
                captured,
            })
        });
        Ok(LookupResult {
            known,
            old,
            unusable: from_the_future.then_some(Unusable::FromTheFuture),
            expired: (stored.at >= started && stored.at < not_before).then_some(stored.at),
        })
    }

    /// The values of the run's fields in an answer; `None` where not all of them were captured.
    fn captured(&mut self, stored: &StoredAnswer) -> rusqlite::Result<Option<FieldValues>> {
        if self.scope.fields.is_empty() {
            return Ok(Some(FieldValues::default()));
        }
        let (Some(list), Some(values)) = (stored.capture, &stored.captured) else {
            return Ok(None);
        };
        let places = match self.places.entry(list) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => {
                let list = captures::list(&self.connection, self.scope.checksums, list)?;
                let list = list.unwrap_or_default();
                let place = |field: &String| list.iter().position(|pointer| pointer == field);
                unknown.insert(self.scope.fields.iter().map(place).collect())
            }
        };
        match places {
            // The checksum matches, so it is not damage: we wrote something else than we read.
            Some(places) => Ok(Some(pick(places, values).ok_or_else(errors::damaged)?)),
            None => Ok(None),
        }
    }
}

/// The values of additional fields.
type FieldValues = Box<[Option<Box<str>>]>;

/// Whether a time is further ahead of the clock than it may be. The clock is read again only for times after `not_after`.
fn is_ahead(at: i64, not_after: &mut i64) -> bool {
    if at > *not_after {
        *not_after = millis(SystemTime::now()).saturating_add(MAX_AHEAD);
    }
    at > *not_after
}

/// The values at these places of what was captured.
fn pick(places: &[usize], values: &str) -> Option<FieldValues> {
    let values: Vec<Option<Box<str>>> = serde_json::from_str(values).ok()?;
    places
        .iter()
        .map(|place| values.get(*place).cloned())
        .collect()
}
