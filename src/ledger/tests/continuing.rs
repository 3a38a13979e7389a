//! Whether a run continues the one before it, and what stays of a ledger.

#![allow(clippy::unwrap_used)]

use super::support::{
    BODY, Directory, TestRun, answer, current, facts, failed, find, keep, open, open_with_facts,
    refused, reusing,
};
use crate::ledger::db::answer_removal::change_all;
use crate::ledger::lookup_result::AnsweredIn;
use crate::ledger::packed::UuidBuffer;
use crate::ledger::{
    ClosedLedger, FinishedRun, LedgerSettings, LookupResult, OpenLedger, PreviousRun, Removal,
    Reuse, RunEnd,
};
use crate::telemetry::pace::{FoundLimit, Limit};
use crate::verdict::Answer;

/// A run that gave every row its verdict.
const COMPLETE: FinishedRun = FinishedRun {
    failed: 0,
    unsent: 0,
};

#[test]
fn what_was_stored_is_found_by_the_next_run() {
    let place = Directory::new();
    assert_eq!(
        keep(place.own(), BODY, &answer("t-1")),
        ClosedLedger::Kept(Some(1))
    );
    assert_eq!(place.names(), ["scored.csv.ledger"]);
    assert_eq!(find(place.own(), BODY), current(answer("t-1")));
    assert_eq!(find(place.own(), b"{}"), LookupResult::default());
    let other = LedgerSettings {
        service_id: "other".to_owned(),
        ..place.own()
    };
    assert_eq!(facts(other.clone()).earlier_answers, None);
    assert_eq!(find(other, BODY), LookupResult::default());
}

#[test]
fn the_runs_own_ledger_is_removed_when_every_row_has_a_verdict() {
    let place = Directory::new();
    keep(place.own(), BODY, &answer("t-1"));
    let (ledger, facts) = open_with_facts(place.own());
    assert_eq!(facts.earlier_answers.unwrap().answers, 1);
    let closed = TestRun::of(ledger).close(Removal::WhenUsed(1));
    assert_eq!(closed, ClosedLedger::Removed);
    assert_eq!(place.names(), [""; 0]);
    // A shared one is never removed.
    let kept = keep(place.shared(), BODY, &answer("t-1"));
    assert_eq!(kept, ClosedLedger::Kept(None));
    let closed = TestRun::new(place.shared()).close(Removal::WhenUsed(1));
    assert_eq!(closed, ClosedLedger::Kept(None));
    assert_eq!(place.names(), ["answers.ledger"]);
}

#[test]
fn a_run_that_stored_nothing_leaves_nothing() {
    let place = Directory::new();
    let closed = TestRun::new(place.own()).close(Removal::WhenEmpty);
    assert_eq!(closed, ClosedLedger::Removed);
    assert_eq!(place.names(), [""; 0]);
    // Nor does a run that could not even start.
    drop(open(place.own()));
    assert_eq!(place.names(), [""; 0]);
}

#[test]
fn starting_over_discards_answers_and_reports_which() {
    let place = Directory::new();
    keep(place.own(), BODY, &answer("t-1"));
    let fresh = || open_with_facts(reusing(Reuse::Nothing, place.own()));
    let (ledger, facts) = fresh();
    assert_eq!(facts.replaced_answers.unwrap().answers, 1);
    assert_eq!(facts.earlier_answers, None);
    assert!(ledger.lookup().unwrap().is_none());
    // The run never started.
    drop(ledger);
    assert_eq!(find(place.own(), BODY), current(answer("t-1")));
    drop(fresh().0.start().unwrap());
    assert_eq!(find(place.own(), BODY), LookupResult::default());
    // The old answer is there until the new run has one, and then it is gone.
    let stored = || {
        let connection = rusqlite::Connection::open(place.path("scored.csv.ledger")).unwrap();
        let mut ids = Vec::new();
        change_all(&connection, |answer| {
            let mut buffer = UuidBuffer::default();
            let id = answer.transaction_id.text(&mut buffer).to_owned();
            ids.push(id);
            Some(answer)
        })
        .unwrap();
        ids
    };
    assert_eq!(stored(), ["t-1"]);
    keep(place.own(), b"{}", &answer("t-2"));
    assert_eq!(stored(), ["t-2"]);
}

