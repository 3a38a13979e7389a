//! Checks over all answers of the run: one transaction id for different requests, fields that no answer has, and scores below
//! zero.
//!
//! A cache or proxy that gives one user's answer to another is the worst fault of all, because every row looks right. Only
//! hashes of the last answers are kept, with a seed of this run.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::mem;

use bytes::Bytes;
use foldhash::quality::RandomState;

use crate::fields::columns_line;
use crate::raw_json::Pointer;
use crate::row::RowNumber;
use crate::telemetry::counts::Events;
use crate::telemetry::event::Event;
use crate::verdict::{Answer, TransactionId};

/// This many ids are remembered, in about 400 KiB, and then all are forgotten. A broken cache repeats itself sooner.
const MAX_REMEMBERED: usize = 8_192;
/// A service may repeat an id by accident, but not for this number of different requests: then the answers are mixed up.
const MIXED_UP: u32 = 20;
/// Answers that are checked for fields. A field that none of them has is hardly one of the service's: a misspelt pointer
/// would leave its column empty to the end of a paid file.
const MIN_ANSWERS: u32 = 100;

/// The answers so far.
#[derive(Debug)]
pub(super) struct AnswerChecks {
    /// The number of the file whose rows are answered; 0 for a run of one file.
    pub(super) file: u64,
    transactions: Transactions,
    /// The fields that no answer has had, each with its index among the answer's fields.
    missing: Vec<(usize, Pointer)>,
    /// The last of these answers, whole.
    last: Bytes,
    /// The index of the level that decides; `None` if scores do.
    level: Option<usize>,
    answers: u32,
    /// A score below zero was reported.
    below_zero: bool,
    /// The last requests whose answers had an earlier id, by fingerprint.
    repeated: Vec<i64>,
    /// One id came so often that no answer with a repeated id is trusted.
    is_mixed_up: bool,
}

/// The ids of the last answers, as hashes.
type Transactions = HashMap<u64, FirstUse, RandomState>;

/// The row with which an id came first, and its request.
#[derive(Debug, Clone, Copy)]
struct FirstUse {
    file: u64,
    row: RowNumber,
    request: i64,
    /// How many answers to other requests had the id since.
    others: u32,
}

/// The fields that none of the answers had.
#[derive(Debug, PartialEq)]
pub(super) struct FieldsMissing {
    /// How many answers were checked.
    pub(super) answers: u32,
    /// The fields' pointers, and the pointers to what is there instead, in words.
    pub(super) fields: String,
    /// Whether one of them is the level that decides.
    pub(super) level: bool,
}

impl FieldsMissing {
    /// As it is reported.
    pub(super) fn event(self) -> Event {
        let (answers, fields) = (self.answers, self.fields);
        Event::FieldsAbsent { answers, fields }
    }
}

impl AnswerChecks {
    /// Watches these fields, which come first in every answer; `level` is the index of the one that decides.
    pub(super) fn new(fields: &[Pointer], level: Option<usize>) -> Self {
        Self {
            file: 0,
            transactions: Transactions::default(),
            missing: fields.iter().cloned().enumerate().collect(),
            last: Bytes::new(),
            level,
            answers: 0,
            below_zero: false,
            repeated: Vec::new(),
            is_mixed_up: false,
        }
    }

    /// Checks an answer to the request with this fingerprint against earlier ones. If its id has repeated, returns the
    /// requests whose answers cannot be trusted: none, or once answers are mixed up, first all whose ids have repeated, then
    /// each that comes with a remembered id.
    pub(super) fn check(
        &mut self,
        row: RowNumber,
        request: i64,
        answer: &Answer,
        events: &Events,
    ) -> Option<Vec<i64>> {
        let first_use = FirstUse {
            file: self.file,
            row,
            request,
            others: 0,
        };
        let repeated = note(&mut self.transactions, &answer.transaction_id, first_use);
        if let Some(first) = repeated {
            events.emit(Event::TransactionRepeated {
                row,
                first: first.row,
                first_file: first.file,
            });
            let surplus = self.repeated.len().saturating_sub(MAX_REMEMBERED);
            self.repeated.drain(..surplus);
            self.repeated.extend([first.request, request]);
            self.is_mixed_up |= first.others + 1 == MIXED_UP;
        }
        let is_below = self.level.is_none() && answer.score.value().is_below_zero();
        if is_below && !self.below_zero {
            self.below_zero = true;
            events.emit(Event::ScoreBelowZero { row });
        }
        repeated?;
        if !self.is_mixed_up {
            return Some(Vec::new());
        }
        Some(mem::take(&mut self.repeated))
    }

