//! What is old is removed, and the space comes back.

#![allow(clippy::unwrap_used)]

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rusqlite::params;

use super::support::{HERE, body, filled, now};
use crate::ledger::LookupResult;
use crate::ledger::admin::{Eraser, prune};

#[test]
fn old_answers_are_removed_and_the_space_comes_back() {
    let (place, keys) = filled(10_000);
    let month_ago = now() - 30 * 86_400_000;
    let old =
        "UPDATE answers SET at = ?1, checksum = answer_checksum(key, row, transaction_id, score, capture, captured, ?1, replaced)
        WHERE CAST(substr(transaction_id, -8) AS INTEGER) % 10 > 0";
    assert_eq!(place.raw().execute(old, [month_ago]).unwrap(), 9_000);
    let eraser = Eraser::open(&place.path()).unwrap();
    let before = eraser.bytes();
    let day_ago = SystemTime::now() - Duration::from_secs(86_400);
    assert_eq!(prune(&eraser, day_ago).unwrap(), 9_000);
    let result = eraser.finish(true).unwrap();
    assert_eq!(result.answers, 1_000);
    assert!(result.bytes < before / 5, "{} of {before}", result.bytes);
    let mut lookup = place.ledger(HERE).lookup().unwrap().unwrap();
    for user in 0..100 {
        let found = lookup.find(&keys.key(&body(user)), &body(user)).unwrap();
        assert_eq!(found != LookupResult::default(), user % 10 == 0);
    }
    drop(lookup);
    // Nothing is older, so nothing is removed and the file is not rewritten.
    let eraser = Eraser::open(&place.path()).unwrap();
    assert_eq!(prune(&eraser, UNIX_EPOCH).unwrap(), 0);
    assert!(!eraser.finish(false).unwrap().rewritten);
}

#[test]
fn replaced_scores_are_removed_when_they_are_old() {
    let (place, keys) = filled(10);
    let month_ago = now() - 30 * 86_400_000;
    let raw = place.raw();
    let replace = "UPDATE answers SET replaced = '9.8765', replaced_at = ?,
        checksum = answer_checksum(key, row, transaction_id, score, capture, captured, at, '9.8765') WHERE key = ?";
    for (user, at) in [(1_i64, month_ago), (2, now())] {
        let key = keys.key(&body(user.try_into().unwrap())).hash;
        assert_eq!(raw.execute(replace, params![at, key]).unwrap(), 1);
        raw.execute(
            "INSERT INTO runs VALUES (?1, ?2, ?3, 0, 0, NULL, 0)",
            params![user, key, at],
        )
        .unwrap();
        raw.execute(
            "INSERT INTO failures VALUES (?, 0, ?, 'refused', x'00', 0)",
            params![key, user],
        )
        .unwrap();
        raw.execute(
            "INSERT INTO fields VALUES (?, ?)",
            params![format!("/{user}"), at],
        )
        .unwrap();
        raw.execute(
            "INSERT INTO limits VALUES (?, 48.5, 3, NULL, NULL, ?, 0)",
            [at, at],
        )
        .unwrap();
        raw.execute(
            "INSERT INTO failing_requests VALUES (?, 0, 1, ?)",
            params![key, at],
        )
        .unwrap();
    }
    let count = |query: &str| -> i64 { raw.query_row(query, [], |row| row.get(0)).unwrap() };
    let counts = || {
        [
            "answers WHERE replaced IS NOT NULL AND replaced_at IS NOT NULL",
            "runs",
            "failures",
            "fields",
            "limits",
            "failing_requests",
        ]
        .map(|what| count(&format!("SELECT count(*) FROM {what}")))
    };
    assert_eq!(counts(), [2; 6]);
    let eraser = Eraser::open(&place.path()).unwrap();
    let day_ago = SystemTime::now() - Duration::from_secs(86_400);
    assert_eq!(prune(&eraser, day_ago).unwrap(), 0);
    assert_eq!(counts(), [1; 6]);
    assert_eq!(eraser.finish(false).unwrap().answers, 10);
    // What is left of each answer still fits its checksum.
    let broken = "SELECT count(*) FROM answers WHERE checksum <>
        answer_checksum(key, row, transaction_id, score, capture, captured, at, replaced)";
    assert_eq!(count(broken), 0);
}
