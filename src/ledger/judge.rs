//! What a stored answer means for a run: whether it can be used, and what it says about the user's score before the run.
//!
//! This is the same wherever answers are stored. It reads nothing: the store hands over the answer, and the lists of fields
//! that answers were stored with.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::SystemTime;

use super::clock::{MAX_AHEAD, millis};
use super::lookup_result::{KnownOutcome, LookupResult};
use super::stored_answer::StoredAnswer;
use crate::telemetry::event::Unusable;
use crate::verdict::Answer;

/// What must be known of a run to say what an answer is to it.
#[derive(Debug, Clone)]
pub(super) struct JudgeScope {
    /// When the run started, over all its stops; in milliseconds since 1970.
    pub(super) started: i64,
    /// Older answers are not used, in milliseconds since 1970.
    pub(super) not_before: i64,
    /// Answers from before `not_before` are removed with the run's first answer.
    pub(super) leftover: bool,
    /// Whether answers may be too old to be used: then an answer from the future is not used either.
    pub(super) ages: bool,
    /// The additional fields that the run needs of an answer, as pointers.
    pub(super) fields: Vec<String>,
}

/// Says what answers are to a run.
pub(super) struct AnswerJudge {
    scope: JudgeScope,
    /// Answers from later have their age checked, in milliseconds since 1970.
    not_after: i64,
    /// Where the run's fields are in what was captured; `None` where not all of them were, or where that is damaged.
    places: HashMap<i64, Option<Box<[usize]>>>,
}

impl AnswerJudge {
    /// For this run.
    pub(super) fn new(scope: JudgeScope) -> Self {
        Self {
            scope,
            not_after: millis(SystemTime::now()),
            places: HashMap::new(),
        }
    }

    /// What a stored answer is to the run; `None` if the values of its fields are not what we write. `list` reads the
    /// list of fields of a number, which is empty where it is damaged or absent; each list is read once.
    ///
    /// # Errors
    /// `list` failed.
    pub(super) fn judge<E>(
        &mut self,
        stored: StoredAnswer,
        list: impl FnOnce(i64) -> Result<Vec<String>, E>,
    ) -> Result<Option<LookupResult>, E> {
        let captured = match self.captured(&stored, list)? {
            Captured::Values(values) => Some(values),
            Captured::Lacking => None,
            Captured::Foreign => return Ok(None),
        };
        let JudgeScope {
            started,
            not_before,
            leftover,
            ages,
            ..
        } = self.scope;
        if leftover && stored.at < not_before {
            // It is removed with this run's first answer, and must not be found before that either.
            return Ok(Some(LookupResult::default()));
        }
        let from_the_future = ages && is_ahead(stored.at, &mut self.not_after);
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
        Ok(Some(LookupResult {
            known,
            old,
            unusable: from_the_future.then_some(Unusable::FromTheFuture),
            expired: (stored.at >= started && stored.at < not_before).then_some(stored.at),
        }))
    }

    /// The values of the run's fields in an answer.
    fn captured<E>(
        &mut self,
        stored: &StoredAnswer,
        list: impl FnOnce(i64) -> Result<Vec<String>, E>,
    ) -> Result<Captured, E> {
        if self.scope.fields.is_empty() {
            return Ok(Captured::Values(FieldValues::default()));
        }
        let (Some(number), Some(values)) = (stored.capture, &stored.captured) else {
            return Ok(Captured::Lacking);
        };
        let places = match self.places.entry(number) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => {
                let list = list(number)?;
                let place = |field: &String| list.iter().position(|pointer| pointer == field);
                unknown.insert(self.scope.fields.iter().map(place).collect())
            }
        };
        Ok(match places {
            Some(places) => pick(places, values).map_or(Captured::Foreign, Captured::Values),
            None => Captured::Lacking,
        })
    }
}

/// The values of the run's fields in an answer.
enum Captured {
    /// All of them.
    Values(FieldValues),
    /// Not all of them were captured.
    Lacking,
    /// What is there is not what we write.
    Foreign,
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