    /// The fields that the first answers lacked, once; this answer with this body is one of them.
    pub(super) fn missing_fields(
        &mut self,
        answer: &Answer,
        body: &Bytes,
    ) -> Option<FieldsMissing> {
        // Nearly always all are there from the first answer on.
        if self.missing.is_empty() {
            return None;
        }
        self.answers += 1;
        self.last = body.clone();
        let is_missing = |at: usize| !matches!(answer.captured.get(at), Some(Some(_)));
        self.missing.retain(|(at, _)| is_missing(*at));
        if self.answers < MIN_ANSWERS {
            return None;
        }
        self.end()
    }

    /// The fields that all answers lacked, if there were fewer; `None` if they were reported before.
    pub(super) fn end(&mut self) -> Option<FieldsMissing> {
        let fields = mem::take(&mut self.missing);
        let pointers = || fields.iter().map(|(_, pointer)| pointer);
        let names: Vec<_> = pointers().map(|pointer| format!("`{pointer}`")).collect();
        let body = mem::take(&mut self.last);
        let body = String::from_utf8_lossy(&body);
        let others = pointers().flat_map(|pointer| pointer.others(&body));
        let mut others: Vec<_> = others.collect();
        others.sort();
        others.dedup();
        (self.answers > 0 && !names.is_empty()).then(|| FieldsMissing {
            answers: self.answers,
            fields: format!("{} ({})", names.join(", "), columns_line("member", &others)),
            level: fields.iter().any(|(at, _)| Some(*at) == self.level),
        })
    }
}

/// Notes an answer's id. Returns its first use if that was for a different request; the same request may well get the same
/// answer again.
fn note(transactions: &mut Transactions, id: &TransactionId, this: FirstUse) -> Option<FirstUse> {
    let id = transactions.hasher().hash_one(id.as_str());
    if let Some(first) = transactions.get_mut(&id) {
        if first.request == this.request {
            return None;
        }
        first.others += 1;
        return Some(*first);
    }
    if transactions.len() == MAX_REMEMBERED {
        transactions.clear();
    }
    transactions.insert(id, this);
    None
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::verdict::Score;

    fn id(text: &str) -> TransactionId {
        TransactionId::new(text).unwrap()
    }

    /// Notes an id for a request. Returns how many requests but the first have had it.
    fn noted(transactions: &mut Transactions, text: &str, request: i64) -> Option<u32> {
        let this = FirstUse {
            file: 0,
            row: RowNumber::FIRST,
            request,
            others: 0,
        };
        note(transactions, &id(text), this).map(|first| first.others)
    }

    #[test]
    fn one_id_for_two_requests_is_noticed_every_time() {
        let mut transactions = Transactions::default();
        for (text, request, others) in [
            ("t-1", 1, None),
            ("t-2", 2, None),
            // The same user.
            ("t-1", 1, None),
            ("t-1", 3, Some(1)),
            ("t-1", 4, Some(2)),
        ] {
            assert_eq!(noted(&mut transactions, text, request), others);
        }
        for number in 0..3 * MAX_REMEMBERED {
            noted(&mut transactions, &format!("u-{number}"), 1);
            assert!(transactions.len() <= MAX_REMEMBERED, "ids fill the memory");
        }
    }

    #[test]
    fn fields_that_none_of_the_first_answers_has_are_reported_once_or_at_the_end() {
        let fields = ["/a", "/b", "/c"].map(|pointer| Pointer::parse(pointer).unwrap());
        let missing = |answers, level| {
            Some(FieldsMissing {
                answers,
                fields: "`/b` (members: /a, /c)".into(),
                level,
            })
        };
        // How many answers there are, and which field has the level.
        for (answers, level, reported, at_the_end) in [
            (3 * MIN_ANSWERS, 1, missing(MIN_ANSWERS, true), None),
            (1, 0, None, missing(1, false)),
            (0, 1, None, None),
        ] {
            let mut checks = AnswerChecks::new(&fields, Some(level));
            let mut reports = Vec::new();
            for number in 1..=answers {
                let a = (number == 1).then_some("1");
                let answer = Answer {
                    transaction_id: id("t"),
                    score: Score::from_json_number("1").unwrap(),
                    captured: [a, None, Some("null")].map(|it| it.map(Box::from)).into(),
                };
                reports.extend(
                    checks.missing_fields(&answer, &Bytes::from_static(br#"{"c":1,"a":{}}"#)),
                );
            }
            assert_eq!(reports, Vec::from_iter(reported));
            assert_eq!((checks.end(), checks.end()), (at_the_end, None));
        }
    }
}
