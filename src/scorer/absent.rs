//! Further fields that no answer has: a pointer that is misspelt would leave its column empty to the end of a paid file.

use std::sync::Arc;

use crate::raw_json::Pointer;
use crate::verdict::Answer;

/// Answers that are looked at. A field that so many users in a row lack is hardly one of the service's.
const FIRST: u32 = 100;

/// The fields that none of the first answers had.
#[derive(Debug, Default)]
pub(crate) struct Absent {
    /// Each with its place among the answer's fields.
    fields: Vec<(usize, Pointer)>,
    answers: u32,
}

/// What was found missing: how many answers were looked at, and the pointers of the fields that none had.
pub(super) type Found = (u32, Arc<str>);

impl Absent {
    /// Watches these fields, which stand first in every answer.
    #[must_use]
    pub(crate) fn new(fields: &[Pointer]) -> Self {
        Self {
            fields: fields.iter().cloned().enumerate().collect(),
            answers: 0,
        }
    }

    /// Takes note of an answer; what the first ones lacked, once.
    pub(super) fn note(&mut self, answer: &Answer) -> Option<Found> {
        // Nearly always all are there from the first answer on.
        if self.fields.is_empty() {
            return None;
        }
        self.answers += 1;
        let is_absent = |at: usize| !matches!(answer.captured.get(at), Some(Some(_)));
        self.fields.retain(|(at, _)| is_absent(*at));
        if self.answers < FIRST {
            return None;
        }
        self.take()
    }

    /// What all answers lacked, where there were fewer; nothing when it was told before.
    pub(super) fn take(&mut self) -> Option<Found> {
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

    fn absent() -> Absent {
        Absent::new(&["/a", "/b", "/c"].map(|pointer| Pointer::parse(pointer).unwrap()))
    }

    #[test]
    fn what_none_of_the_first_answers_has_is_told_once() {
        let mut absent = absent();
        for number in 1..=3 * FIRST {
            let b = (number == 50).then_some("1");
            let found = absent.note(&answer(&[None, b, None, Some("1")]));
            let expected = (number == FIRST).then(|| (FIRST, "`/a`, `/c`".into()));
            assert_eq!(found, expected, "{number}");
        }
        assert_eq!(absent.take(), None);
    }

    #[test]
    fn of_fewer_answers_it_is_told_at_the_end() {
        let mut some = absent();
        assert_eq!(some.note(&answer(&[Some("1"), None, Some("null")])), None);
        assert_eq!(some.take(), Some((1, "`/b`".into())));
        assert_eq!((some.take(), absent().take()), (None, None));
    }
}
