//! The ledger's files: who may read them, who holds them, and which outputs they recognise.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Duration;

use super::support::{BODY, Directory, TestRun, answer, current, open, settings, wait};
use crate::ledger::lookup_result::AnsweredIn;
use crate::ledger::{LedgerLocation, OpenLedger, OutputState, Removal, ledger_of};

#[test]
fn nothing_about_a_person_is_in_the_files_and_nobody_else_may_read_them() {
    let place = Directory::new();
    let run = TestRun::new(place.own());
    run.keep(BODY, &answer("t-1"));
    let names = place.names();
    assert!(names.len() >= 3, "{names:?}");
    for name in names {
        use std::os::unix::fs::PermissionsExt;
        let mode = place.path(&name).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    for personal in [&b"Jane"[..], b"jane@", b"example.com\""] {
        assert!(!place.has(personal));
    }
}

#[test]
fn a_file_is_recognised_by_its_path_its_input_and_how_it_was_left() {
    let place = Directory::new();
    let (input, other) = (place.path("users.csv"), place.path("other.csv"));
    let state = |name: &str, input: Option<&Path>| {
        open(place.own())
            .output_state(&place.path(name), input)
            .unwrap()
    };
    let record = |name: &str, of: &str| {
        let run = TestRun::new(place.own());
        let files = [(place.path(name), place.path(of).metadata().unwrap())];
        let outputs = run.ledger.outputs().unwrap();
        outputs.record(&files, Some(&input)).unwrap();
        run.close(Removal::Never);
    };
    assert_eq!(state("scored.csv", Some(&input)), OutputState::Absent);
    fs::write(place.path("partial"), "1").unwrap();
    record("scored.csv", "partial");
    fs::rename(place.path("partial"), place.path("scored.csv")).unwrap();
    fs::write(place.path("other.csv"), "1").unwrap();
    for (name, input, expected) in [
        ("scored.csv", Some(&*input), OutputState::AsLeft),
        ("scored.csv", Some(&*other), OutputState::OfOtherInput),
        ("scored.csv", None, OutputState::OfOtherInput),
        ("other.csv", Some(&*input), OutputState::Foreign),
    ] {
        assert_eq!(state(name, input), expected, "{name} {input:?}");
    }
    // A run that is killed before its files have their names leaves the old ones.
    fs::write(place.path("partial"), "22").unwrap();
    record("scored.csv", "partial");
    assert_eq!(state("scored.csv", Some(&input)), OutputState::AsLeft);
    fs::write(place.path("scored.csv"), "333").unwrap();
    assert_eq!(state("scored.csv", Some(&input)), OutputState::Changed);
    // Paths are not stored.
    assert!(!place.has(b"scored") && !place.has(b"users."));
}

#[test]
fn a_second_run_is_refused_and_the_first_named() {
    let place = Directory::new();
    let first = open(place.own());
    let error = OpenLedger::open(place.own()).err().unwrap();
    assert_eq!(error.exit().code(), 75);
    let named = format!("process {}", std::process::id());
    assert!(error.report().contains(&named), "{}", error.report());
    drop(first);
    assert!(OpenLedger::open(place.own()).is_ok());
}

#[test]
fn a_ledger_that_another_run_is_creating_is_waited_for() {
    let place = Directory::new();
    let path = place.path("answers.ledger");
    drop(open(place.shared()));
    // As it is before the log is started.
    let other = rusqlite::Connection::open(&path).unwrap();
    let mode: String = { &other }
        .query_row("PRAGMA journal_mode = DELETE", [], |row| row.get(0))
        .unwrap();
    assert_eq!(mode, "delete");
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let (opened, opens) = channel();
    let settings = place.shared();
    let opening = std::thread::spawn(move || {
        opened.send(()).unwrap();
        OpenLedger::open(settings).map(drop)
    });
    opens.recv().unwrap();
    // Long enough for a run that does not wait to have failed.
    assert!(opens.recv_timeout(Duration::from_millis(200)).is_err());
    other.execute_batch("COMMIT").unwrap();
    let opened = opening.join().unwrap();
    assert!(opened.is_ok(), "{}", opened.unwrap_err().report());
}

#[test]
fn a_ledger_that_was_removed_takes_no_more_answers() {
    let place = Directory::new();
    let run = TestRun::new(place.own());
    run.keep(BODY, &answer("t-1"));
    fs::remove_file(ledger_of(&place.output())).unwrap();
    let error = wait(run.writer.keep(run.key(), answer("t-2"))).unwrap_err();
    assert_eq!(error.exit().code(), 3);
    assert!(error.report().contains("removed"), "{}", error.report());
}

#[test]
fn a_scratch_ledger_leaves_nothing_whatever_ends_the_run() {
    let ledger = open(settings(LedgerLocation::Scratch));
    let path = ledger.scratch_path();
    assert!(path.exists());
    let run = TestRun::of(ledger);
    assert!(!path.exists() && !path.parent().unwrap().exists());
    assert_eq!(run.ledger.path(), None);
    // It works just as well without a name.
    for id in ["t-1", "t-2"] {
        run.keep(BODY, &answer(id));
        let found = run.writer.look_again(&run.key(), BODY).unwrap();
        assert_eq!(found, Some((current(answer(id)), AnsweredIn::ThisRun)));
    }
}
