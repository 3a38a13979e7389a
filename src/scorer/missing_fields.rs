//! Further fields that no answer has: a misspelt pointer would leave its column empty to the end of a paid file.

use std::sync::Arc;

use crate::raw_json::Pointer;
use crate::verdict::Answer;

/// Answers that are checked. A field that none of so many users has is hardly one of the service's.
const FIRST: u32 = 100;

/// The fields that none of the first answers had.
#[derive(Debug, Default)]
pub(super) struct MissingFields {
    /// Each with its index among the answer's fields.
    fields: Vec<(usize, Pointer)>,
    /// The index of the level that decides; `None` if scores do.
    level: Option<usize>,
    answers: u32,
}

/// What none of the answers had.
#[derive(Debug, PartialEq)]
pub(super) struct FieldsMissing {
    /// How many answers were checked.
    pub(super) answers: u32,
    /// The pointers of the fields, as they are shown.
    pub(super) fields: Arc<str>,
    /// Whether one of them is the level that decides.
    pub(super) level: bool,
}

impl MissingFields {
    /// Watches these fields, which come first in every answer.
    #[must_use]
    pub(super) fn new(fields: &[Pointer], level: Option<usize>) -> Self {
        Self {
            fields: fields.iter().cloned().enumerate().collect(),
            level,
            answers: 0,
        }
    }

    /// Notes an answer. Returns the fields that the first answers lacked, once.
    pub(super) fn note(&mut self, answer: &Answer) -> Option<FieldsMissing> {
        // Nearly always all are there from the first answer on.
        if self.fields.is_empty() {
            return None;
        }
        self.answers += 1;
        let is_missing = |at: usize| !matches!(answer.captured.get(at), Some(Some(_)));
        self.fields.retain(|(at, _)| is_missing(*at));
        if self.answers < FIRST {
            return None;
        }
        self.take()
    }

    /// The fields that all answers lacked, if there were fewer; `None` if they were reported before.
    pub(super) fn take(&mut self) -> Option<FieldsMissing> {
        let fields = std::mem::take(&mut self.fields);
        let names: Vec<_> = fields
            .iter()
            .map(|(_, pointer)| format!("`{pointer}`"))
            .collect();
        (self.answers > 0 && !names.is_empty()).then(|| FieldsMissing {
            answers: self.answers,
            fields: names.join(", ").into(),
            level: fields.iter().any(|(at, _)| Some(*at) == self.level),
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::verdict::{Score, TransactionId};

    fn answer(fields: &[Option<&str>]) -> Answer {
        Answer {
            transaction_id: TransactionId::new("t").unwrap(),
            score: Score::from_json_number("1").unwrap(),
            captured: fields.iter().map(|field| field.map(Box::from)).collect(),
        }
    }

    fn missing() -> MissingFields {
        let fields = ["/a", "/b", "/c"].map(|pointer| Pointer::parse(pointer).unwrap());
        MissingFields::new(&fields, Some(1))
    }

    fn found(answers: u32, fields: &str, level: bool) -> FieldsMissing {
        FieldsMissing {
            answers,
            fields: fields.into(),
            level,
        }
    }

    #[test]
    fn fields_that_none_of_the_first_answers_has_are_reported_once() {
        let mut missing = missing();
        for number in 1..=3 * FIRST {
            let b = (number == 50).then_some("1");
            let noted = missing.note(&answer(&[None, b, None, Some("1")]));
            let expected = (number == FIRST).then(|| found(FIRST, "`/a`, `/c`", false));
            assert_eq!(noted, expected, "{number}");
        }
        assert_eq!(missing.take(), None);
    }

    #[test]
    fn with_fewer_answers_they_are_reported_at_the_end() {
        let mut some = missing();
        assert_eq!(some.note(&answer(&[Some("1"), None, Some("null")])), None);
        assert_eq!(some.take(), Some(found(1, "`/b`", true)));
        assert_eq!((some.take(), missing().take()), (None, None));
    }
}
