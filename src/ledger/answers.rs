//! What became of a request, as it is stored; and what stored outcomes mean for a run that asks.
//!
//! There is one rule: a run uses the latest answer that is not older than its `not_before`, or else the latest failure that is
//! not. With a range of ages, each request has a later moment of its own, which its fingerprint chooses. This is the same wherever answers are stored. Nothing is read here.

use std::sync::Arc;

use bytes::Bytes;

use super::key::{RequestKey, SealNonce};
use crate::base::money::Money;
use crate::telemetry::event::PassedOver;
use crate::verdict::{Answer, Failure, Reason};

/// Reads a verdict, with the further fields that the run writes, from a body of the service. `None` if it has none.
pub(crate) type ReadAnswer = Arc<dyn Fn(&[u8]) -> Option<Answer> + Send + Sync>;

/// What became of a request that was or may have been billed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PaidResult {
    /// The service's body, whole: fields that no run has asked for yet cost nothing later.
    Answer(Bytes),
    /// No verdict, and no reason to ask again.
    Failure(Failure),
}

/// The first byte of what is sealed.
const ANSWER: u8 = b'a';
const FAILURE: u8 = b'f';

impl PaidResult {
    /// Encrypts it for the request, with a nonce that is used for nothing else: its kind, then the body, or the reason's word, a
    /// zero byte and the message. An answer costs this price. `None` if it is far too long.
    pub(super) fn seal(
        &self,
        key: &RequestKey,
        nonce: SealNonce,
        at: i64,
        price: Money,
    ) -> Option<Stored> {
        let (price, sealed) = match self {
            Self::Answer(body) => (price, key.seal(nonce, at, &[&[ANSWER], body])?),
            Self::Failure(Failure { reason, message }) => {
                let (word, message) = (reason.word().as_bytes(), message.as_bytes());
                let sealed = key.seal(nonce, at, &[&[FAILURE], word, &[0], message])?;
                (Money::default(), sealed)
            }
        };
        // A price that does not fit is of no real currency.
        let price = price.billionths.try_into().unwrap_or_default();
        Some(Stored {
            place: 0,
            at,
            price,
            sealed,
        })
    }
}

/// An outcome as it is stored.
#[derive(Debug, Clone)]
pub(super) struct Stored {
    /// The number of its row, once it has one: later ones have higher numbers.
    pub(super) place: i64,
    /// When it arrived, in milliseconds since 1970.
    pub(super) at: i64,
    /// What the answer cost, in billionths; zero if that is not known, and for a failure.
    pub(super) price: i64,
    pub(super) sealed: Vec<u8>,
}

impl Stored {
    fn payment(&self) -> Payment {
        Payment {
            place: self.place,
            price: Money {
                billionths: self.price.try_into().unwrap_or_default(),
            },
        }
    }
}

/// What a ledger knows about a request.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LookupResult {
    /// What became of it, where that can be used.
    pub(crate) known: Option<KnownResult>,
    /// What that cost, if it is an answer.
    pub(crate) payment: Payment,
    /// Whether that arrived in this start of the run.
    pub(crate) is_own: bool,
    /// When that arrived, if it is so old that people should know: in milliseconds since 1970.
    pub(crate) aged: Option<i64>,
    /// The answer from before the run started that this run replaces or has replaced: the same however often the run was
    /// stopped since, and for all rows that ask the same.
    pub(crate) old: Option<Box<OldAnswer>>,
    /// Why something that is stored is not used.
    pub(crate) passed_over: Option<PassedOver>,
}

/// What an answer cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Payment {
    /// Names the answer among those of its ledger: rows with equal requests share one.
    pub(crate) place: i64,
    /// Zero if nobody gave it.
    pub(crate) price: Money,
}

/// An answer that is older than a run asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct OldAnswer {
    /// The verdict in it.
    pub(crate) answer: Answer,
    /// What it cost.
    pub(crate) payment: Payment,
    /// When it arrived, in milliseconds since 1970.
    pub(crate) at: i64,
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum KnownResult {
    /// It was answered.
    Answer(Answer),
    /// It was or may have been billed, without a verdict.
    Failure(Failure),
}