/// Leaves a finished run in which one call brought no verdict.
fn finish(settings: LedgerSettings, body: &[u8], answer: &Answer) {
    let run = TestRun::new(settings);
    run.keep(body, answer);
    run.keep_failure(b"{}", &refused());
    run.writer.end(RunEnd::Finished(FinishedRun {
        failed: 1,
        unsent: 1,
    }));
    run.close(Removal::Never);
}

#[test]
fn a_finished_run_is_not_continued_but_its_failed_rows_can_be_retried() {
    let place = Directory::new();
    for settings in [place.own(), place.shared()] {
        let own = settings.location != place.shared().location;
        let retry = reusing(Reuse::Retry, settings.clone());
        let error = OpenLedger::open(retry.clone()).err().unwrap();
        assert!(
            error.report().contains("nothing to retry"),
            "{}",
            error.report()
        );
        finish(settings.clone(), BODY, &answer("t-1"));
        let facts = facts(settings.clone());
        assert_eq!(
            (facts.previous_run, facts.continues),
            (
                PreviousRun::Finished {
                    failed: 1,
                    unsent: 1
                },
                false
            )
        );
        assert_eq!(facts.earlier_answers, None);
        let replaced = facts.replaced_answers.map(|replaced| replaced.answers);
        assert_eq!(replaced, own.then_some(1));
        // A new run of a shared ledger still uses what others have paid for.
        let expected = if own {
            LookupResult::default()
        } else {
            current(answer("t-1"))
        };
        assert_eq!(find(settings.clone(), BODY), expected);
        assert_eq!(find(retry.clone(), BODY), current(answer("t-1")));
        let asked_again = LookupResult::default();
        assert_eq!(find(retry.clone(), b"{}"), asked_again);
        // Once the retry is under way it is a run like any other, which the same command continues.
        let run = TestRun::new(retry.clone());
        run.keep_failure(b"{}", &refused());
        run.close(Removal::Never);
        for continuing in [retry, settings] {
            assert_eq!(find(continuing, b"{}"), failed(refused()));
        }
    }
}

#[test]
fn failed_rows_can_be_retried_once_only_inputs_are_left_that_cannot_be_used() {
    let place = Directory::new();
    for settings in [place.own(), place.shared()] {
        let retry = reusing(Reuse::Retry, settings.clone());
        let run = TestRun::new(settings.clone());
        run.keep(BODY, &answer("t-1"));
        run.keep_failure(b"{}", &refused());
        run.writer.end(RunEnd::WithoutSomeInputs);
        run.close(Removal::Never);
        let known = facts(retry.clone());
        assert_eq!(known.previous_run, PreviousRun::Stopped);
        assert!(known.continues && known.only_failed);
        // The same row in an input that is fixed is not asked about again.
        assert_eq!(find(settings.clone(), b"{}"), failed(refused()));
        assert_eq!(find(retry.clone(), BODY), current(answer("t-1")));
        assert_eq!(find(retry.clone(), b"{}"), LookupResult::default());
        // A retry that is stopped gets past what has failed again.
        let run = TestRun::new(retry.clone());
        run.keep_failure(b"{}", &refused());
        run.close(Removal::Never);
        assert!(!facts(retry.clone()).only_failed);
        assert_eq!(find(retry, b"{}"), failed(refused()));
    }
}

#[test]
fn a_run_that_was_removed_while_it_was_under_way_changes_no_other() {
    let place = Directory::new();
    let to = |output: &str| LedgerSettings {
        output: Some(place.path(output)),
        ..place.shared()
    };
    let connection = rusqlite::Connection::open(place.path("answers.ledger"));
    let with_failures = FinishedRun {
        failed: 1,
        unsent: 0,
    };
    for end in [
        RunEnd::Stopped,
        RunEnd::Finished(with_failures),
        RunEnd::Finished(COMPLETE),
    ] {
        let removed = TestRun::new(to("1.csv"));
        let connection = connection.as_ref().unwrap();
        connection.execute("DELETE FROM runs", []).unwrap();
        // It gets the number of the one that was removed.
        let other = TestRun::new(to("2.csv"));
        other.keep_failure(b"{}", &refused());
        removed.keep(BODY, &answer("t-1"));
        removed.writer.end(end);
        removed.close(Removal::Never);
        other.close(Removal::Never);
        let previous = facts(to("2.csv")).previous_run;
        assert_eq!(previous, PreviousRun::Stopped, "{end:?}");
        assert_eq!(find(to("2.csv"), b"{}"), failed(refused()), "{end:?}");
        connection.execute("DELETE FROM runs", []).unwrap();
        connection.execute("DELETE FROM failures", []).unwrap();
    }
}

