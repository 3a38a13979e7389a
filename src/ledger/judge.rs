//! What a stored answer means for a run: whether it can be used, and what it says about the user's score before the run.
//!
//! This is the same wherever answers are stored. It reads nothing: the store hands over the answer, and the lists of fields
//! that answers were stored with.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::clock::{LedgerClock, MAX_AHEAD};
use super::lookup_result::{AnsweredIn, KnownOutcome, LookupResult};
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
    /// The clock that answers are dated by.
    pub(super) clock: LedgerClock,
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
            not_after: scope.clock.latest(),
            scope,
            places: HashMap::new(),
        }
    }

    /// What a stored answer of this or another run is to the run; `None` if the values of its fields are not what we write.
    /// `list` reads the list of fields of a number, which is empty where it is damaged or absent; each list is read once.
    ///
    /// # Errors
    /// `list` failed.
    pub(super) fn judge<E>(
        &mut self,
        stored: StoredAnswer,
        from: AnsweredIn,
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
            clock,
            ..
        } = self.scope;
        if leftover && stored.at < not_before {
            // It is removed with this run's first answer, and must not be found before that either.
            return Ok(Some(LookupResult::default()));
        }
        // This run knows when it got its own, whatever the clock says since: identical rows must not be paid for again.
        let from_the_future =
            ages && from == AnsweredIn::OtherRun && is_ahead(stored.at, clock, &mut self.not_after);
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
fn is_ahead(at: i64, clock: LedgerClock, not_after: &mut i64) -> bool {
    if at > *not_after {
        *not_after = clock.latest().saturating_add(MAX_AHEAD);
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::convert::Infallible;
    use std::time::SystemTime;

    use super::*;
    use crate::ledger::clock::millis;
    use crate::verdict::{Score, TransactionId};

    const HOUR: i64 = 60 * 60 * 1_000;

    /// Whether a run that was opened so many hours from now by the machine's clock uses an answer of so many hours from now.
    fn uses(opened: i64, at: i64, from: AnsweredIn) -> bool {
        let now = millis(SystemTime::now());
        let mut judge = AnswerJudge::new(JudgeScope {
            started: now + opened * HOUR,
            not_before: now + (opened - 24) * HOUR,
            leftover: false,
            ages: true,
            clock: LedgerClock::at(now + opened * HOUR),
            fields: Vec::new(),
        });
        let stored = StoredAnswer {
            transaction_id: TransactionId::new("t-1").unwrap(),
            score: Score::from_json_number("1").unwrap(),
            capture: None,
            captured: None,
            at: now + at * HOUR,
            replaced: None,
        };
        let list = |_| Ok::<_, Infallible>(Vec::new());
        let found = judge.judge(stored, from, list).unwrap().unwrap();
        assert_eq!(found.known.is_none(), found.unusable.is_some());
        found.known.is_some()
    }

    #[test]
    fn a_clock_that_is_set_back_under_way_makes_no_answer_one_from_the_future() {
        for from in [AnsweredIn::ThisRun, AnsweredIn::OtherRun] {
            assert!(uses(2, 2, from));
            assert!(uses(0, 0, from));
        }
    }

    #[test]
    fn only_an_answer_of_another_run_can_be_from_the_future() {
        assert!(!uses(0, 2, AnsweredIn::OtherRun));
        // The clock was ahead for a while, and was set back before an identical row came.
        assert!(uses(0, 2, AnsweredIn::ThisRun));
    }
}