/// What must be known of a run to say what is of use to it.
#[derive(Clone)]
pub(super) struct Scope {
    /// Older answers are not used, in milliseconds since 1970.
    pub(super) not_before: i64,
    /// Of up to this much younger answers, the fingerprint of the request decides whether they are used: in milliseconds.
    pub(super) spread: u64,
    /// Older failures are not used either; never before `not_before`.
    pub(super) failures_from: i64,
    /// When the run first started, in milliseconds since 1970.
    pub(super) started: i64,
    /// Answers from before are said to be old, in milliseconds since 1970; `i64::MIN` says nothing.
    pub(super) aged_before: i64,
    /// Names this start of the run: the nonces of its seals start with it.
    pub(super) start: i64,
    /// Reads the bodies of answers.
    pub(super) read: ReadAnswer,
}

impl Scope {
    /// The time from which on answers to this request are used. Fingerprints are evenly distributed, and so are these times.
    pub(super) fn used_from(&self, key: &RequestKey) -> i64 {
        let fingerprint = key.fingerprint().cast_unsigned();
        let later = (u128::from(fingerprint) * u128::from(self.spread)) >> 64;
        let later = i64::try_from(later).unwrap_or(i64::MAX);
        self.not_before.saturating_add(later)
    }

    /// What the stored outcomes of a request mean, of which `next` gives the latest first. No more are read than are needed.
    ///
    /// # Errors
    /// `next` failed.
    pub(super) fn judge<E>(
        &self,
        key: &RequestKey,
        mut next: impl FnMut() -> Result<Option<Stored>, E>,
    ) -> Result<LookupResult, E> {
        let mut result = LookupResult::default();
        let (mut failure, mut damaged) = (None, false);
        let used_from = self.used_from(key);
        while let Some(stored) = next()? {
            let (at, payment, sealed) = (stored.at, stored.payment(), stored.sealed);
            let is_own = sealed.starts_with(&self.start.to_le_bytes());
            let Some(plain) = key.open(at, sealed) else {
                damaged = true;
                continue;
            };
            match plain.split_first() {
                Some((&ANSWER, body)) => {
                    let Some(answer) = (self.read)(body) else {
                        damaged = true;
                        continue;
                    };
                    if at < used_from || result.known.is_some() {
                        let is_old = result.known.is_none() || at < self.started;
                        let old = OldAnswer {
                            answer,
                            payment,
                            at,
                        };
                        result.old = is_old.then(|| Box::new(old));
                        if result.known.is_none() {
                            result.passed_over = Some(PassedOver::TooOld);
                        }
                        break;
                    }
                    result.known = Some(KnownResult::Answer(answer));
                    result.payment = payment;
                    result.is_own = is_own;
                    result.aged = (at < self.aged_before).then_some(at);
                    // Only a run that asks again replaces answers, and only its own ones do.
                    if self.not_before == i64::MIN || at < self.started {
                        break;
                    }
                }
                Some((&FAILURE, words)) if at >= self.failures_from.max(used_from) => {
                    failure = failure.or_else(|| Some((read_failure(words)?, is_own)));
                }
                Some((&FAILURE, _)) => {
                    result.passed_over = result.passed_over.or(Some(PassedOver::Failed));
                }
                _ => damaged = true,
            }
        }
        if let (None, Some((failure, is_own))) = (&result.known, failure) {
            result.known = Some(KnownResult::Failure(failure));
            result.is_own = is_own;
        }
        if result.known.is_some() {
            result.passed_over = None;
        } else if damaged {
            result.passed_over = Some(PassedOver::Damaged);
        }
        Ok(result)
    }
}

