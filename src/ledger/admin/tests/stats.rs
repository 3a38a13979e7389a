//! What is in a ledger can be read without changing it, and what cannot be read is refused.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::fs;
use std::path::Path;

use super::support::{Directory, HERE, THERE, filled, now, put};
use crate::base::error::Error;
use crate::ledger::admin::{Eraser, read_stats};
use crate::ledger::db::header::VERSION;

#[test]
fn stats_count_by_address_and_age_and_change_nothing() {
    let (place, here) = filled(10);
    let there = place.ledger(THERE).hasher();
    let day = 86_400_000_i64;
    let ages = [0, 2 * day, 8 * day, 40 * day];
    let entries = ages.map(|age: i64| {
        let key = there.key(&age.to_le_bytes());
        (key, "x".to_owned(), now() - age)
    });
    put(&place.raw(), 2, entries);
    let look = || {
        let before = (place.names(), fs::read(place.path()).unwrap());
        let found = read_stats(&place.path()).unwrap();
        assert_eq!((place.names(), fs::read(place.path()).unwrap()), before);
        found
    };
    let found = look();
    assert_eq!((found.answers, found.version), (14, VERSION));
    let [first, second] = &found.endpoints[..] else {
        panic!("{found:?}");
    };
    assert_eq!((&*first.endpoint, first.younger), (HERE, [10; 3]));
    assert_eq!((second.answers, second.younger), (4, [1, 2, 3]));
    let (oldest, newest) = second.span.unwrap();
    assert_eq!(
        newest.duration_since(oldest).unwrap().as_millis(),
        u128::try_from(40 * day).unwrap()
    );
    // Beside a run, whose log it leaves alone.
    let run = place.ledger(HERE);
    put(&place.raw(), 1, [(here.key(b"{}"), "y".to_owned(), now())]);
    assert_eq!(look().answers, 15);
    drop(run);
}

#[test]
fn the_log_of_a_killed_run_stays_as_it_is() {
    let (place, keys) = filled(10);
    let killed = place.raw();
    killed.pragma_update(None, "wal_autocheckpoint", 0).unwrap();
    put(&killed, 1, [(keys.key(b"{}"), "y".to_owned(), now())]);
    let copy = Directory::new();
    for end in ["", "-wal", "-shm"] {
        let name = format!("answers.ledger{end}");
        fs::copy(place.0.path().join(&name), copy.0.path().join(&name)).unwrap();
    }
    let log = || fs::read(copy.0.path().join("answers.ledger-wal")).unwrap();
    let before = log();
    assert!(!before.is_empty());
    assert_eq!(read_stats(&copy.path()).unwrap().answers, 11);
    assert_eq!(log(), before);
}

fn refused(path: &Path) -> [Error; 2] {
    [
        Eraser::open(path).err().unwrap(),
        read_stats(path).unwrap_err(),
    ]
}

#[test]
fn a_file_that_cannot_be_used_is_refused_and_left_as_it_is() {
    let (place, _) = filled(100);
    let path = place.path();
    let whole = fs::read(&path).unwrap();
    let mut newer = whole.clone();
    newer[63] = 9;
    let mut damaged = whole.clone();
    damaged[100..].fill(0x55);
    for (bytes, words) in [
        (&b"id,name\n1,Jane\n"[..], "is not a rescore ledger"),
        (b"", "is not a rescore ledger"),
        (&newer, "is a ledger of version 9"),
        (&damaged, "the file is damaged"),
    ] {
        fs::write(&path, bytes).unwrap();
        for error in refused(&path) {
            assert_eq!(error.exit().code(), 2);
            assert!(error.report().contains(words), "{}", error.report());
        }
        assert_eq!(fs::read(&path).unwrap(), bytes);
        assert_eq!(place.names(), ["answers.ledger"]);
    }
    fs::remove_file(&path).unwrap();
    for error in refused(&path) {
        assert_eq!(error.exit().code(), 2);
        assert!(
            error.report().contains("no such file"),
            "{}",
            error.report()
        );
    }
    assert!(place.names().is_empty());
}

#[test]
fn changed_tables_are_damage_and_not_reported_in_the_databases_words() {
    let (place, _) = filled(1);
    // As a flipped bit in the list of tables does; found by the fuzz target `ledger`.
    let rename = "ALTER TABLE limits RENAME COLUMN in_flight TO in_fl_ght";
    place.raw().execute(rename, []).unwrap();
    let limit = "INSERT INTO limits SELECT id, 7.5, 3, 3.0, 3, 0, 0 FROM contexts";
    assert_eq!(place.raw().execute(limit, []).unwrap(), 1);
    let report = read_stats(&place.path()).unwrap_err().report();
    assert!(report.contains(": the file is damaged"), "{report}");
    assert!(!report.contains("column"), "{report}");
}

#[test]
fn a_locked_ledger_is_waited_for_and_then_left() {
    let (place, _) = filled(1);
    let holder = place.raw();
    let _: String = holder
        .query_row("PRAGMA locking_mode = EXCLUSIVE", [], |row| row.get(0))
        .unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = Eraser::open(&place.path()).err().unwrap();
    assert_eq!(error.exit().code(), 75);
    let report = error.report();
    assert!(report.contains("another program is using it"), "{report}");
}
