//! Tests of what is removed by hand: it is gone from every byte of the files, and nothing else is.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;
use std::{fs, iter};

use rusqlite::Connection;
use tempfile::TempDir;

use super::super::{Ledger, Place, RequestKey, Reuse, Settings, poison, survey};
use super::*;

struct Directory(TempDir);

impl Directory {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("answers.ledger")
    }

    /// Makes the ledger, or opens it once more.
    fn ledger(&self, endpoint: &str) -> Ledger {
        Ledger::open(Settings {
            place: Place::Shared(self.path()),
            reuse: Reuse::All,
            output: None,
            endpoint: endpoint.to_owned(),
            service_id: "test".to_owned(),
            captured: Vec::new(),
            in_flight: 16.try_into().unwrap(),
        })
        .unwrap()
    }

    fn raw(&self) -> Connection {
        let connection = Connection::open(self.path()).unwrap();
        let checksums = sqlite::head(&connection).unwrap().checksums();
        checksums.install(&connection).unwrap();
        connection
    }

    /// Whether the bytes are anywhere in the file or beside it.
    fn has(&self, bytes: &[u8]) -> bool {
        fs::read_dir(self.0.path()).unwrap().any(|entry| {
            let content = fs::read(entry.unwrap().path()).unwrap();
            content.windows(bytes.len()).any(|part| part == bytes)
        })
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }
}

const HERE: &str = "https://here";
const THERE: &str = "https://there";

fn body(user: usize) -> Vec<u8> {
    format!(r#"{{"name":"User {user}"}}"#).into_bytes()
}

fn id(user: usize) -> String {
    format!("transaction-{user:08}")
}

/// A key with the identifier of its answer, and when it came.
type Entry = (RequestKey, String, i64);

fn put(connection: &mut Connection, context: i64, entries: impl IntoIterator<Item = Entry>) {
    const INSERT: &str =
        "INSERT INTO answers VALUES (?1, ?2, ?3, ?4, '1.5', NULL, NULL, ?5, NULL, NULL,
        answer_checksum(?1, ?2, ?4, '1.5', NULL, NULL, ?5, NULL))";
    let transaction = connection.transaction().unwrap();
    for (key, id, at) in entries {
        transaction
            .prepare_cached(INSERT)
            .unwrap()
            .execute(params![key.hash, key.stored_row(), context, id, at])
            .unwrap();
    }
    transaction.commit().unwrap();
}

/// The key of the same request for this row alone.
fn row(key: RequestKey, row: u64) -> RequestKey {
    RequestKey { row, ..key }
}

fn now() -> i64 {
    millis(SystemTime::now())
}

/// A ledger with an answer for each of so many users, put in with keys all over, so that pages split all the time.
fn filled(users: usize) -> (Directory, RequestHasher) {
    let place = Directory::new();
    let keys = place.ledger(HERE).keys();
    let entries = (0..users).map(|user| (keys.key(&body(user)), id(user), now()));
    put(&mut place.raw(), 1, entries);
    (place, keys)
}

fn forget(place: &Directory, users: impl IntoIterator<Item = usize>) -> (u64, Cleaned) {
    let mut care = Care::open(&place.path()).unwrap();
    for user in users {
        care.note(&iter::once(&*body(user))).unwrap();
    }
    let (forgotten, _) = care.forget().unwrap();
    (forgotten, care.finish(true).unwrap())
}

#[test]
fn what_is_forgotten_is_in_no_byte_of_the_files() {
    let (place, keys) = filled(5_000);
    let gone = || (0..5_000).step_by(7);
    assert!(gone().all(|user| place.has(id(user).as_bytes())));
    let (forgotten, cleaned) = forget(&place, gone().chain([0, 7, 9_999]));
    assert_eq!(forgotten, 715);
    assert_eq!(cleaned.answers, 5_000 - 715);
    assert!(cleaned.is_without_trace());
    for user in gone() {
        assert!(!place.has(id(user).as_bytes()), "{user}");
        assert!(!place.has(&keys.key(&body(user)).hash), "{user}");
    }
    assert!(place.has(id(1).as_bytes()) && place.has(&keys.key(&body(1)).hash));
    assert_eq!(place.names(), ["answers.ledger"]);
}

