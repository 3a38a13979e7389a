//! Every look-up of the ledger fails: as rows are read, and just before their calls.

use std::num::NonZeroU64;

use super::test_run::{InjectedFaults, TestRun, users};
use crate::base::error::Exit;
use crate::ledger::tests::faults::StoreFaults;

/// The ways that a look-up fails from the nth on.
fn ways(nth: usize) -> impl Iterator<Item = StoreFaults> {
    [false, true].into_iter().map(move |for_ever| StoreFaults {
        nth,
        for_ever,
        ..StoreFaults::NEVER
    })
}

/// Checks all runs in which the nth look-up fails, and returns how many there were. `prepare` makes what is there before
/// the run.
fn whichever_fails(
    prepare: impl Fn() -> TestRun,
    faults: impl Fn(StoreFaults) -> InjectedFaults<'static>,
) -> usize {
    let mut failures = 0;
    for nth in 1.. {
        let before = failures;
        for fails in ways(nth) {
            let run = prepare();
            let paid = run.durable();
            let ran = run.run(faults(fails));
            let again = ran.asked.iter().any(|user| paid.contains(user));
            assert!(!again, "{fails:?}: what was durable is asked for again");
            if ran.exit == Exit::Complete {
                assert_eq!(ran.output, users(run.longer).1);
                continue;
            }
            failures += 1;
            let what = format!("{fails:?}");
            let durable = run.durable();
            let all_kept = ran.asked.iter().all(|user| durable.contains(user));
            assert!(all_kept, "{what}: a paid answer is lost");
            run.check(&ran, "error: cannot read the ledger", false, &what);
        }
        if failures == before {
            return failures;
        }
    }
    failures
}

#[test]
fn the_next_run_continues_after_any_look_up_of_a_row_that_is_read_fails() {
    let prepare = || {
        // Rows so long that they come in several batches, some of which pass before the failure.
        let run = TestRun::with(100_000);
        let before = run.run(InjectedFaults {
            calls: NonZeroU64::new(12),
            ..InjectedFaults::NONE
        });
        assert_eq!((before.exit, before.asked.len()), (Exit::Limited, 12));
        run
    };
    let failures = whichever_fails(prepare, |reading| InjectedFaults {
        reading,
        ..InjectedFaults::NONE
    });
    // The rows of each of several batches are looked up together.
    assert!(failures >= 2 * 3, "{failures}");
}
