//! What became of a request, as it is stored, and what that means for a run that asks.
//!
//! There is one rule: a run uses the latest answer that is not older than its `not_before`, or
//! else the latest failure that is not. With a range of ages, each request has a later moment of
//! its own, which its fingerprint chooses. The rule is the same wherever answers are stored;
//! nothing is read here. A run without a ledger keeps its latest results in memory.

use std::mem;
use std::sync::Arc;

use bytes::Bytes;

use super::key::{ByRequest, RequestKey, SealNonce};
use crate::base::money::Money;
use crate::telemetry::event::PassedOver;
use crate::verdict::{Answer, Failure, Reason, Verdict};

/// Reads a verdict, with the further fields that the run writes, from a body of the service.
/// `None` if it has none.
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
    /// Encrypts it for the request, with a nonce that is used only once. After a byte for the kind
    /// comes the body of an answer, which costs this price, or the reason of a failure, a zero
    /// byte and the message. `None` if it is far too long.
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
        Some(Stored {
            fingerprint: key.fingerprint(),
            seq: 0,
            at,
            // A price that does not fit is of no real currency.
            price: price.billionths.try_into().unwrap_or_default(),
            sealed,
        })
    }
}

/// A result as it is stored.
#[derive(Debug, Clone)]
pub(super) struct Stored {
    /// The fingerprint of its request.
    pub(super) fingerprint: i64,
    /// The number of its row, once it has one: later rows have higher numbers.
    pub(super) seq: i64,
    /// When it arrived, in milliseconds since 1970.
    pub(super) at: i64,
    /// What the answer cost, in billionths; zero for a failure, and if nobody gave a price.
    pub(super) price: i64,
    pub(super) sealed: Vec<u8>,
}

impl Stored {
    fn payment(&self) -> Payment {
        let billionths = self.price.try_into().unwrap_or_default();
        Payment {
            seq: self.seq,
            price: Money { billionths },
        }
    }
}

/// What a ledger has for a request.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LookupResult {
    /// What became of it, if the run may use that.
    pub(crate) result: Option<KnownResult>,
    /// What that cost, if it is an answer.
    pub(crate) payment: Payment,
    /// Whether that arrived in this start of the run.
    pub(crate) is_of_this_start: bool,
    /// When that arrived, in milliseconds since 1970, if it is so old that people should be told.
    pub(crate) aged: Option<i64>,
    /// The answer from before the run started that this run replaces or has replaced: the same
    /// however often the run was stopped since, and for all rows with this request.
    pub(crate) old: Option<Box<OldAnswer>>,
    /// Why the run does not use something that is stored.
    pub(crate) passed_over: Option<PassedOver>,
}

/// What an answer cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Payment {
    /// The number of the answer in its ledger: rows with equal requests share one answer.
    pub(crate) seq: i64,
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

/// Which of the stored results a run uses. All times are in milliseconds since 1970.
#[derive(Clone)]
pub(super) struct Scope {
    /// Older answers are not used.
    pub(super) not_before: i64,
    /// Of answers that are younger than that by up to this time, the request's fingerprint decides
    /// which are used.
    pub(super) spread: u64,
    /// Older failures are not used either; never before `not_before`.
    pub(super) failures_from: i64,
    /// When the run first started.
    pub(super) started: i64,
    /// People are told of answers from before that; `i64::MIN` for none.
    pub(super) aged_before: i64,
    /// The random number of this start of the run, with which the nonces of its seals start.
    pub(super) start: i64,
    /// Reads the bodies of answers.
    pub(super) read: ReadAnswer,
}

impl Scope {
    /// The time from which on answers to this request are used. Fingerprints are evenly
    /// distributed, and so are these times.
    pub(super) fn used_from(&self, key: &RequestKey) -> i64 {
        let fingerprint = key.fingerprint().cast_unsigned();
        let later = (u128::from(fingerprint) * u128::from(self.spread)) >> 64;
        let later = i64::try_from(later).unwrap_or(i64::MAX);
        self.not_before.saturating_add(later)
    }