#[test]
fn beside_a_run_it_is_just_the_same() {
    let (place, keys) = filled(5_000);
    let mut run = place.ledger(HERE);
    let (keeper, mut lookup) = (run.keeper().unwrap(), run.lookup().unwrap().unwrap());
    lookup.find(&keys.key(&body(3)), &body(3)).unwrap();
    // The user's answer is in the log only, and in an old page of it.
    let mut raw = place.raw();
    put(&mut raw, 1, [(keys.key(b"{}"), "late".to_owned(), now())]);
    let mut care = Care::open(&place.path()).unwrap();
    for body in [&body(3)[..], b"{}"] {
        assert_eq!(care.note(&iter::once(body)).unwrap(), 1);
    }
    assert_eq!(care.forget().unwrap(), (2, 0));
    assert!(care.finish(true).unwrap().is_without_trace());
    for bytes in [
        id(3).as_bytes(),
        &keys.key(&body(3)).hash,
        &keys.key(b"{}").hash,
    ] {
        assert!(!place.has(bytes));
    }
    // The run goes on with the file that was rewritten under it.
    assert_eq!(
        lookup.find(&keys.key(&body(3)), &body(3)).unwrap(),
        super::super::Found::default()
    );
    assert!(lookup.find(&keys.key(&body(4)), &body(4)).unwrap() != super::super::Found::default());
    drop((keeper, raw));
}

#[test]
fn every_address_and_every_equal_row_is_looked_for() {
    let (place, here) = filled(3);
    let there = place.ledger(THERE).keys();
    let body = body(1);
    let also = [
        (row(here.key(&body), 2), 1),
        // However many rows in between have no answer.
        (row(here.key(&body), 1_000_000), 1),
        (row(there.key(&body), 5), 2),
    ];
    for (key, context) in also {
        put(&mut place.raw(), context, [(key, "more".to_owned(), now())]);
    }
    let (forgotten, cleaned) = forget(&place, [1]);
    assert_eq!((forgotten, cleaned.answers), (4, 2));
    assert!(!place.has(b"more"));
    assert_eq!(forget(&place, [1]).0, 0);
}

#[test]
fn somebody_who_reads_an_old_state_keeps_traces_alive_and_that_is_said() {
    let (place, _) = filled(100);
    let reader = place.raw();
    reader
        .execute_batch("BEGIN; SELECT count(*) FROM answers")
        .unwrap();
    let _: i64 = reader
        .query_row("SELECT count(*) FROM answers", [], |row| row.get(0))
        .unwrap();
    let mut care = Care::open(&place.path()).unwrap();
    care.patience = Duration::from_millis(100);
    care.note(&iter::once(&*body(1))).unwrap();
    assert_eq!(care.forget().unwrap(), (1, 0));
    let cleaned = care.finish(true).unwrap();
    assert!(!cleaned.log_emptied && !cleaned.is_without_trace());
    drop(reader);
    // Run again, it finds nobody, and cleans up all the same.
    let (forgotten, cleaned) = forget(&place, [1]);
    assert_eq!(forgotten, 0);
    assert!(cleaned.is_without_trace());
    assert!(!place.has(id(1).as_bytes()));
}

#[test]
fn a_large_ledger_is_not_rewritten_under_a_run() {
    let (place, _) = filled(100);
    let run = place.ledger(HERE);
    let mut care = Care::open(&place.path()).unwrap();
    care.rewritten_beside_runs = 0;
    care.note(&iter::once(&*body(1))).unwrap();
    assert_eq!(care.forget().unwrap(), (1, 0));
    let cleaned = care.finish(true).unwrap();
    assert!(cleaned.log_emptied && !cleaned.rewritten);
    drop(run);
}