fn read_failure(words: &[u8]) -> Option<Failure> {
    let (word, message) = str::from_utf8(words).ok()?.split_once('\0')?;
    Some(Failure::new(Reason::of_word(word)?, message))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::verdict::{Score, TransactionId};

    const STARTED: i64 = 1_000;

    /// The whole body is the score.
    fn read() -> ReadAnswer {
        Arc::new(|body| {
            Some(Answer {
                transaction_id: TransactionId::new("t").unwrap(),
                score: Score::from_json_number(str::from_utf8(body).ok()?).ok()?,
                captured: Box::default(),
            })
        })
    }

    fn judge(not_before: i64, failures_from: i64, stored: &[(i64, &PaidResult)]) -> LookupResult {
        judge_for(&RequestKey::some(1), (not_before, 0), failures_from, stored)
    }

    fn judge_for(
        key: &RequestKey,
        (not_before, spread): (i64, u64),
        failures_from: i64,
        stored: &[(i64, &PaidResult)],
    ) -> LookupResult {
        let scope = Scope {
            not_before,
            spread,
            failures_from,
            started: STARTED,
            aged_before: 100,
            start: 0,
            read: read(),
        };
        let nonce = |at: i64| if at > STARTED { [0; 12] } else { [1; 12] };
        let stored = stored.iter().rev();
        let price = Money { billionths: 7 };
        let seal = |(at, outcome): &(i64, &PaidResult)| outcome.seal(key, nonce(*at), *at, price);
        let mut stored = stored.map(|stored| seal(stored).unwrap());
        scope.judge(key, || Ok::<_, ()>(stored.next())).unwrap()
    }

    fn score(result: &LookupResult) -> Option<&str> {
        match &result.known {
            Some(KnownResult::Answer(answer)) => Some(answer.score.digits()),
            _ => None,
        }
    }

    #[test]
    fn the_latest_answer_that_is_recent_enough_is_used() {
        let answer =
            |digits: &'static str| PaidResult::Answer(Bytes::from_static(digits.as_bytes()));
        let (one, two) = (answer("1"), answer("2"));
        let failure = PaidResult::Failure(Failure::new(Reason::NoAnswer, "timed out"));
        let all = judge(i64::MIN, i64::MIN, &[(50, &one), (200, &two)]);
        assert_eq!((score(&all), all.aged, &all.old), (Some("2"), None, &None));
        assert_eq!(all.payment.price.billionths, 7);
        let aged = judge(i64::MIN, i64::MIN, &[(50, &one)]);
        assert_eq!((score(&aged), aged.aged), (Some("1"), Some(50)));
        let too_old = judge(500, 500, &[(50, &one), (200, &two)]);
        assert_eq!(too_old.passed_over, Some(PassedOver::TooOld));
        assert_eq!(
            (
                score(&too_old),
                too_old.old.as_ref().unwrap().answer.score.digits()
            ),
            (None, "2")
        );
        let replaced = judge(500, 500, &[(200, &one), (STARTED + 1, &two)]);
        assert_eq!((score(&replaced), replaced.passed_over), (Some("2"), None));
        assert!(replaced.is_own && !all.is_own);
        assert_eq!(replaced.old.unwrap().answer.score.digits(), "1");

        // Half of the fingerprints are negative numbers, and the second half of the times is theirs.
        for (fingerprint, used_from) in [(0, 500), (i64::MAX, 509), (i64::MIN, 510), (-1, 519)] {
            let mut key = RequestKey::some(1);
            key.fingerprint = fingerprint;
            for (at, outcome) in [(used_from - 1, &one), (used_from, &one), (519, &failure)] {
                let judged = judge_for(&key, (500, 20), 500, &[(at, outcome)]);
                assert_eq!(
                    judged.known.is_some(),
                    at >= used_from,
                    "{fingerprint} {at}"
                );
            }
        }

        let failed = judge(i64::MIN, i64::MIN, &[(200, &failure)]);
        assert!(
            matches!(failed.known, Some(KnownResult::Failure(f)) if f.reason == Reason::NoAnswer)
        );
        assert_eq!(failed.payment, Payment::default());
        let better = judge(i64::MIN, i64::MIN, &[(50, &one), (200, &failure)]);
        assert_eq!(score(&better), Some("1"), "it was paid for");
        let retried = judge(i64::MIN, 500, &[(200, &failure)]);
        assert_eq!(
            (retried.known, retried.passed_over),
            (None, Some(PassedOver::Failed))
        );
        let damaged = judge(
            i64::MIN,
            i64::MIN,
            &[(200, &PaidResult::Answer(Bytes::from_static(b"x")))],
        );
        assert_eq!(
            (damaged.known, damaged.passed_over),
            (None, Some(PassedOver::Damaged))
        );
    }
}
