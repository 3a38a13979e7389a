//! Requests that several runs of one ledger ask about: each is called for by one of them.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::{HashMap, HashSet};
use std::time::{Duration, SystemTime};

use proptest::prelude::*;

use super::support::{Directory, TestRun, answer, open, reusing, wait};
use crate::ledger::clock::millis;
use crate::ledger::db::database::Database;
use crate::ledger::lease::Holding;
use crate::ledger::lookup_result::{AnsweredIn, KnownOutcome};
use crate::ledger::store::{
    ClaimRequest, ClaimResult, LeaseRenewal, Payload, Record, RunEnd, Store, Work,
};
use crate::ledger::write_thread::Claimed;
use crate::ledger::{LedgerSettings, Release, RequestHasher, RequestKey, Reuse, Urgency};

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
    one.writer.release(Release {
        key: one.key_of(3),
        doubtful: false,
    });
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

    fn renew(&mut self) -> LeaseRenewal {
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

    fn answer(&mut self, numbers: &[u8]) {
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

    fn release(&mut self, numbers: &[u8]) {
        self.release_as(numbers, false);
    }

    /// Ends claims; with `doubtful`, what they were for may have been billed.
    fn release_as(&mut self, numbers: &[u8], doubtful: bool) {
        let release = |number: &u8| Release {
            key: self.hasher.key(&[*number]),
            doubtful,
        };
        let releases: Vec<_> = numbers.iter().map(release).collect();
        self.write(Work {
            releases: &releases,
            ..Work::default()
        });
    }
}

/// The leases of all workers end, as if they had stood still for long.
fn end_leases(place: &Directory) {
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
    stopped.release_as(&[2], true);
    stopped.database.end(RunEnd::Stopped);
    let mut last = Process::start(&place);
    assert_eq!(last.claim([2, 3, 4]), [TAKEN_OVER, TAKEN_OVER, OURS]);
    last.answer(&[2, 3, 4]);
    last.database.end(RunEnd::Stopped);
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

/// What a process does next.
#[derive(Debug, Clone)]
enum Step {
    Claim(Vec<u8>),
    /// Answers come for these, if it has claimed them.
    Answer(Vec<u8>),
    Release(Vec<u8>),
    Renew,
    /// It stands still until its lease has ended, while the others go on.
    StandStill,
    /// It is killed and started again.
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<(usize, Step)>> {
    let requests = || prop::collection::btree_set(0..12_u8, 1..6);
    let step = prop_oneof![
        6 => requests().prop_map(|it| Step::Claim(it.into_iter().collect())),
        3 => requests().prop_map(|it| Step::Answer(it.into_iter().collect())),
        2 => requests().prop_map(|it| Step::Release(it.into_iter().collect())),
        1 => Just(Step::Renew),
        1 => Just(Step::StandStill),
        1 => Just(Step::Restart),
    ];
    prop::collection::vec((0..3_usize, step), 1..60)
}

/// What must be so: who has claimed what, and whose claims may be taken over.
#[derive(Default)]
struct Expected {
    answered: HashSet<u8>,
    holders: HashMap<u8, usize>,
    /// Their leases have ended.
    still: HashSet<usize>,
    /// They were taken for gone, and do not know it yet.
    removed: HashSet<usize>,
    /// How often each process was started.
    starts: [usize; 3],
    /// What was claimed by a start of a process that was then gone, until somebody else claims it.
    abandoned: HashMap<u8, (usize, usize)>,
}

impl Expected {
    fn free(&mut self, process: usize) {
        let start = self.starts[process];
        let held = self.holders.extract_if(|_, holder| *holder == process);
        let held = held.map(|(number, _)| (number, (process, start)));
        self.abandoned.extend(held);
        self.still.remove(&process);
    }

    /// Checks what a claim has led to, and notes it.
    fn claimed(&mut self, process: usize, number: u8, result: &ClaimResult) {
        let is_ours = matches!(result, ClaimResult::Ours { .. });
        if self.removed.contains(&process) {
            assert_eq!(*result, ClaimResult::Taken);
        } else if self.answered.contains(&number) {
            assert!(matches!(result, ClaimResult::Known(..)), "{result:?}");
        } else {
            let holder = self.holders.get(&number).copied();
            let other = holder.filter(|holder| *holder != process);
            let may_be_taken_over = other.is_none_or(|other| self.still.contains(&other));
            assert_eq!(is_ours, may_be_taken_over, "{number}: {result:?}");
            if let Some(other) = other.filter(|_| is_ours) {
                self.free(other);
                self.removed.insert(other);
            }
            if is_ours {
                let start = (process, self.starts[process]);
                let taken_over = { self.abandoned.remove(&number) }.is_some_and(|it| it != start);
                assert_eq!(*result, ClaimResult::Ours { taken_over });
                self.holders.insert(number, process);
            }
        }
    }

    fn renewed(&mut self, process: usize, renewal: LeaseRenewal) {
        let was_removed = self.removed.remove(&process);
        assert_eq!(renewal == LeaseRenewal::NewWorker, was_removed);
        if was_removed {
            let start = (process, self.starts[process]);
            let kept = self.abandoned.extract_if(|_, by| *by == start);
            self.holders
                .extend(kept.map(|(number, _)| (number, process)));
        }
        self.still.remove(&process);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn whatever_workers_do_no_request_is_claimed_by_two_of_them(steps in steps()) {
        let place = Directory::new();
        let mut processes = [(); 3].map(|()| Process::start(&place));
        let mut expected = Expected::default();
        for (number, step) in steps {
            match step {
                Step::Claim(requests) => {
                    let results = processes[number].claim(requests.iter().copied());
                    for (request, result) in requests.into_iter().zip(&results) {
                        expected.claimed(number, request, result);
                    }
                }
                Step::Answer(mut requests) => {
                    requests.retain(|it| expected.holders.get(it) == Some(&number));
                    processes[number].answer(&requests);
                    for request in requests {
                        expected.holders.remove(&request);
                        expected.answered.insert(request);
                    }
                }
                Step::Release(mut requests) => {
                    requests.retain(|it| expected.holders.get(it) == Some(&number));
                    processes[number].release(&requests);
                    expected.holders.retain(|it, _| !requests.contains(it));
                }
                Step::Renew => expected.renewed(number, processes[number].renew()),
                Step::StandStill => {
                    end_leases(&place);
                    for (other, process) in processes.iter_mut().enumerate() {
                        if other != number {
                            expected.renewed(other, process.renew());
                        }
                    }
                    if !expected.removed.contains(&number) {
                        expected.still.insert(number);
                    }
                }
                Step::Restart => {
                    expected.free(number);
                    expected.removed.remove(&number);
                    expected.starts[number] += 1;
                    processes[number] = Process::start(&place);
                }
            }
        }
        // A worker that comes when all are gone gets everything, and nothing of them stays behind.
        drop(processes);
        let mut last = Process::start(&place);
        for (request, result) in (0..12).zip(last.claim(0..12)) {
            let is_known = matches!(result, ClaimResult::Known(..));
            prop_assert_eq!(is_known, expected.answered.contains(&request));
            prop_assert!(is_known || result != ClaimResult::Taken);
        }
        last.release(&(0..12).collect::<Vec<_>>());
        let connection = rusqlite::Connection::open(place.path("answers.ledger")).unwrap();
        let count = "SELECT (SELECT count(*) FROM claims WHERE id >> 32 IN (SELECT id FROM workers)),
            (SELECT count(*) FROM workers)";
        let count = connection.query_row(count, [], |row| Ok((row.get(0)?, row.get(1)?)));
        prop_assert_eq!(count, Ok((0, 1)));
        prop_assert_eq!(workers(&place), 1);
    }
}
