//! A full disk: what is paid for is kept in the space that was kept for it.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use super::claims::{OURS, Process, TAKEN_OVER, request, workers};
use super::support::{BODY, Directory, TestRun, answer, current, facts, find, keep, reusing, wait};
use crate::ledger::store::ClaimResult;
use crate::ledger::{ClosedLedger, LookupResult, Removal, Reuse, Urgency};
use crate::telemetry::pace::{FoundLimit, Limit};

#[test]
fn on_a_full_disk_all_answers_are_kept_and_the_run_learns_once_that_it_must_stop() {
    let place = Directory::new();
    keep(place.own(), BODY, &answer("t-1"));
    // The first group also removes what the new run does not use.
    let run = TestRun::on_full_disk(reusing(Reuse::Nothing, place.own()));
    assert!(run.writer.given_up().is_none());
    let limit = Limit {
        rate: Some(FoundLimit {
            value: 48.5,
            times: 3,
        }),
        in_flight: None,
    };
    run.writer.found(limit);
    run.keep(b"{}", &answer("t-2"));
    let error = run.writer.given_up().unwrap();
    assert!(error.is_disk_full());
    assert_eq!(error.exit().code(), 3);
    assert!(run.writer.given_up().is_none());
    run.keep(b"[]", &answer("t-3"));
    let closed = run.close(Removal::WhenEmpty);
    assert_eq!(closed, ClosedLedger::Kept(Some(2)));
    assert_eq!(find(place.own(), BODY), LookupResult::default());
    assert_eq!(find(place.own(), b"{}"), current(answer("t-2")));
    assert_eq!(find(place.own(), b"[]"), current(answer("t-3")));
    let known = facts(place.own()).known_limit;
    assert_eq!(known.map(|known| known.limit), Some(limit));
}

#[test]
fn on_a_full_disk_nothing_more_is_claimed_and_others_ask_about_nobody_that_was() {
    let place = Directory::new();
    let run = TestRun::on_full_disk(place.shared());
    let other = TestRun::new(place.shared());
    assert_eq!(run.claim([1, 2, 3]), [OURS, OURS, OURS]);
    run.keep(&[1], &answer("t-1"));
    let more = vec![request(&run.hasher, 4)];
    let refused = wait(run.writer.claim(more, Urgency::Now));
    assert!(refused.unwrap_err().is_disk_full());
    let results = other.claim([1, 2]);
    assert!(TestRun::answered(&results[0]));
    assert_eq!(results[1], ClaimResult::Taken);
    run.keep(&[2], &answer("t-2"));
    run.close(Removal::Never);
    let results = other.claim([2, 3, 4]);
    assert!(TestRun::answered(&results[0]));
    assert_eq!(results[1..], [OURS, OURS]);
    assert_eq!(workers(&place), 1);
}

#[test]
fn what_was_taken_over_and_answered_on_a_full_disk_is_not_left_to_the_next_run() {
    let place = Directory::new();
    let mut gone = Process::start(&place);
    assert_eq!(gone.claim([1, 2, 3]), [OURS, OURS, OURS]);
    drop(gone);
    let run = TestRun::on_full_disk(place.shared());
    assert_eq!(run.claim([1, 2, 3]), [TAKEN_OVER, TAKEN_OVER, TAKEN_OVER]);
    run.keep(&[1], &answer("t-1"));
    run.keep(&[2], &answer("t-2"));
    run.close(Removal::Never);
    let mut fresh = Process::start_fresh(&place);
    assert_eq!(fresh.claim([1, 2, 3]), [OURS, OURS, TAKEN_OVER]);
}
