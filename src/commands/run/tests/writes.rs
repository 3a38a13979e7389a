//! Every write fails: of the ledger's answers, and of the output.

use std::io;
use std::sync::{Arc, Mutex};

use super::test_run::{
    CONCURRENCY, FailingOutput, InjectedFaults, Taken, TestRun, TestRunEnd, UNIQUE, users,
};
use crate::base::error::Exit;
use crate::ledger::tests::faults::StoreFaults;

/// All ways to fail at the nth operation.
fn ways(nth: usize) -> impl Iterator<Item = StoreFaults> {
    [
        (false, false, io::ErrorKind::StorageFull),
        (true, false, io::ErrorKind::Other),
        (false, true, io::ErrorKind::Other),
    ]
    .into_iter()
    .map(move |(for_ever, durable, kind)| StoreFaults {
        nth,
        for_ever,
        durable,
        kind,
    })
}

/// Checks all runs in which the nth write fails, and returns how many there were.
fn whichever_fails(
    words: &str,
    torn: bool,
    run: impl Fn(&TestRun, StoreFaults) -> TestRunEnd,
) -> usize {
    let mut failures = 0;
    for nth in 1.. {
        let before = failures;
        for fails in ways(nth) {
            let test = TestRun::new();
            let ran = run(&test, fails);
            if ran.exit == Exit::Complete {
                assert_eq!((ran.output, ran.asked.len()), (users(0).1, UNIQUE));
                continue;
            }
            failures += 1;
            test.check(&ran, words, torn, &format!("{fails:?}"));
        }
        if failures == before {
            break;
        }
    }
    failures
}

#[test]
fn the_next_run_continues_after_any_group_of_answers_cannot_be_stored() {
    let failures = whichever_fails("error: cannot keep answers in", false, |run, keeping| {
        run.run(InjectedFaults {
            keeping,
            ..InjectedFaults::NONE
        })
    });
    // At least the groups that there are if each has two answers for each call in flight.
    assert!(failures >= 3 * UNIQUE / (2 * CONCURRENCY), "{failures}");
}

#[test]
fn the_next_run_continues_after_any_write_of_the_output_fails() {
    let failures = whichever_fails("error: cannot write the output", true, |run, fails| {
        let failing_output = FailingOutput(Arc::new(Mutex::new(Taken {
            bytes: Vec::new(),
            writes: 0,
            fails,
        })));
        run.run(InjectedFaults {
            output: Some(&failing_output),
            ..InjectedFaults::NONE
        })
    });
    // Each write takes at most a hundred bytes.
    assert!(failures >= 3 * users(0).1.len() / 100, "{failures}");
}
