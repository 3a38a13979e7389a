//! Every look-up of the ledger fails: as rows are read, and just before their calls.

use super::*;

/// The ways that a look-up fails from the nth on.
fn ways(nth: usize) -> impl Iterator<Item = StoreFaults> {
    [false, true].into_iter().map(move |for_ever| StoreFaults {
        nth,
        for_ever,
        ..StoreFaults::NEVER
    })
}

/// Holds all runs in which the nth look-up fails to what they promise, and tells how many there were. `prepare` makes
/// what there is before the run.
fn whichever_fails(
    prepare: impl Fn() -> Course,
    trouble: impl Fn(StoreFaults) -> Trouble<'static>,
) -> usize {
    let mut failures = 0;
    for nth in 1.. {
        let before = failures;
        for fails in ways(nth) {
            let course = prepare();
            let paid = course.durable();
            let ran = course.run(trouble(fails));
            let again = ran.asked.iter().any(|user| paid.contains(user));
            assert!(!again, "{fails:?}: what was durable is asked for again");
            if ran.exit == Exit::Complete {
                assert_eq!(ran.output, users(course.longer).1);
                continue;
            }
            failures += 1;
            let what = format!("{fails:?}");
            let durable = course.durable();
            let all_kept = ran.asked.iter().all(|user| durable.contains(user));
            assert!(all_kept, "{what}: a paid answer is lost");
            course.check(&ran, "error: cannot read the ledger", false, &what);
        }
        if failures == before {
            return failures;
        }
    }
    failures
}

#[test]
fn whichever_row_cannot_be_looked_up_as_it_is_read_the_next_run_goes_on() {
    let prepare = || {
        // Rows so long that they come in several batches, some of which pass before the failure.
        let course = Course::with(100_000, false);
        let before = course.run(Trouble {
            calls: NonZeroU64::new(12),
            ..Trouble::NONE
        });
        assert_eq!((before.exit, before.asked.len()), (Exit::Stopped, 12));
        course
    };
    let failures = whichever_fails(prepare, |reading| Trouble {
        reading,
        ..Trouble::NONE
    });
    // Each row is looked up, and each of several batches begins and ends.
    assert!(failures >= 2 * (ROWS + 2 * 3), "{failures}");
}

#[test]
fn whichever_row_cannot_be_looked_up_again_before_its_call_the_next_run_goes_on() {
    let calling = |calling| Trouble {
        calling,
        ..Trouble::NONE
    };
    // In the run's own ledger only those rows are looked up again whose answer came in this run.
    let own = whichever_fails(|| Course::with(0, false), calling);
    assert!(own >= 2, "{own}");
    // In a shared one, all are.
    let shared = whichever_fails(|| Course::with(0, true), calling);
    assert!(shared >= 2 * UNIQUE, "{shared}");
}
