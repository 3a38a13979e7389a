//! Files that are damaged, or not ledgers of this version at all.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::fs;

use super::support::{BODY, Directory, answer, current, find, keep, reusing, wait};
use crate::ledger::db::header::VERSION;
use crate::ledger::{LookupResult, OpenLedger, Reuse, ledger_of};
use crate::telemetry::event::Unusable;

#[test]
fn a_damaged_answer_counts_as_absent() {
    for (column, value) in [
        ("bytes", "CAST(bytes || x'00' AS BLOB)"),
        ("at", "at + 1"),
        ("capture", "2"),
        ("context", "context + 1"),
        ("answers", "answers + 1"),
        ("checksum", "checksum + 1"),
    ] {
        let place = Directory::new();
        keep(place.shared(), BODY, &answer("t-1"));
        let path = place.path("answers.ledger");
        let connection = rusqlite::Connection::open(&path).unwrap();
        let damage = format!("UPDATE answer_blocks SET {column} = {value}");
        assert_eq!(connection.execute(&damage, []), Ok(1));
        drop(connection);
        assert_eq!(find(place.shared(), BODY), damaged(), "{column}");
        // The answer that replaces it is intact, and keeps nothing of it.
        keep(place.shared(), BODY, &answer("t-3"));
        assert_eq!(find(place.shared(), BODY), current(answer("t-3")));
    }
}

#[test]
fn a_ledger_that_says_it_has_more_than_it_has_is_refused() {
    let place = Directory::new();
    keep(place.shared(), BODY, &answer("t-1"));
    let connection = rusqlite::Connection::open(place.path("answers.ledger")).unwrap();
    // Else the index would be asked for answers that it does not have.
    let damage = "UPDATE ledger SET indexed = 1 << 20";
    assert_eq!(connection.execute(damage, []), Ok(1));
    let report = OpenLedger::open(place.shared()).err().unwrap().report();
    assert!(report.contains("the file is damaged"), "{report}");
}

fn damaged() -> LookupResult {
    LookupResult {
        unusable: Some(Unusable::Damaged),
        ..LookupResult::default()
    }
}

#[test]
fn no_flipped_bit_makes_another_answer() {
    let place = Directory::new();
    keep(place.shared(), BODY, &answer("t-1"));
    let path = place.path("answers.ledger");
    let connection = rusqlite::Connection::open(&path).unwrap();
    let bytes: Vec<u8> = connection
        .query_row("SELECT bytes FROM answer_blocks", [], |row| row.get(0))
        .unwrap();
    for bit in 0..8 * bytes.len() {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let damage = "UPDATE answer_blocks SET bytes = ?";
        assert_eq!(connection.execute(damage, [flipped]), Ok(1));
        // Where the key was hit, nothing is there that belongs to the request.
        let is_key = (1..13).contains(&(bit / 8));
        let found = find(place.shared(), BODY);
        let absent = LookupResult::default();
        assert!(
            found == damaged() || (found == absent && (is_key || bit < 8)),
            "bit {bit}: {found:?}"
        );
    }
}

#[test]
fn a_file_that_is_not_a_ledger_or_of_another_version_is_refused_and_left_as_it_is() {
    let place = Directory::new();
    let path = place.path("answers.ledger");
    let foreign = rusqlite::Connection::open(&path).unwrap();
    foreign.execute("CREATE TABLE x (y)", []).unwrap();
    drop(foreign);
    let database = fs::read(&path).unwrap();
    for bytes in [&database[..], b"id,name\n1,Jane\n"] {
        fs::write(&path, bytes).unwrap();
        let error = OpenLedger::open(place.shared()).err().unwrap();
        assert_eq!(error.exit().code(), 2);
        let words = "is not a rescore ledger";
        assert!(error.report().contains(words), "{}", error.report());
        assert_eq!(fs::read(&path).unwrap(), bytes);
    }
    fs::remove_file(&path).unwrap();
    keep(place.shared(), BODY, &answer("t-1"));
    for version in [VERSION - 1, VERSION + 1] {
        let other = rusqlite::Connection::open(&path).unwrap();
        other.pragma_update(None, "user_version", version).unwrap();
        drop(other);
        let bytes = fs::read(&path).unwrap();
        let error = OpenLedger::open(place.shared()).err().unwrap();
        let words = format!("version {version}");
        assert!(error.report().contains(&words), "{}", error.report());
        assert_eq!(fs::read(&path).unwrap(), bytes);
        assert_eq!(place.names(), ["answers.ledger"]);
    }
}

#[test]
fn a_damaged_ledger_is_refused_with_a_way_to_continue() {
    let place = Directory::new();
    keep(place.own(), BODY, &answer("t-1"));
    let path = ledger_of(&place.output());
    let mut bytes = fs::read(&path).unwrap();
    bytes[100..].fill(0x55);
    fs::write(&path, bytes).unwrap();
    let error = OpenLedger::open(place.own()).err().unwrap();
    assert_eq!(error.exit().code(), 2);
    assert!(error.report().contains("--fresh"), "{}", error.report());
    let fresh = reusing(Reuse::Nothing, place.own());
    assert!(OpenLedger::open(fresh).is_ok());
}

#[test]
fn damage_is_met_with_the_same_hint_in_reading_and_in_writing() {
    let place = Directory::new();
    keep(place.shared(), BODY, &answer("t-1"));
    let ledger = OpenLedger::open(place.shared()).unwrap();
    let (key, mut lookup) = (
        ledger.hasher().key(b"new"),
        ledger.lookup().unwrap().unwrap(),
    );
    let (_running, writer) = ledger.start().unwrap();
    let damaging = rusqlite::Connection::open(place.path("answers.ledger")).unwrap();
    damaging.execute("DROP TABLE answer_blocks", []).unwrap();
    let hint = "hint: move it and the files whose names start with its name elsewhere";
    for error in [
        wait(writer.keep(key, answer("t-2"))).unwrap_err(),
        lookup.find(&key, b"new").unwrap_err(),
    ] {
        let report = error.report();
        assert!(report.contains("the file is damaged"), "{report}");
        assert!(report.contains(hint), "{report}");
    }
}