#[test]
fn runs_to_standard_output_at_the_same_time_leave_a_sound_ledger() {
    let place = Directory::new();
    let to_stdout = || LedgerSettings {
        output: None,
        ..place.shared()
    };
    let first = TestRun::new(to_stdout());
    // It uses no older answers, so its record differs.
    let second = TestRun::new(reusing(Reuse::Nothing, to_stdout()));
    for run in [first, second] {
        run.keep(BODY, &answer("t-1"));
        run.writer.end(RunEnd::Finished(FinishedRun {
            failed: 1,
            unsent: 0,
        }));
        run.close(Removal::Never);
        assert_eq!(find(to_stdout(), BODY), current(answer("t-1")));
    }
}

#[test]
fn of_runs_that_start_over_at_the_same_time_none_uses_an_earlier_ones_answers() {
    let place = Directory::new();
    let fresh = reusing(Reuse::Nothing, place.shared());
    let mut last = 0;
    for nth in 0..5 {
        let ledger = open(fresh.clone());
        assert!(ledger.run().not_before > last);
        last = ledger.run().not_before;
        let run = TestRun::of(ledger);
        let look = || run.writer.look_again(&run.key(), BODY).unwrap();
        assert_eq!(look(), None, "{nth}");
        run.keep(BODY, &answer("t-1"));
        // What the answer replaced is what its rows are compared with.
        let found = LookupResult {
            old: (nth > 0).then(|| answer("t-1").score),
            ..current(answer("t-1"))
        };
        assert_eq!(look(), Some((found, AnsweredIn::ThisRun)));
        run.writer.end(RunEnd::Finished(COMPLETE));
        run.close(Removal::Never);
    }
    // A clock that was wrong once does no harm for long.
    let connection = rusqlite::Connection::open(place.path("answers.ledger")).unwrap();
    let ahead = "UPDATE ledger SET fresh_from = fresh_from + 1000000000";
    assert_eq!(connection.execute(ahead, []), Ok(1));
    drop(connection);
    assert!(open(fresh).run().not_before < last + 2 * 60 * 60 * 1_000);
}

#[test]
fn the_limit_that_a_run_finds_is_known_to_the_next_one() {
    let place = Directory::new();
    let known = |settings| {
        let known = facts(settings).known_limit;
        known.map_or(Limit::NONE, |known| known.limit)
    };
    let seen = |value| FoundLimit { value, times: 3 };
    let found = |rate| Limit {
        rate: Some(seen(rate)),
        in_flight: Some(seen(9.0)),
    };
    for settings in [place.shared(), place.own()] {
        let (ledger, facts) = open_with_facts(settings.clone());
        assert_eq!(facts.known_limit, None);
        let run = TestRun::of(ledger);
        run.writer.found(found(48.0));
        run.keep(BODY, &answer("t-1"));
        // With the next answers, as the run may be killed.
        let connection = rusqlite::Connection::open(run.ledger.path().unwrap()).unwrap();
        let rate = connection.query_row("SELECT rate FROM limits", [], |row| row.get(0));
        assert_eq!(rate, Ok(48.0));
        drop(connection);
        run.writer.found(found(49.0));
        run.close(Removal::Never);
        assert_eq!(known(settings.clone()), found(49.0));
        let other = LedgerSettings {
            service_id: "other".to_owned(),
            ..settings.clone()
        };
        assert_eq!(known(other), Limit::NONE);
        // Starting over is about answers only.
        drop(
            open(reusing(Reuse::Nothing, settings.clone()))
                .start()
                .unwrap(),
        );
        assert_eq!(known(settings), found(49.0));
    }
}
