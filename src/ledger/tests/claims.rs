//! Requests that several runs of one ledger ask about: each is called for by one of them.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::time::{Duration, SystemTime};

use super::support::{Directory, TestRun, answer, open, reusing, wait};
use crate::ledger::clock::millis;
use crate::ledger::db::database::Database;
use crate::ledger::lease::Holding;
use crate::ledger::lookup_result::{AnsweredIn, KnownOutcome};
use crate::ledger::store::{
    ClaimRequest, ClaimResult, LeaseRenewal, Payload, Record, RunEnd, Store, Work,
};
use crate::ledger::write_thread::Claimed;
use crate::ledger::{LedgerSettings, RequestHasher, RequestKey, Reuse, Urgency};

pub(super) const OURS: ClaimResult = ClaimResult::Ours { taken_over: false };
pub(super) const TAKEN_OVER: ClaimResult = ClaimResult::Ours { taken_over: true };

/// The request with this number.
pub(super) fn request(hasher: &RequestHasher, number: u8) -> ClaimRequest {
    let body = vec![number];
    ClaimRequest {
        key: hasher.key(&body),
        body: body.into(),
    }
}

impl TestRun {
    /// Claims these requests.
    pub(super) fn claim(&self, numbers: impl IntoIterator<Item = u8>) -> Vec<ClaimResult> {
        let Claimed { results, .. } = self.claimed(numbers);
        results
    }

    fn claimed(&self, numbers: impl IntoIterator<Item = u8>) -> Claimed {
        let numbers = numbers.into_iter();
        let requests = numbers.map(|number| request(&self.hasher, number));
        wait(self.writer.claim(requests.collect(), Urgency::Now)).unwrap()
    }

    pub(super) fn key_of(&self, number: u8) -> RequestKey {
        self.hasher.key(&[number])
    }

    /// What another run learns of an answer.
    pub(super) fn answered(found: &ClaimResult) -> bool {
        matches!(found, ClaimResult::Known(found, AnsweredIn::OtherRun)
            if matches!(found.known, Some(KnownOutcome::Answer(_))))
    }
}

