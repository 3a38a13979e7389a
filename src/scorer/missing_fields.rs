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
    answers: u32,
}

/// How many answers were checked, and the pointers of the fields that none of them had.
pub(super) type FieldsMissing = (u32, Arc<str>);

impl MissingFields {
    /// Watches these fields, which come first in every answer.
    #[must_use]
    pub(super) fn new(fields: &[Pointer]) -> Self {
        Self {
            fields: fields.iter().cloned().enumerate().collect(),
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
        (self.answers > 0 && !names.is_empty()).then(|| (self.answers, names.join(", ").into()))
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
        MissingFields::new(&["/a", "/b", "/c"].map(|pointer| Pointer::parse(pointer).unwrap()))
    }

    #[test]
    fn fields_that_none_of_the_first_answers_has_are_reported_once() {
        let mut missing = missing();
        for number in 1..=3 * FIRST {
            let b = (number == 50).then_some("1");
            let found = missing.note(&answer(&[None, b, None, Some("1")]));
            let expected = (number == FIRST).then(|| (FIRST, "`/a`, `/c`".into()));
            assert_eq!(found, expected, "{number}");
        }
        assert_eq!(missing.take(), None);
    }

    #[test]
    fn with_fewer_answers_they_are_reported_at_the_end() {
        let mut some = missing();
        assert_eq!(some.note(&answer(&[Some("1"), None, Some("null")])), None);
        assert_eq!(some.take(), Some((1, "`/b`".into())));
        assert_eq!((some.take(), missing().take()), (None, None));
    }
}