    /// What the stored results of a request mean, of which `next` reads the latest first, and no
    /// more than are needed.
    ///
    /// # Errors
    /// `next` failed.
    pub(super) fn judge<E>(
        &self,
        key: &RequestKey,
        mut next: impl FnMut() -> Result<Option<Stored>, E>,
    ) -> Result<LookupResult, E> {
        let mut found = LookupResult::default();
        let (mut failure, mut damaged) = (None, false);
        let used_from = self.used_from(key);
        while let Some(stored) = next()? {
            let (at, payment, sealed) = (stored.at, stored.payment(), stored.sealed);
            let is_of_this_start = sealed.starts_with(&self.start.to_le_bytes());
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
                    if at < used_from || found.result.is_some() {
                        let is_old = found.result.is_none() || at < self.started;
                        let old = OldAnswer {
                            answer,
                            payment,
                            at,
                        };
                        found.old = is_old.then(|| Box::new(old));
                        if found.result.is_none() {
                            found.passed_over = Some(PassedOver::TooOld);
                        }
                        break;
                    }
                    found.result = Some(KnownResult::Answer(answer));
                    found.payment = payment;
                    found.is_of_this_start = is_of_this_start;
                    found.aged = (at < self.aged_before).then_some(at);
                    // A run replaces answers only if it asks again, and has then stored the later
                    // ones itself.
                    if self.not_before == i64::MIN || at < self.started {
                        break;
                    }
                }
                Some((&FAILURE, words)) if at >= self.failures_from.max(used_from) => {
                    failure = failure.or_else(|| Some((read_failure(words)?, is_of_this_start)));
                }
                Some((&FAILURE, _)) => {
                    found.passed_over = found.passed_over.or(Some(PassedOver::Failed));
                }
                _ => damaged = true,
            }
        }
        if let (None, Some((failure, is_of_this_start))) = (&found.result, failure) {
            found.result = Some(KnownResult::Failure(failure));
            found.is_of_this_start = is_of_this_start;
        }
        if found.result.is_some() {
            found.passed_over = None;
        } else if damaged {
            found.passed_over = Some(PassedOver::Damaged);
        }
        Ok(found)
    }
}

fn read_failure(words: &[u8]) -> Option<Failure> {
    let (word, message) = str::from_utf8(words).ok()?.split_once('\0')?;
    Some(Failure::new(Reason::of_word(word)?, message))
}

/// How many bytes the results of a run without a ledger may take, as much as the rows of the
/// window: room for 200,000 answers, of which the latest 100,000 are always there.
const MAX_CACHE_BYTES: usize = if cfg!(test) { 1 << 16 } else { 1 << 26 };
/// What a result takes at most besides its texts: its slot in a table that may be less than half
/// full, and what it costs to allocate the texts.
const BYTES_PER_RESULT: usize = 280;

/// The latest results of a run without a ledger, so that it asks about identical rows once. What
/// is forgotten is asked again.
#[derive(Default)]
pub(super) struct ResultCache {
    young: ByRequest<KnownResult>,
    /// The results before them.
    old: ByRequest<KnownResult>,
    /// What the young ones take, in bytes.
    bytes: usize,
}

impl ResultCache {
    /// Keeps the verdict of a request. If there is no room for it, the older half is forgotten.
    pub(super) fn add(&mut self, key: RequestKey, verdict: &Verdict) {
        let bytes = BYTES_PER_RESULT + verdict.bytes();
        if self.bytes + bytes > MAX_CACHE_BYTES / 2 {
            self.old = mem::take(&mut self.young);
            self.bytes = 0;
        }
        self.bytes += bytes;
        let result = match verdict {
            Verdict::Scored(answer, _) => KnownResult::Answer(answer.clone()),
            Verdict::Failed(failure) => KnownResult::Failure(failure.clone()),
        };
        self.young.insert(key, result);
    }

    /// What became of a request, unless that is forgotten.
    pub(super) fn find(&self, key: &RequestKey) -> Option<LookupResult> {
        let result = self.young.get(key).or_else(|| self.old.get(key))?;
        Some(LookupResult {
            result: Some(result.clone()),
            is_of_this_start: true,
            ..LookupResult::default()
        })
    }
}