#[test]
fn old_answers_go_and_the_space_comes_back() {
    let (place, keys) = filled(10_000);
    let month_ago = now() - 30 * 86_400_000;
    let old =
        "UPDATE answers SET at = ?1, checksum = answer_checksum(key, row, transaction_id, score, capture, captured, ?1, replaced)
        WHERE CAST(substr(transaction_id, -8) AS INTEGER) % 10 > 0";
    assert_eq!(place.raw().execute(old, [month_ago]).unwrap(), 9_000);
    let mut care = Care::open(&place.path()).unwrap();
    let before = care.bytes();
    let day_ago = SystemTime::now() - Duration::from_secs(86_400);
    assert_eq!(care.prune(day_ago).unwrap(), 9_000);
    let cleaned = care.finish(true).unwrap();
    assert_eq!(cleaned.answers, 1_000);
    assert!(cleaned.bytes < before / 5, "{} of {before}", cleaned.bytes);
    let mut lookup = place.ledger(HERE).lookup().unwrap().unwrap();
    for user in 0..100 {
        let found = lookup.find(&keys.key(&body(user)), &body(user)).unwrap();
        assert_eq!(found != super::super::Found::default(), user % 10 == 0);
    }
    drop(lookup);
    // Nothing older: nothing goes, and the file is not written anew for it.
    let mut care = Care::open(&place.path()).unwrap();
    assert_eq!(care.prune(UNIX_EPOCH).unwrap(), 0);
    assert!(!care.finish(false).unwrap().rewritten);
}

#[test]
fn with_old_answers_go_the_scores_that_younger_ones_replaced() {
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
    let mut care = Care::open(&place.path()).unwrap();
    let day_ago = SystemTime::now() - Duration::from_secs(86_400);
    assert_eq!(care.prune(day_ago).unwrap(), 0);
    assert_eq!(counts(), [1; 6]);
    assert_eq!(care.finish(false).unwrap().answers, 10);
    // What is left of each answer still fits its checksum.
    let broken = "SELECT count(*) FROM answers WHERE checksum <>
        answer_checksum(key, row, transaction_id, score, capture, captured, at, replaced)";
    assert_eq!(count(broken), 0);
}

#[test]
fn that_the_service_failed_over_somebody_is_forgotten_as_well() {
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
            "INSERT INTO failing_requests VALUES (?, ?, 1, ?)",
            params![key.hash, key.stored_row(), now()],
        )
        .unwrap();
        raw.execute(
            "INSERT INTO failures VALUES (?, ?, 1, 'refused', x'00', 0)",
            params![key.hash, key.stored_row()],
        )
        .unwrap();
    }
    let (forgotten, _) = forget(&place, [1, 2]);
    assert_eq!(forgotten, 1, "answers alone are counted");
    assert!(!place.has(&keys.key(&body(2)).hash));
    assert!(place.has(&keys.key(&body(3)).hash));
    let kept = || raw.query_row("SELECT count(*) FROM failures", [], |row| row.get(0));
    assert_eq!(kept(), Ok(1));
    Care::open(&place.path()).unwrap().forget_all().unwrap();
    assert_eq!(poison::all(&raw).unwrap().len(), 0);
}

#[test]
fn everybody_is_forgotten_and_the_ledger_stays_one() {
    let (place, keys) = filled(5_000);
    let mut care = Care::open(&place.path()).unwrap();
    assert_eq!(care.forget_all().unwrap(), 5_000);
    let cleaned = care.finish(true).unwrap();
    assert_eq!(cleaned.answers, 0);
    assert!(cleaned.is_without_trace());
    assert!(!place.has(b"transaction-"));
    // The secret stays: a run that has it open goes on with the same keys.
    assert_eq!(place.ledger(HERE).keys().key(b"{}"), keys.key(b"{}"));
}

