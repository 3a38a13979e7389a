//! What a run without a ledger knows of the requests that it has paid for, so that identical rows are asked about once. It is in
//! memory and bounded: what is forgotten is asked again.

use std::mem;

use super::answers::{KnownResult, LookupResult};
use super::key::{ByRequest, RequestKey};
use super::runs::ClaimResult;
use crate::verdict::Verdict;

/// How many bytes all of it may take, as much as the rows of the window: room for 200,000 answers, of which the latest 100,000 are
/// always known.
const MAX_BYTES: usize = if cfg!(test) { 1 << 16 } else { 1 << 26 };

/// What a result takes at most besides its texts: its place in a table that may be less than half full, and what it costs to
/// allocate the texts.
const BYTES_PER_RESULT: usize = 280;

/// What became of the latest requests that were or may have been billed.
#[derive(Default)]
pub(super) struct ResultCache {
    young: ByRequest<KnownResult>,
    /// Those before them.
    old: ByRequest<KnownResult>,
    /// What the young ones take, in bytes.
    bytes: usize,
}

impl ResultCache {
    /// This verdict came of a request. If there is no room for it, the older half of what is known is forgotten.
    pub(super) fn add(&mut self, key: RequestKey, verdict: &Verdict) {
        let bytes = BYTES_PER_RESULT + verdict.bytes();
        if self.bytes + bytes > MAX_BYTES / 2 {
            self.old = mem::take(&mut self.young);
            self.bytes = 0;
        }
        self.bytes += bytes;
        let known = match verdict {
            Verdict::Scored(answer, _) => KnownResult::Answer(answer.clone()),
            Verdict::Failed(failure) => KnownResult::Failure(failure.clone()),
        };
        self.young.insert(key, known);
    }

    /// A request is about to be called for: nobody else calls for it, and what became of it may be known.
    pub(super) fn claim(&self, key: &RequestKey) -> ClaimResult {
        match self.young.get(key).or_else(|| self.old.get(key)) {
            Some(known) => ClaimResult::Known(LookupResult {
                known: Some(known.clone()),
                is_own: true,
                ..LookupResult::default()
            }),
            None => ClaimResult::Ours { taken_over: false },
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::verdict::{Answer, Failure, Reason, Score, TransactionId};

    fn scored(captured: &str) -> Verdict {
        let answer = Answer {
            transaction_id: TransactionId::new("t").unwrap(),
            score: Score::from_json_number("1.50").unwrap(),
            captured: Box::new([Some(captured.into()), None]),
        };
        Verdict::Scored(answer, None)
    }

    fn known(paid: &ResultCache, key: RequestKey) -> Option<Verdict> {
        let ClaimResult::Known(found) = paid.claim(&key) else {
            assert_eq!(paid.claim(&key), ClaimResult::Ours { taken_over: false });
            return None;
        };
        assert!(found.is_own);
        found.known.map(|known| match known {
            KnownResult::Answer(answer) => Verdict::Scored(answer, None),
            KnownResult::Failure(failure) => Verdict::Failed(failure),
        })
    }

    #[test]
    fn a_result_is_known_whole_and_only_by_its_request() {
        let mut paid = ResultCache::default();
        let failed = Verdict::Failed(Failure::new(Reason::NoAnswer, "timed out"));
        for (number, verdict) in [(1, scored("\"level\"")), (2, failed)] {
            let key = RequestKey::some(number);
            paid.add(key, &verdict);
            assert_eq!(known(&paid, key), Some(verdict));
            // The same fingerprint, of another request.
            let other = RequestKey::of_row(number.into());
            assert_eq!(other.fingerprint(), key.fingerprint());
            assert_eq!(known(&paid, other), None);
        }
    }

    #[test]
    fn a_full_map_forgets_the_older_half_and_never_takes_more_than_it_may() {
        for captured in ["", &"x".repeat(1_000), &"x".repeat(MAX_BYTES)] {
            let each = BYTES_PER_RESULT + scored(captured).bytes();
            let half = (MAX_BYTES / 2 / each).max(1) as u64;
            let mut paid = ResultCache::default();
            for row in 1..=5 * half {
                paid.add(RequestKey::of_row(row), &scored(captured));
                let known = |row| known(&paid, RequestKey::of_row(row)).is_some();
                assert!((row.saturating_sub(half - 1).max(1)..=row).all(known));
                assert!(row <= 2 * half || !known(row - 2 * half));
            }
        }
    }
}
