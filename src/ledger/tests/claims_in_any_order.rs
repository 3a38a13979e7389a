//! Claims, answers and ends of several workers in any order.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::{HashMap, HashSet};

use proptest::prelude::*;

use super::claims::{Process, end_leases, workers};
use super::support::Directory;
use crate::ledger::store::{ClaimResult, LeaseRenewal};

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