#[cfg(test)]
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
        let seal = |(at, result): &(i64, &PaidResult)| result.seal(key, nonce(*at), *at, price);
        let mut stored = stored.map(|stored| seal(stored).unwrap());
        scope.judge(key, || Ok::<_, ()>(stored.next())).unwrap()
    }

    fn score(result: &LookupResult) -> Option<&str> {
        match &result.result {
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
        assert!(replaced.is_of_this_start && !all.is_of_this_start);
        assert_eq!(replaced.old.unwrap().answer.score.digits(), "1");

        // Half of the fingerprints are negative numbers, and the second half of the times is
        // theirs.
        for (fingerprint, used_from) in [(0, 500), (i64::MAX, 509), (i64::MIN, 510), (-1, 519)] {
            let mut key = RequestKey::some(1);
            key.fingerprint = fingerprint;
            for (at, result) in [(used_from - 1, &one), (used_from, &one), (519, &failure)] {
                let judged = judge_for(&key, (500, 20), 500, &[(at, result)]);
                assert_eq!(
                    judged.result.is_some(),
                    at >= used_from,
                    "{fingerprint} {at}"
                );
            }
        }

        let failed = judge(i64::MIN, i64::MIN, &[(200, &failure)]);
        assert!(
            matches!(failed.result, Some(KnownResult::Failure(f)) if f.reason == Reason::NoAnswer)
        );
        assert_eq!(failed.payment, Payment::default());
        let better = judge(i64::MIN, i64::MIN, &[(50, &one), (200, &failure)]);
        assert_eq!(score(&better), Some("1"), "it was paid for");
        let retried = judge(i64::MIN, 500, &[(200, &failure)]);
        assert_eq!(
            (retried.result, retried.passed_over),
            (None, Some(PassedOver::Failed))
        );
        let damaged = judge(
            i64::MIN,
            i64::MIN,
            &[(200, &PaidResult::Answer(Bytes::from_static(b"x")))],
        );
        assert_eq!(
            (damaged.result, damaged.passed_over),
            (None, Some(PassedOver::Damaged))
        );
    }

    fn scored(captured: &str) -> Verdict {
        let answer = Answer {
            transaction_id: TransactionId::new("t").unwrap(),
            score: Score::from_json_number("1.50").unwrap(),
            captured: Box::new([Some(captured.into()), None]),
        };
        Verdict::Scored(answer, None)
    }

    fn cached(cache: &ResultCache, key: RequestKey) -> Option<Verdict> {
        let found = cache.find(&key)?;
        assert!(found.is_of_this_start);
        found.result.map(|result| match result {
            KnownResult::Answer(answer) => Verdict::Scored(answer, None),
            KnownResult::Failure(failure) => Verdict::Failed(failure),
        })
    }

    #[test]
    fn a_result_is_found_whole_and_only_by_its_request() {
        let mut cache = ResultCache::default();
        let failed = Verdict::Failed(Failure::new(Reason::NoAnswer, "timed out"));
        for (number, verdict) in [(1, scored("\"level\"")), (2, failed)] {
            let key = RequestKey::some(number);
            cache.add(key, &verdict);
            assert_eq!(cached(&cache, key), Some(verdict));
            // The same fingerprint, of another request.
            let other = RequestKey::of_row(number.into());
            assert_eq!(other.fingerprint(), key.fingerprint());
            assert_eq!(cached(&cache, other), None);
        }
    }

    #[test]
    fn a_full_map_forgets_the_older_half_and_never_takes_more_than_it_may() {
        for captured in ["", &"x".repeat(1_000), &"x".repeat(MAX_CACHE_BYTES)] {
            let each = BYTES_PER_RESULT + scored(captured).bytes();
            let half = (MAX_CACHE_BYTES / 2 / each).max(1) as u64;
            let mut cache = ResultCache::default();
            for row in 1..=5 * half {
                cache.add(RequestKey::of_row(row), &scored(captured));
                let has = |row| cache.find(&RequestKey::of_row(row)).is_some();
                assert!((row.saturating_sub(half - 1).max(1)..=row).all(has));
                assert!(row <= 2 * half || !has(row - 2 * half));
            }
        }
    }
}
