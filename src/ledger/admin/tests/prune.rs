//! What is old is removed, and the space comes back.

#![allow(clippy::unwrap_used)]

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rusqlite::{Connection, params};

use super::support::{HERE, body, filled, now};
use crate::ledger::LookupResult;
use crate::ledger::admin::{Eraser, prune};
use crate::ledger::db::answer_removal::change_all;
use crate::ledger::packed::{PackedAnswer, PackedKey, ReplacedScore, UuidBuffer};

#[test]
fn old_answers_are_removed_and_the_space_comes_back() {
    let (place, keys) = filled(10_000);
    let month_ago = now() - 30 * 86_400_000;
    let aged = change_all(&place.raw(), |answer| {
        let mut buffer = UuidBuffer::default();
        let is_kept = answer.transaction_id.text(&mut buffer).ends_with('0');
        let at = if is_kept { answer.at } else { month_ago };
        Some(PackedAnswer { at, ..answer })
    });
    assert_eq!(aged, Ok(0));
    let eraser = Eraser::open(&place.path()).unwrap();
    let before = eraser.bytes();
    let day_ago = SystemTime::now() - Duration::from_secs(86_400);
    assert_eq!(prune(&eraser, day_ago).unwrap(), 9_000);
    let result = eraser.finish(true).unwrap();
    assert_eq!(result.answers, 1_000);
    assert!(result.bytes < before / 3, "{} of {before}", result.bytes);
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
    let replaced = [(1_i64, month_ago), (2, now())];
    let of = |user: i64| PackedKey::from(&keys.key(&body(user.try_into().unwrap())));
    change_all(&raw, |answer| {
        let replaced = replaced.iter().find(|(user, _)| of(*user) == answer.key);
        let replaced = replaced.map(|(_, at)| ReplacedScore {
            digits: "9.8765",
            at: *at,
        });
        Some(PackedAnswer { replaced, ..answer })
    })
    .unwrap();
    for (user, at) in replaced {
        let key = keys.key(&body(user.try_into().unwrap())).hash;
        raw.execute(
            "INSERT INTO runs VALUES (?1, ?2, ?3, 0, 0, NULL, 0, 0, 0, 0)",
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
    }
    assert_eq!(counts(&raw), [2; 5]);
    let eraser = Eraser::open(&place.path()).unwrap();
    let day_ago = SystemTime::now() - Duration::from_secs(86_400);
    assert_eq!(prune(&eraser, day_ago).unwrap(), 0);
    assert_eq!(counts(&raw), [1; 5]);
    assert_eq!(eraser.finish(false).unwrap().answers, 10);
    // What is left of each answer still fits its checksum.
    let mut lookup = place.ledger(HERE).lookup().unwrap().unwrap();
    for user in 0..10 {
        let found = lookup.find(&keys.key(&body(user)), &body(user)).unwrap();
        assert!(found.known.is_some(), "{user}");
    }
}

/// How many replaced scores there are, and how many runs, failures, fields and limits.
fn counts(raw: &Connection) -> [i64; 5] {
    let mut replaced = 0;
    change_all(raw, |answer| {
        replaced += i64::from(answer.replaced.is_some());
        Some(answer)
    })
    .unwrap();
    let tables = ["runs", "failures", "fields", "limits"];
    let [runs, failures, fields, limits] = tables.map(|table| {
        let count = format!("SELECT count(*) FROM {table}");
        raw.query_row(&count, [], |row| row.get(0)).unwrap()
    });
    [replaced, runs, failures, fields, limits]
}
