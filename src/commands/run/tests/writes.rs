//! Every write fails: of the ledger's answers, and of the output.

use std::io;
use std::sync::{Arc, Mutex};

use super::test_run::{CONCURRENCY, FailingOutput, InjectedFaults, Taken, TestRun, UNIQUE, users};
use crate::base::error::Exit;
use crate::ledger::StoreFaults;

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

#[test]
fn the_next_run_continues_after_any_group_of_answers_cannot_be_stored() {
    let mut failures = 0;
    for nth in 1.. {
        let mut any_failed = false;
        for fails in ways(nth) {
            let run = TestRun::new();
            let ran = run.run(InjectedFaults {
                keeping: fails,
                ..InjectedFaults::NONE
            });
            if ran.exit == Exit::Complete {
                assert_eq!((ran.output, ran.asked.len()), (users(0).1, UNIQUE));
                continue;
            }
            any_failed = true;
            failures += 1;
            let what = format!("{fails:?}");
            run.check(&ran, "error: cannot keep answers in", false, &what);
        }
        if !any_failed {
            break;
        }
    }
    // At least as many groups as there are if each has two answers for each call in flight.
    assert!(failures >= 3 * UNIQUE / (2 * CONCURRENCY), "{failures}");
}

#[test]
fn the_next_run_continues_after_any_write_of_the_output_fails() {
    let mut failures = 0;
    for nth in 1.. {
        let mut any_failed = false;
        for fails in ways(nth) {
            let run = TestRun::new();
            let failing_output = FailingOutput(Arc::new(Mutex::new(Taken {
                bytes: Vec::new(),
                writes: 0,
                fails,
            })));
            let ran = run.run(InjectedFaults {
                output: Some(&failing_output),
                ..InjectedFaults::NONE
            });
            if ran.exit == Exit::Complete {
                assert_eq!((ran.output, ran.asked.len()), (users(0).1, UNIQUE));
                continue;
            }
            any_failed = true;
            failures += 1;
            let what = format!("{fails:?}");
            run.check(&ran, "error: cannot write the output", true, &what);
        }
        if !any_failed {
            break;
        }
    }
    // Each write takes at most a hundred bytes.
    assert!(failures >= 3 * users(0).1.len() / 100, "{failures}");
}
