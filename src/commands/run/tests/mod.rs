//! Every write and every look-up of a run fails: the first, the second, the third and so on, once or from then on. No row
//! gets the verdict of another one, no stored answer is paid for again, and the next run gives the same bytes as a run in
//! which nothing failed.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

mod test_run;

use std::collections::HashSet;
use std::io;
use std::num::NonZeroU64;

use crate::base::error::Exit;
use crate::ledger::tests::faults::StoreFaults;
use test_run::{CONCURRENCY, InjectedFaults, Promised, TestRun, TestRunEnd, UNIQUE, users};

const ONCE: StoreFaults = StoreFaults {
    kind: io::ErrorKind::StorageFull,
    ..StoreFaults::NEVER
};
const FOR_EVER: StoreFaults = StoreFaults {
    for_ever: true,
    ..StoreFaults::NEVER
};
const DURABLE: StoreFaults = StoreFaults {
    durable: true,
    ..StoreFaults::NEVER
};

/// Checks all runs in which the nth operation fails in one of these ways, and returns how many there were. `prepare` makes what
/// is there before the run, and says which users are paid for.
fn whichever_fails(
    ways: &[StoreFaults],
    promised: Promised,
    prepare: impl Fn() -> (TestRun, HashSet<u64>),
    run: impl Fn(&TestRun, StoreFaults) -> TestRunEnd,
) -> usize {
    let mut failures = 0;
    for nth in 1.. {
        let before = failures;
        for way in ways {
            let fails = StoreFaults { nth, ..*way };
            let (test, paid) = prepare();
            let ran = run(&test, fails);
            let again = ran.asked.iter().any(|user| paid.contains(user));
            assert!(!again, "{fails:?}: what was durable is asked for again");
            if ran.exit == Exit::Complete {
                assert_eq!(ran.output, users(test.longer).1);
                assert_eq!(ran.asked.len(), UNIQUE - paid.len());
                continue;
            }
            failures += 1;
            test.check(&ran, promised, &format!("{fails:?}"));
        }
        if failures == before {
            break;
        }
    }
    failures
}

fn nothing_before() -> (TestRun, HashSet<u64>) {
    (TestRun::new(0), HashSet::new())
}

#[test]
fn the_next_run_continues_after_any_look_up_of_a_row_that_is_read_fails() {
    let prepare = || {
        // Rows so long that they come in two batches, one of which passes before the failure.
        let test = TestRun::new(40_000);
        let before = test.run(InjectedFaults {
            calls: NonZeroU64::new(12),
            ..InjectedFaults::NONE
        });
        assert_eq!((before.exit, before.asked.len()), (Exit::Limited, 12));
        let paid = test.durable();
        (test, paid)
    };
    let promised = Promised {
        words: "error: cannot read the ledger",
        torn: false,
        lost: 0,
    };
    let failures = whichever_fails(&[ONCE, FOR_EVER], promised, prepare, |test, reading| {
        test.run(InjectedFaults {
            reading,
            ..InjectedFaults::NONE
        })
    });
    // The rows of each batch are looked up together.
    assert!(failures >= 2 * 2, "{failures}");
}

#[test]
fn the_next_run_continues_after_any_group_of_answers_cannot_be_stored() {
    let ways = [ONCE, FOR_EVER, DURABLE];
    let promised = Promised {
        words: "error: cannot keep answers in",
        torn: false,
        lost: 2 * CONCURRENCY,
    };
    let failures = whichever_fails(&ways, promised, nothing_before, |test, keeping| {
        test.run(InjectedFaults {
            keeping,
            ..InjectedFaults::NONE
        })
    });
    // At least the groups that there are if each has two answers for each call in flight.
    assert!(failures >= 3 * UNIQUE / (2 * CONCURRENCY), "{failures}");
}

#[test]
fn the_next_run_continues_after_any_write_of_the_output_fails() {
    let promised = Promised {
        words: "error: cannot write the output",
        torn: true,
        lost: 2 * CONCURRENCY,
    };
    let failures = whichever_fails(
        &[ONCE, DURABLE],
        promised,
        nothing_before,
        |test, writing| {
            test.run(InjectedFaults {
                writing,
                ..InjectedFaults::NONE
            })
        },
    );
    // Each write takes at most a hundred bytes.
    assert!(failures >= 2 * users(0).1.len() / 100, "{failures}");
}
