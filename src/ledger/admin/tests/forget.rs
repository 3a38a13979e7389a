//! What is forgotten is gone from every byte of the files, and nothing else is.

#![allow(clippy::unwrap_used)]

use std::iter;
use std::time::Duration;

use rusqlite::params;

use super::support::{Directory, HERE, THERE, body, filled, id, now, put, row};
use crate::ledger::LookupResult;
use crate::ledger::admin::{CleanupResult, Forget, ForgetCounts};
use crate::ledger::db::answer_index;
use crate::ledger::db::answer_removal::change_all;
use crate::ledger::packed::{Fingerprint, PackedKey};
use crate::ledger::request_key::RequestKey;

fn answers(answers: u64) -> ForgetCounts {
    ForgetCounts { answers, failed: 0 }
}

fn forget_users(place: &Directory, users: impl IntoIterator<Item = usize>) -> (u64, CleanupResult) {
    let mut forget = Forget::open(&place.path()).unwrap();
    for user in users {
        forget.mark(&iter::once(&*body(user))).unwrap();
    }
    let forgotten = forget.remove_marked().unwrap();
    (forgotten.answers, forget.finish().unwrap())
}

#[test]
fn what_is_forgotten_is_in_no_byte_of_the_files() {
    let (place, keys) = filled(5_000);
    let gone = || (0..5_000).step_by(7);
    assert!(gone().all(|user| place.has(id(user).as_bytes())));
    // A run that was killed had claimed one of them.
    let claimed = &keys.key(&body(7)).hash[..8];
    let claim = "INSERT INTO claims VALUES (1 << 32, 0, ?)";
    place.raw().execute(claim, [claimed]).unwrap();
    let (forgotten, result) = forget_users(&place, gone().chain([0, 7, 9_999]));
    assert_eq!(forgotten, 715);
    assert_eq!(result.answers, 5_000 - 715);
    assert!(result.is_without_trace());
    for user in gone() {
        assert!(!place.has(id(user).as_bytes()), "{user}");
        assert!(!place.has_key(&keys.key(&body(user))), "{user}");
    }
    assert!(!place.has(claimed));
    assert!(place.has(id(1).as_bytes()) && place.has_key(&keys.key(&body(1))));
    assert_eq!(place.names(), ["answers.ledger"]);
}

#[test]
fn forgetting_beside_a_run_leaves_no_byte_either() {
    let (place, keys) = filled(5_000);
    let run = place.ledger(HERE);
    let mut lookup = run.lookup().unwrap().unwrap();
    let run = run.start().unwrap();
    lookup.find(&keys.key(&body(3)), &body(3)).unwrap();
    // The user's answer is in the log only, and in an old page of it.
    let raw = place.raw();
    put(&raw, 1, [(keys.key(b"{}"), "late".to_owned(), now())]);
    let mut forget = Forget::open(&place.path()).unwrap();
    for body in [&body(3)[..], b"{}"] {
        assert_eq!(forget.mark(&iter::once(body)).unwrap(), 1);
    }
    assert_eq!(forget.remove_marked().unwrap(), answers(2));
    assert!(forget.finish().unwrap().is_without_trace());
    assert!(!place.has(id(3).as_bytes()));
    for key in [keys.key(&body(3)), keys.key(b"{}")] {
        assert!(!place.has_key(&key));
    }
    // The run continues with the file that was rewritten meanwhile.
    assert_eq!(
        lookup.find(&keys.key(&body(3)), &body(3)).unwrap(),
        LookupResult::default()
    );
    assert!(lookup.find(&keys.key(&body(4)), &body(4)).unwrap() != LookupResult::default());
    drop((run, raw));
}

#[test]
fn the_answers_of_all_addresses_and_of_all_equal_rows_are_found() {
    let (place, here) = filled(3);
    let there = place.ledger(THERE).hasher();
    let body = body(1);
    let also = [
        (row(here.key(&body), 2), 1),
        // However many rows in between have no answer.
        (row(here.key(&body), 1_000_000), 1),
        (row(there.key(&body), 5), 2),
    ];
    for (key, context) in also {
        put(&place.raw(), context, [(key, "more".to_owned(), now())]);
    }
    let (forgotten, result) = forget_users(&place, [1]);
    assert_eq!((forgotten, result.answers), (4, 2));
    assert!(!place.has(b"more"));
    assert_eq!(forget_users(&place, [1]).0, 0);
}

#[test]
fn the_index_has_nothing_of_who_is_forgotten() {
    let (place, keys) = filled(1_000);
    // Chunks are named by their first entries: some of these are.
    let gone: Vec<_> = (0..500).collect();
    assert_eq!(forget_users(&place, gone.iter().copied()).0, 500);
    let raw = place.raw();
    for user in gone {
        let fingerprint = Fingerprint::of(&PackedKey::from(&keys.key(&body(user))));
        let is_name = raw
            .prepare("SELECT 1 FROM answer_index WHERE first = ?")
            .and_then(|mut names| names.exists([fingerprint.number()]));
        assert_eq!(is_name, Ok(false), "{user}");
        assert_eq!(answer_index::find(&raw, fingerprint), Ok(Vec::new()));
    }
}