#[test]
fn a_survey_counts_by_address_and_age_and_changes_nothing() {
    let (place, here) = filled(10);
    let there = place.ledger(THERE).keys();
    let day = 86_400_000_i64;
    let ages = [0, 2 * day, 8 * day, 40 * day];
    let entries = ages.map(|age: i64| {
        let key = there.key(&age.to_le_bytes());
        (key, "x".to_owned(), now() - age)
    });
    put(&mut place.raw(), 2, entries);
    let look = || {
        let before = (place.names(), fs::read(place.path()).unwrap());
        let found = survey(&place.path()).unwrap();
        assert_eq!((place.names(), fs::read(place.path()).unwrap()), before);
        found
    };
    let found = look();
    assert_eq!((found.answers, found.version), (14, 1));
    let [first, second] = &found.services[..] else {
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
    put(
        &mut place.raw(),
        1,
        [(here.key(b"{}"), "y".to_owned(), now())],
    );
    assert_eq!(look().answers, 15);
    drop(run);
}

#[test]
fn a_log_that_a_killed_run_has_left_stays_as_it_is() {
    let (place, keys) = filled(10);
    let killed = place.raw();
    killed.pragma_update(None, "wal_autocheckpoint", 0).unwrap();
    let mut killed = killed;
    put(&mut killed, 1, [(keys.key(b"{}"), "y".to_owned(), now())]);
    let copy = Directory::new();
    for end in ["", "-wal", "-shm"] {
        let name = format!("answers.ledger{end}");
        fs::copy(place.0.path().join(&name), copy.0.path().join(&name)).unwrap();
    }
    let log = || fs::read(copy.0.path().join("answers.ledger-wal")).unwrap();
    let before = log();
    assert!(!before.is_empty());
    assert_eq!(survey(&copy.path()).unwrap().answers, 11);
    assert_eq!(log(), before);
}

fn refused(path: &Path) -> [Error; 2] {
    [Care::open(path).err().unwrap(), survey(path).unwrap_err()]
}

#[test]
fn what_cannot_be_cared_for_is_refused_and_left_as_it_is() {
    let (place, _) = filled(100);
    let path = place.path();
    let whole = fs::read(&path).unwrap();
    let mut newer = whole.clone();
    newer[63] = 2;
    let mut damaged = whole.clone();
    damaged[100..].fill(0x55);
    for (bytes, words) in [
        (&b"id,name\n1,Jane\n"[..], "is no ledger of rescore"),
        (b"", "is no ledger of rescore"),
        (&newer, "is a ledger of version 2"),
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
fn tables_that_are_not_ours_are_damage_and_not_told_in_the_databases_words() {
    let (place, _) = filled(1);
    // As a flipped bit in the list of tables does; found by the fuzz target `ledger`.
    let rename = "ALTER TABLE limits RENAME COLUMN in_flight TO in_fl_ght";
    place.raw().execute(rename, []).unwrap();
    let limit = "INSERT INTO limits SELECT id, 7.5, 3, 3.0, 3, 0, 0 FROM contexts";
    assert_eq!(place.raw().execute(limit, []).unwrap(), 1);
    let report = survey(&place.path()).unwrap_err().report();
    assert!(report.contains(": the file is damaged"), "{report}");
    assert!(!report.contains("column"), "{report}");
}

#[test]
fn a_ledger_that_is_locked_is_waited_for_and_then_left() {
    let (place, _) = filled(1);
    let holder = place.raw();
    let _: String = holder
        .query_row("PRAGMA locking_mode = EXCLUSIVE", [], |row| row.get(0))
        .unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = Care::open(&place.path()).err().unwrap();
    assert_eq!(error.exit().code(), 2);
    let report = error.report();
    assert!(report.contains("another program holds it"), "{report}");
}

#[test]
fn two_cannot_care_at_once() {
    let (place, _) = filled(1);
    let first = Care::open(&place.path()).unwrap();
    let error = Care::open(&place.path()).err().unwrap();
    assert_eq!(error.exit().code(), 2);
    drop(first);
    assert!(Care::open(&place.path()).is_ok());
}
