//! Requests that several runs of one ledger ask about: each is called for by one of them.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use super::support::{Directory, TestRun, answer, wait};
use crate::ledger::lookup_result::{AnsweredIn, KnownOutcome};
use crate::ledger::store::{ClaimRequest, ClaimResult};
use crate::ledger::write_thread::Claimed;
use crate::ledger::{RequestHasher, RequestKey};

const OURS: ClaimResult = ClaimResult::Ours { taken_over: false };

/// The request with this number.
fn request(hasher: &RequestHasher, number: u8) -> ClaimRequest {
    let body = vec![number];
    ClaimRequest {
        key: hasher.key(&body),
        body: body.into(),
    }
}

impl TestRun {
    /// Claims these requests.
    fn claim(&self, numbers: impl IntoIterator<Item = u8>) -> Vec<ClaimResult> {
        let Claimed { results, .. } = self.claimed(numbers);
        results
    }

    fn claimed(&self, numbers: impl IntoIterator<Item = u8>) -> Claimed {
        let numbers = numbers.into_iter();
        let requests = numbers.map(|number| request(&self.hasher, number));
        wait(self.writer.claim(requests.collect())).unwrap()
    }

    fn key_of(&self, number: u8) -> RequestKey {
        self.hasher.key(&[number])
    }

    /// What another run learns of an answer.
    fn answered(found: &ClaimResult) -> bool {
        matches!(found, ClaimResult::Known(found, AnsweredIn::OtherRun)
            if matches!(found.known, Some(KnownOutcome::Answer(_))))
    }
}

/// How many files of workers there are.
fn workers(place: &Directory) -> usize {
    let names = place.names();
    { names.iter() }
        .filter(|name| name.contains("-worker-"))
        .count()
}

#[test]
fn a_request_is_claimed_by_one_run_until_it_is_answered_or_released() {
    let place = Directory::new();
    let (one, two) = (TestRun::new(place.shared()), TestRun::new(place.shared()));
    assert_eq!(one.claim(1..=3), [OURS, OURS, OURS]);
    assert_eq!(
        two.claim([2, 3, 4]),
        [ClaimResult::Taken, ClaimResult::Taken, OURS]
    );
    // To claim again what is claimed already changes nothing.
    assert_eq!(one.claim([1, 4]), [OURS, ClaimResult::Taken]);
    one.keep(&[2], &answer("t-2"));
    one.writer.release(one.key_of(3));
    assert_eq!(one.claim([]), []);
    let results = two.claim([1, 2, 3]);
    assert_eq!((&results[0], &results[2]), (&ClaimResult::Taken, &OURS));
    assert!(TestRun::answered(&results[1]));
    assert_eq!(workers(&place), 2);
    drop((one, two));
}

#[test]
fn the_claims_of_a_run_end_with_it() {
    let place = Directory::new();
    let (one, two) = (TestRun::new(place.shared()), TestRun::new(place.shared()));
    assert_eq!(one.claim([1, 2]), [OURS, OURS]);
    one.close(crate::ledger::Removal::Never);
    assert_eq!(two.claim([1, 2]), [OURS, OURS]);
    assert_eq!(workers(&place), 1);
    two.close(crate::ledger::Removal::Never);
    assert_eq!(place.names(), ["answers.ledger"]);
}