#[test]
fn an_entry_that_leads_nowhere_is_forgotten_and_one_that_somebody_shares_is_not() {
    let (place, keys) = filled(3);
    // Their fingerprints are equal, and their answers are in one block.
    let one = keys.key(b"{}");
    let mut other = one;
    other.hash[11] ^= 1;
    let both = [one, other].map(|key| (key, "late".to_owned(), now()));
    put(&place.raw(), 1, both);
    let forget = |key: RequestKey| {
        let mut forget = Forget::open(&place.path()).unwrap();
        forget.mark_hash(key.hash);
        forget.remove_marked().unwrap().answers
    };
    assert_eq!(forget(one), 1);
    let mut lookup = place.ledger(HERE).lookup().unwrap().unwrap();
    assert!(lookup.find(&other, b"").unwrap() != LookupResult::default());
    assert_eq!(forget(other), 1);
    // An answer that is gone in another way: its entry is still there.
    let user = keys.key(&body(1));
    change_all(&place.raw(), |answer| {
        (answer.key != PackedKey::from(&user)).then_some(answer)
    })
    .unwrap();
    let blocks = || {
        let fingerprint = Fingerprint::of(&PackedKey::from(&user));
        answer_index::find(&place.raw(), fingerprint).unwrap().len()
    };
    assert_eq!(blocks(), 1);
    assert_eq!(forget_users(&place, [1]).0, 0);
    assert_eq!(blocks(), 0);
}

#[test]
fn a_reader_of_an_old_state_keeps_traces_alive_and_that_is_reported() {
    let (place, _) = filled(100);
    let reader = place.raw();
    reader
        .execute_batch("BEGIN; SELECT count(*) FROM answer_blocks")
        .unwrap();
    let _: i64 = reader
        .query_row("SELECT count(*) FROM answer_blocks", [], |row| row.get(0))
        .unwrap();
    let mut forget = Forget::open(&place.path()).unwrap();
    forget.eraser().set_patience(Duration::from_millis(100));
    forget.mark(&iter::once(&*body(1))).unwrap();
    assert_eq!(forget.remove_marked().unwrap(), answers(1));
    let result = forget.finish().unwrap();
    assert!(!result.log_emptied && !result.is_without_trace());
    drop(reader);
    // Run again, it finds nobody, and cleans up all the same.
    let (forgotten, result) = forget_users(&place, [1]);
    assert_eq!(forgotten, 0);
    assert!(result.is_without_trace());
    assert!(!place.has(id(1).as_bytes()));
}

#[test]
fn a_large_ledger_is_not_rewritten_under_a_run() {
    let (place, _) = filled(100);
    let run = place.ledger(HERE);
    let mut forget = Forget::open(&place.path()).unwrap();
    forget.eraser().set_rewritten_beside_runs(0);
    forget.mark(&iter::once(&*body(1))).unwrap();
    assert_eq!(forget.remove_marked().unwrap(), answers(1));
    let result = forget.finish().unwrap();
    assert!(result.log_emptied && !result.rewritten);
    drop(run);
}

#[test]
fn failures_of_requests_about_a_user_are_forgotten_as_well() {
    let (place, keys) = filled(2);
    let raw = place.raw();
    // One with an answer, one without, also as a row of its own, and one who stays.
    for key in [
        keys.key(&body(1)),
        keys.key(&body(2)),
        row(keys.key(&body(2)), 2),
        keys.key(&body(3)),
    ] {
        raw.execute(
            "INSERT INTO failures VALUES (?, ?, 1, 'refused', x'00', 0)",
            params![key.hash, key.stored_row()],
        )
        .unwrap();
    }
    let (forgotten, _) = forget_users(&place, [1, 2]);
    assert_eq!(forgotten, 1, "answers alone are counted");
    assert!(!place.has(&keys.key(&body(2)).hash));
    assert!(place.has(&keys.key(&body(3)).hash));
    let kept = || raw.query_row("SELECT count(*) FROM failures", [], |row| row.get(0));
    assert_eq!(kept(), Ok(1));
    Forget::open(&place.path()).unwrap().remove_all().unwrap();
}

#[test]
fn everybody_is_forgotten_and_the_ledger_stays_usable() {
    let (place, keys) = filled(5_000);
    let forget = Forget::open(&place.path()).unwrap();
    assert_eq!(forget.remove_all().unwrap(), answers(5_000));
    let result = forget.finish().unwrap();
    assert_eq!(result.answers, 0);
    assert!(result.is_without_trace());
    assert!(!place.has(b"transaction-"));
    // The secret stays: a run that has the ledger open continues with the same keys.
    assert_eq!(place.ledger(HERE).hasher().key(b"{}"), keys.key(b"{}"));
}

#[test]
fn only_one_command_can_change_a_ledger_at_a_time() {
    let (place, _) = filled(1);
    let first = Forget::open(&place.path()).unwrap();
    let error = Forget::open(&place.path()).err().unwrap();
    assert_eq!(error.exit().code(), 75);
    drop(first);
    assert!(Forget::open(&place.path()).is_ok());
}