/// How many files of workers there are.
pub(super) fn workers(place: &Directory) -> usize {
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

/// Another process that uses the ledger, as its thread would.
pub(super) struct Process {
    database: Database,
    hasher: RequestHasher,
}

impl Process {
    pub(super) fn start(place: &Directory) -> Self {
        Self::open(place.shared())
    }

    /// One that uses no answer from before it.
    pub(super) fn start_fresh(place: &Directory) -> Self {
        Self::open(reusing(Reuse::Nothing, place.shared()))
    }

    fn open(settings: LedgerSettings) -> Self {
        let ledger = open(settings);
        let hasher = ledger.hasher();
        let mut database = ledger.into_database();
        let renewal = database.renew().unwrap();
        assert_eq!(renewal, LeaseRenewal::NewWorker);
        Self { database, hasher }
    }

    pub(super) fn renew(&mut self) -> LeaseRenewal {
        self.database.renew().unwrap()
    }

    fn write(&mut self, work: Work<'_>) -> Vec<ClaimResult> {
        self.database.write(work).unwrap()
    }

    pub(super) fn claim(&mut self, numbers: impl IntoIterator<Item = u8>) -> Vec<ClaimResult> {
        let numbers = numbers.into_iter();
        let requests: Vec<_> = numbers.map(|it| request(&self.hasher, it)).collect();
        self.write(Work {
            claims: &requests,
            ..Work::default()
        })
    }

    pub(super) fn answer(&mut self, numbers: &[u8]) {
        let record = |number: &u8| Record {
            key: self.hasher.key(&[*number]),
            payload: Payload::Answer(answer(&format!("t-{number}"))),
            at: millis(SystemTime::now()),
        };
        let records: Vec<_> = numbers.iter().map(record).collect();
        self.write(Work {
            records: &records,
            ..Work::default()
        });
    }

    /// Stores an answer and claims a request in one group.
    fn answer_and_claim(&mut self, answered: u8, claimed: u8) -> std::io::Result<Vec<ClaimResult>> {
        let record = Record {
            key: self.hasher.key(&[answered]),
            payload: Payload::Answer(answer("t-1")),
            at: millis(SystemTime::now()),
        };
        self.database.write(Work {
            records: &[record],
            claims: &[request(&self.hasher, claimed)],
            ..Work::default()
        })
    }

    pub(super) fn release(&mut self, numbers: &[u8]) {
        let key = |number: &u8| self.hasher.key(&[*number]);
        let releases: Vec<_> = numbers.iter().map(key).collect();
        self.write(Work {
            releases: &releases,
            ..Work::default()
        });
    }
}

/// The leases of all workers end, as if they had stood still for long.
pub(super) fn end_leases(place: &Directory) {
    let connection = rusqlite::Connection::open(place.path("answers.ledger")).unwrap();
    connection
        .execute("UPDATE workers SET alive_until = 0", [])
        .unwrap();
}

#[test]
fn the_claims_of_a_worker_that_is_gone_are_taken_over_at_once() {
    let place = Directory::new();
    let mut gone = Process::start(&place);
    let mut other = Process::start(&place);
    assert_eq!(gone.claim(1..=4), [OURS, OURS, OURS, OURS]);
    gone.answer(&[1]);
    assert_eq!(other.claim([2]), [ClaimResult::Taken]);
    // Without an end, as after `kill -9`.
    drop(gone);
    let results = other.claim([1, 2, 3, 9]);
    assert!(TestRun::answered(&results[0]));
    assert_eq!(results[1..], [TAKEN_OVER, TAKEN_OVER, OURS]);
    // Also what it did not ask for then.
    assert_eq!(other.claim([4]), [TAKEN_OVER]);
    assert_eq!(workers(&place), 1);
}

#[test]
fn an_answer_of_a_group_that_was_not_stored_is_known_to_nobody() {
    let place = Directory::new();
    let ledger = open(place.shared());
    let (hasher, lookup) = (ledger.hasher(), ledger.open_lookup().unwrap());
    let mut database = ledger.into_database();
    database.renew().unwrap();
    let mut process = Process { database, hasher };
    assert_eq!(process.answer_and_claim(1, 2).unwrap(), [OURS]);
    let may_have_come = |number| lookup.may_have_come(&process.hasher.key(&[number]));
    assert_eq!([1, 3].map(may_have_come), [true, false]);

    let connection = rusqlite::Connection::open(place.path("answers.ledger")).unwrap();
    connection.execute("DROP TABLE claims", []).unwrap();
    assert!(process.answer_and_claim(3, 4).is_err());
    // Who looks for what is known to be there looks again until it is.
    assert!(!lookup.may_have_come(&process.hasher.key(&[3])));
}

#[test]
fn a_new_worker_clears_up_after_those_that_are_gone() {
    let place = Directory::new();
    let mut gone = Process::start(&place);
    assert_eq!(gone.claim([1]), [OURS]);
    drop(gone);
    let mut new = Process::start(&place);
    assert_eq!(workers(&place), 1);
    assert_eq!(new.claim([1, 2]), [TAKEN_OVER, OURS]);
}

#[test]
fn what_a_gone_worker_had_claimed_counts_once_within_a_day() {
    let place = Directory::new();
    let (mut gone, mut before) = (Process::start(&place), Process::start(&place));
    assert_eq!(gone.claim([1, 2]), [OURS, OURS]);
    drop(gone);
    // The first run that notices claims something else.
    let mut first = Process::start(&place);
    assert_eq!(first.claim([3]), [OURS]);
    assert_eq!(before.claim([1]), [TAKEN_OVER]);
    let mut later = Process::start(&place);
    assert_eq!(later.claim([1]), [ClaimResult::Taken]);
    // The run that took it over has called for it, and nothing was billed.
    before.release(&[1]);
    assert_eq!(first.claim([1]), [OURS]);
    first.release(&[1]);
    let connection = rusqlite::Connection::open(place.path("answers.ledger")).unwrap();
    let yesterday = "UPDATE claims SET at = at - 86400000 - 1";
    assert!(connection.execute(yesterday, []).unwrap() > 0);
    assert_eq!(Process::start(&place).claim([2]), [OURS]);
}

#[test]
fn what_was_taken_over_counts_for_the_next_run_until_a_call_for_it_has_ended() {
    let place = Directory::new();
    let mut gone = Process::start(&place);
    assert_eq!(gone.claim([1, 2, 3]), [OURS, OURS, OURS]);
    drop(gone);
    // Two that are killed as well, the second after it has called for one of them.
    for called in [&[][..], &[1]] {
        let mut next = Process::start(&place);
        assert_eq!(next.claim([1, 2, 3]), [TAKEN_OVER, TAKEN_OVER, TAKEN_OVER]);
        next.answer(called);
    }
    // One that is stopped before it calls for what it has claimed, but for one request whose call gets no answer.
    let mut stopped = Process::start(&place);
    assert_eq!(stopped.claim([2, 3, 4]), [TAKEN_OVER, TAKEN_OVER, OURS]);
    stopped.release(&[2]);
    stopped.database.leave(RunEnd::Stopped);
    let mut last = Process::start(&place);
    assert_eq!(last.claim([2, 3, 4]), [OURS, TAKEN_OVER, OURS]);
    last.answer(&[2, 3, 4]);
    last.database.leave(RunEnd::Stopped);
    let mut fresh = Process::start_fresh(&place);
    assert_eq!(fresh.claim([1, 2, 3, 4]), [OURS, OURS, OURS, OURS]);
}

#[test]
fn what_a_gone_worker_got_an_answer_for_is_not_counted_when_it_is_asked_again() {
    let place = Directory::new();
    let mut gone = Process::start(&place);
    assert_eq!(gone.claim([1, 2]), [OURS, OURS]);
    gone.answer(&[1]);
    drop(gone);
    let mut fresh = Process::start_fresh(&place);
    assert_eq!(fresh.claim([1, 2]), [OURS, TAKEN_OVER]);
}

#[test]
fn a_worker_that_stood_still_for_longer_than_its_lease_loses_its_claims_and_keeps_its_answers() {
    let place = Directory::new();
    let (mut still, mut other) = (Process::start(&place), Process::start(&place));
    assert_eq!(still.claim([1, 2, 3]), [OURS, OURS, OURS]);
    end_leases(&place);
    assert_eq!(other.renew(), LeaseRenewal::Kept);
    // Nobody has noticed yet: a late renewal keeps everything.
    assert_eq!(still.renew(), LeaseRenewal::Kept);
    assert_eq!(other.claim([1]), [ClaimResult::Taken]);
    end_leases(&place);
    assert_eq!(other.renew(), LeaseRenewal::Kept);
    assert_eq!(other.claim([1, 2]), [TAKEN_OVER, TAKEN_OVER]);
    // It cannot claim anything before it is another worker, and nothing of what is taken after that.
    assert_eq!(still.claim([4]), [ClaimResult::Taken]);
    assert_eq!(still.renew(), LeaseRenewal::NewWorker);
    assert_eq!(still.claim([1, 4]), [ClaimResult::Taken, OURS]);
    // Its call was out all the time.
    still.answer(&[2]);
    assert!(TestRun::answered(&other.claim([2])[0]));
    assert_eq!(still.claim([3]), [OURS]);
    assert_eq!(workers(&place), 2);
}

#[test]
fn only_one_run_that_renews_its_lease_in_time_may_call() {
    let place = Directory::new();
    let run = TestRun::new(place.shared());
    let Claimed {
        worker, results, ..
    } = run.claimed([1]);
    assert_eq!(results, [OURS]);
    assert_eq!(run.writer.holding(worker), Holding::Held);
    run.writer.advance_lease(Duration::from_secs(3_600));
    assert_eq!(run.writer.holding(worker), Holding::AwaitsRenewal);
    // The thread renews the lease before the next group. Nobody has taken the claims over.
    assert_eq!(run.claim([2]), [OURS]);
    assert_eq!(run.writer.holding(worker), Holding::Held);
    // Another run takes them over.
    end_leases(&place);
    let other = TestRun::new(place.shared());
    assert_eq!(other.claim([1]), [TAKEN_OVER]);
    run.writer.advance_lease(Duration::from_secs(3_600));
    assert_eq!(run.claim([1, 3]), [ClaimResult::Taken, OURS]);
    assert_eq!(run.writer.holding(worker), Holding::Lost);
}
