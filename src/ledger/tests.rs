//! Tests of the ledger as a whole: what is kept is found, what should not be used is not, and what cannot be kept is
//! said.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::fs;
use std::io;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};

use futures::future::join_all;

use super::keeper::{Counted, Record, Store};
use super::schema::VERSION;
use super::*;
use crate::telemetry::event::Unusable;
use crate::telemetry::pace::{FoundLimit, Limit};
use crate::verdict::{Answer, Failure, Reason, Score, TransactionId};

const PATIENCE: Duration = Duration::from_secs(30);
/// A run that gave every row its verdict.
const WHOLE: Finished = Finished {
    failed_rows: 0,
    failed_calls: 0,
};
const BODY: &[u8] = br#"{"name":"Jane Doe","email":"jane@example.com"}"#;

struct Directory(TempDir);

impl Directory {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn output(&self) -> PathBuf {
        self.0.path().join("scored.csv")
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn own(&self) -> Settings {
        settings(Place::Beside(self.output()))
    }

    fn shared(&self) -> Settings {
        settings(Place::Shared(self.0.path().join("answers.ledger")))
    }
}

fn settings(place: Place) -> Settings {
    Settings {
        place,
        reuse: Reuse::All,
        output: None,
        endpoint: "https://api.example.com/v1/validate/user".to_owned(),
        service_id: "test".to_owned(),
        captured: Vec::new(),
        in_flight: 16.try_into().unwrap(),
    }
}

fn pointers(fields: &[&str]) -> Vec<Pointer> {
    let pointers = fields.iter().map(|field| Pointer::parse(field).unwrap());
    pointers.collect()
}

fn answer(id: &str) -> Answer {
    Answer {
        transaction_id: TransactionId::new(id).unwrap(),
        score: Score::from_json_number("1.50").unwrap(),
        captured: Box::default(),
    }
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread();
    { runtime }.build().unwrap().block_on(future)
}

/// Opens a ledger, keeps one answer and ends it.
fn keep(settings: Settings, body: &[u8], answer: &Answer) -> Rest {
    let mut ledger = Ledger::open(settings).unwrap();
    let keeper = ledger.keeper().unwrap();
    let kept = wait(keeper.keep(ledger.keys().key(body), answer.clone())).unwrap();
    assert_eq!(kept, *answer);
    drop(keeper);
    ledger.end(Removed::WhenEmpty, PATIENCE).unwrap()
}

fn find(settings: Settings, body: &[u8]) -> Found {
    let ledger = Ledger::open(settings).unwrap();
    let key = ledger.keys().key(body);
    let lookup = ledger.lookup().unwrap();
    lookup.map_or_else(Found::default, |mut lookup| {
        lookup.find(&key, body).unwrap()
    })
}

fn current(answer: Answer) -> Found {
    Found {
        known: Some(Known::Answer(answer)),
        ..Found::default()
    }
}

/// An answer that is there and cannot be used.
fn replaceable() -> Found {
    Found {
        old: Some(answer("t-1").score),
        ..Found::default()
    }
}

#[test]
fn what_was_kept_is_found_by_the_next_run() {
    let place = Directory::new();
    assert_eq!(keep(place.own(), BODY, &answer("t-1")), Rest::Kept(Some(1)));
    assert_eq!(place.names(), ["scored.csv.ledger"]);
    assert_eq!(find(place.own(), BODY), current(answer("t-1")));
    assert_eq!(find(place.own(), b"{}"), Found::default());
    let other = Settings {
        service_id: "other".to_owned(),
        ..place.own()
    };
    assert_eq!(Ledger::open(other.clone()).unwrap().held(), None);
    assert_eq!(find(other, BODY), Found::default());
}

#[test]
fn the_runs_own_ledger_goes_when_every_row_has_a_verdict() {
    let place = Directory::new();
    keep(place.own(), BODY, &answer("t-1"));
    let mut ledger = Ledger::open(place.own()).unwrap();
    drop(ledger.keeper().unwrap());
    assert_eq!(ledger.held().unwrap().answers, 1);
    assert_eq!(
        ledger.end(Removed::WhenUsed(1), PATIENCE).unwrap(),
        Rest::Nothing
    );
    assert_eq!(place.names(), [""; 0]);
    // A shared one never goes.
    assert_eq!(keep(place.shared(), BODY, &answer("t-1")), Rest::Kept(None));
    let ledger = Ledger::open(place.shared()).unwrap();
    assert_eq!(
        ledger.end(Removed::WhenUsed(1), PATIENCE).unwrap(),
        Rest::Kept(None)
    );
    assert_eq!(place.names(), ["answers.ledger"]);
}

#[test]
fn a_run_that_kept_nothing_leaves_nothing() {
    let place = Directory::new();
    let mut ledger = Ledger::open(place.own()).unwrap();
    drop(ledger.keeper().unwrap());
    assert_eq!(
        ledger.end(Removed::WhenEmpty, PATIENCE).unwrap(),
        Rest::Nothing
    );
    assert_eq!(place.names(), [""; 0]);
    // Nor does one that could not even begin.
    drop(Ledger::open(place.own()).unwrap());
    assert_eq!(place.names(), [""; 0]);
}

#[test]
fn starting_over_throws_away_and_says_what() {
    let place = Directory::new();
    keep(place.own(), BODY, &answer("t-1"));
    let fresh = Settings {
        reuse: Reuse::Nothing,
        ..place.own()
    };
    let open = || Ledger::open(fresh.clone()).unwrap();
    let ledger = open();
    assert_eq!(ledger.replaced().unwrap().answers, 1);
    assert_eq!(ledger.held(), None);
    assert!(ledger.lookup().unwrap().is_none());
    // The run never began.
    drop(ledger);
    assert_eq!(find(place.own(), BODY), current(answer("t-1")));
    drop(open().keeper().unwrap());
    assert_eq!(find(place.own(), BODY), Found::default());
    // It is there until the new run has an answer, and then it is gone.
    let stored = || {
        let connection = rusqlite::Connection::open(place.0.path().join("scored.csv.ledger"));
        let ids = "SELECT group_concat(transaction_id) FROM answers";
        let ids = connection.unwrap().query_row(ids, [], |row| row.get(0));
        ids.unwrap_or_else(|_| String::new())
    };
    assert_eq!(stored(), "t-1");
    keep(place.own(), b"{}", &answer("t-2"));
    assert_eq!(stored(), "t-2");
}

/// Leaves a finished run in which one call brought no verdict.
fn finish(settings: Settings, body: &[u8], answer: &Answer) {
    let mut ledger = Ledger::open(settings).unwrap();
    let keeper = ledger.keeper().unwrap();
    wait(keeper.keep(ledger.keys().key(body), answer.clone())).unwrap();
    wait(keeper.keep_failure(ledger.keys().key(b"{}"), b"{}", &refused())).unwrap();
    keeper.finish(Finished {
        failed_rows: 2,
        failed_calls: 1,
    });
    drop(keeper);
    ledger.end(Removed::Never, PATIENCE).unwrap();
}

fn refused() -> Failure {
    Failure::new(Reason::Refused, "422: `Jane is too young`")
}

#[test]
fn a_finished_run_is_not_gone_on_with_but_its_failed_rows_can_be_retried() {
    let place = Directory::new();
    for settings in [place.own(), place.shared()] {
        let own = settings.place != place.shared().place;
        let retry = Settings {
            reuse: Reuse::Retry,
            ..settings.clone()
        };
        let error = Ledger::open(retry.clone()).err().unwrap();
        assert!(
            error.report().contains("nothing to retry"),
            "{}",
            error.report()
        );
        finish(settings.clone(), BODY, &answer("t-1"));
        let ledger = Ledger::open(settings.clone()).unwrap();
        assert_eq!(
            (ledger.past(), ledger.goes_on()),
            (Past::Finished { failed: 1 }, false)
        );
        assert_eq!(ledger.held(), None);
        assert_eq!(ledger.replaced().map(|held| held.answers), own.then_some(1));
        drop(ledger);
        // A new run of a shared ledger still uses what others have paid for.
        let expected = if own {
            Found::default()
        } else {
            current(answer("t-1"))
        };
        assert_eq!(find(settings.clone(), BODY), expected);
        assert_eq!(find(retry.clone(), BODY), current(answer("t-1")));
        assert_eq!(
            find(retry.clone(), b"{}"),
            Found::default(),
            "it is asked again"
        );
        // Once the retry is under way it is a run as any other, which goes on by the same command.
        let mut ledger = Ledger::open(retry.clone()).unwrap();
        let keeper = ledger.keeper().unwrap();
        wait(keeper.keep_failure(ledger.keys().key(b"{}"), b"{}", &refused())).unwrap();
        drop(keeper);
        ledger.end(Removed::Never, PATIENCE).unwrap();
        for goes_on in [retry, settings] {
            let known = Some(Known::Failure(refused()));
            let found = Found {
                known,
                ..Found::default()
            };
            assert_eq!(find(goes_on, b"{}"), found);
        }
    }
}

#[test]
fn what_a_run_is_not_to_send_again_is_its_own_and_sealed() {
    let place = Directory::new();
    let to = |output: &str| Settings {
        output: Some(place.0.path().join(output)),
        ..place.shared()
    };
    let mut ledger = Ledger::open(to("a.csv")).unwrap();
    let key = ledger.keys().key(BODY);
    let keeper = ledger.keeper().unwrap();
    wait(keeper.keep_failure(key, BODY, &refused())).unwrap();
    let found = Found {
        known: Some(Known::Failure(refused())),
        ..Found::default()
    };
    assert_eq!(
        keeper.look_again(&key, BODY).unwrap(),
        Some((found.clone(), Whose::Ours))
    );
    drop(keeper);
    ledger.end(Removed::Never, PATIENCE).unwrap();
    assert_eq!(find(to("a.csv"), BODY), found);
    assert_eq!(find(to("b.csv"), BODY), Found::default());
    for name in place.names() {
        let bytes = fs::read(place.0.path().join(&name)).unwrap();
        assert!(!bytes.windows(4).any(|part| part == b"Jane"), "{name}");
    }
    // The ledger alone, without the person's data, gives noise.
    let mut ledger = Ledger::open(to("a.csv")).unwrap();
    let mut lookup = ledger.lookup().unwrap().unwrap();
    assert_ne!(lookup.find(&key, b"{}").unwrap(), found);
    // An answer of another run is used all the same.
    let keeper = ledger.keeper().unwrap();
    wait(keeper.keep(key, answer("t-1"))).unwrap();
    assert_eq!(lookup.find(&key, BODY).unwrap(), current(answer("t-1")));
}

#[test]
fn of_runs_that_start_over_at_once_none_takes_an_earlier_ones_answers() {
    let place = Directory::new();
    let fresh = Settings {
        reuse: Reuse::Nothing,
        ..place.shared()
    };
    let mut last = 0;
    for run in 0..5 {
        let mut ledger = Ledger::open(fresh.clone()).unwrap();
        assert!(ledger.run.not_before > last);
        last = ledger.run.not_before;
        let (keeper, key) = (ledger.keeper().unwrap(), ledger.keys().key(BODY));
        assert_eq!(keeper.look_again(&key, BODY).unwrap(), None, "{run}");
        wait(keeper.keep(key, answer("t-1"))).unwrap();
        let own = keeper.look_again(&key, BODY).unwrap();
        // What it replaced is what its rows are compared with.
        let old = (run > 0).then(|| answer("t-1").score);
        let found = Found {
            old,
            ..current(answer("t-1"))
        };
        assert_eq!(own, Some((found, Whose::Ours)));
        keeper.finish(WHOLE);
        drop(keeper);
        ledger.end(Removed::Never, PATIENCE).unwrap();
    }
    // A clock that was wrong once does no harm for long.
    let connection = rusqlite::Connection::open(place.0.path().join("answers.ledger")).unwrap();
    let ahead = "UPDATE ledger SET fresh_from = fresh_from + 1000000000";
    assert_eq!(connection.execute(ahead, []), Ok(1));
    drop(connection);
    let ledger = Ledger::open(fresh).unwrap();
    assert!(ledger.run.not_before < last + 2 * 60 * 60 * 1_000);
}

#[test]
fn what_a_run_finds_of_the_service_is_known_to_the_next_one() {
    let place = Directory::new();
    let known = |settings| {
        let known = Ledger::open(settings).unwrap().known();
        known.map_or(Limit::NONE, |known| known.limit)
    };
    let seen = |value| FoundLimit { value, times: 3 };
    let found = |rate| Limit {
        rate: Some(seen(rate)),
        in_flight: Some(seen(9.0)),
    };
    for settings in [place.shared(), place.own()] {
        let mut ledger = Ledger::open(settings.clone()).unwrap();
        assert_eq!(ledger.known(), None);
        let (keeper, key) = (ledger.keeper().unwrap(), ledger.keys().key(BODY));
        keeper.found(found(48.0));
        wait(keeper.keep(key, answer("t-1"))).unwrap();
        // With the next answers, as the run may be killed.
        let path = ledger.path().unwrap();
        let connection = rusqlite::Connection::open(path).unwrap();
        let rate = connection.query_row("SELECT rate FROM limits", [], |row| row.get(0));
        assert_eq!(rate, Ok(48.0));
        drop(connection);
        keeper.found(found(49.0));
        drop(keeper);
        ledger.end(Removed::Never, PATIENCE).unwrap();
        assert_eq!(known(settings.clone()), found(49.0));
        let other = Settings {
            service_id: "other".to_owned(),
            ..settings.clone()
        };
        assert_eq!(known(other), Limit::NONE);
        // Starting over is about answers.
        let fresh = Settings {
            reuse: Reuse::Nothing,
            ..settings.clone()
        };
        drop(Ledger::open(fresh).unwrap().keeper().unwrap());
        assert_eq!(known(settings), found(49.0));
    }
}

/// Makes the answers of a ledger older by so many seconds.
fn age(path: &Path, seconds: i64) {
    let connection = rusqlite::Connection::open(path).unwrap();
    let checksums = sqlite::head(&connection).unwrap().checksums();
    checksums.install(&connection).unwrap();
    let age = "UPDATE answers SET at = at - ?1, checksum =
        answer_checksum(key, transaction_id, score, capture, captured, at - ?1, replaced)";
    assert_eq!(connection.execute(age, [seconds * 1_000]), Ok(1));
}

#[test]
fn an_answer_from_the_future_is_not_young() {
    let place = Directory::new();
    let run = |reuse| {
        let settings = Settings {
            reuse,
            ..place.shared()
        };
        find(settings, BODY)
    };
    keep(place.shared(), BODY, &answer("t-1"));
    let path = place.0.path().join("answers.ledger");
    let young = Reuse::Younger(Duration::from_secs(60));
    // Within what clocks that are set back make of a run that uses no older answers.
    age(&path, -30 * 60);
    assert_eq!(run(young), current(answer("t-1")));
    age(&path, -31 * 60);
    let expected = Found {
        unusable: Some(Unusable::FromTheFuture),
        ..Found::default()
    };
    assert_eq!(run(young), expected);
    // Where ages do not matter, the time does not either.
    assert_eq!(run(Reuse::All), current(answer("t-1")));
}

#[test]
fn an_answer_that_is_damaged_is_as_if_it_were_not_there() {
    for (column, value) in [
        ("score", "'6.50'"),
        ("transaction_id", "'t-2'"),
        ("at", "at + 1"),
        ("replaced", "'9.50'"),
        ("capture", "2"),
        ("captured", "'[1]'"),
        ("checksum", "checksum + 1"),
    ] {
        let place = Directory::new();
        keep(place.shared(), BODY, &answer("t-1"));
        let path = place.0.path().join("answers.ledger");
        let connection = rusqlite::Connection::open(&path).unwrap();
        let damage = format!("UPDATE answers SET {column} = {value}");
        assert_eq!(connection.execute(&damage, []), Ok(1));
        drop(connection);
        let damaged = Found {
            unusable: Some(Unusable::Damaged),
            ..Found::default()
        };
        assert_eq!(find(place.shared(), BODY), damaged, "{column}");
        // The answer that takes its place is sound, and what it was has left nothing behind.
        keep(place.shared(), BODY, &answer("t-3"));
        assert_eq!(find(place.shared(), BODY), current(answer("t-3")));
    }
}

#[test]
fn answers_age_by_the_clock_on_the_wall() {
    let place = Directory::new();
    keep(place.shared(), BODY, &answer("t-1"));
    let path = place.0.path().join("answers.ledger");
    age(&path, 2 * 86_400);
    let day = Duration::from_secs(86_400);
    for (reuse, found) in [
        (Reuse::All, current(answer("t-1"))),
        (Reuse::Younger(3 * day), current(answer("t-1"))),
        (Reuse::Younger(day), replaceable()),
        (Reuse::Nothing, replaceable()),
    ] {
        let settings = Settings {
            reuse,
            ..place.shared()
        };
        assert_eq!(find(settings, BODY), found, "{reuse:?}");
    }
}

#[test]
fn an_answer_without_a_wanted_field_is_asked_for_again() {
    let place = Directory::new();
    let wanting = |fields: &[&str]| Settings {
        captured: pointers(fields),
        ..place.own()
    };
    let with = |captured: &[Option<&str>]| Answer {
        captured: captured.iter().map(|value| value.map(Into::into)).collect(),
        ..answer("t-1")
    };
    let kept = with(&[Some("null"), None, Some("\"x\"")]);
    keep(wanting(&["/a", "/b", "/c"]), BODY, &kept);
    for (fields, values) in [
        (&["/c", "/a"][..], &[Some("\"x\""), Some("null")][..]),
        (&["/b"], &[None]),
        (&[], &[]),
    ] {
        assert_eq!(find(wanting(fields), BODY), current(with(values)));
    }
    // It is of this very run, which is still not at its end: not how the user was judged before.
    assert_eq!(find(wanting(&["/a", "/d"]), BODY), Found::default());
}

#[test]
fn nothing_of_a_person_is_in_the_files_and_nobody_else_may_read_them() {
    let place = Directory::new();
    let mut ledger = Ledger::open(place.own()).unwrap();
    let keeper = ledger.keeper().unwrap();
    wait(keeper.keep(ledger.keys().key(BODY), answer("t-1"))).unwrap();
    let names = place.names();
    assert!(names.len() >= 3, "{names:?}");
    for name in names {
        let path = place.0.path().join(&name);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = path.metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
        let bytes = fs::read(&path).unwrap();
        for personal in [&b"Jane"[..], b"jane@", b"example.com\""] {
            assert!(!bytes.windows(personal.len()).any(|part| part == personal));
        }
    }
}

#[test]
fn a_file_is_known_again_by_its_path_its_input_and_how_it_was_left() {
    let place = Directory::new();
    let path = |name: &str| place.0.path().join(name);
    let (input, other) = (path("users.csv"), path("other.csv"));
    let ledger = Ledger::open(place.own()).unwrap();
    let standing = |name, input| ledger.standing(&path(name), input).unwrap();
    let note = |name, of| {
        let files = [(path(name), path(of).metadata().unwrap())];
        ledger.note(&files, Some(&input)).unwrap();
    };
    assert_eq!(standing("scored.csv", Some(&input)), Standing::Absent);
    fs::write(path("partial"), "1").unwrap();
    note("scored.csv", "partial");
    fs::rename(path("partial"), path("scored.csv")).unwrap();
    fs::write(path("other.csv"), "1").unwrap();
    for (name, input, expected) in [
        ("scored.csv", Some(&*input), Standing::AsLeft),
        ("scored.csv", Some(&*other), Standing::OfOtherInput),
        ("scored.csv", None, Standing::OfOtherInput),
        ("other.csv", Some(&*input), Standing::Foreign),
    ] {
        assert_eq!(standing(name, input), expected, "{name} {input:?}");
    }
    // A run that is killed before its files have their names leaves the old ones.
    fs::write(path("partial"), "22").unwrap();
    note("scored.csv", "partial");
    assert_eq!(standing("scored.csv", Some(&input)), Standing::AsLeft);
    fs::write(path("scored.csv"), "333").unwrap();
    assert_eq!(standing("scored.csv", Some(&input)), Standing::Changed);
    // Paths are not in it.
    for name in place.names() {
        let bytes = fs::read(path(&name)).unwrap();
        assert!(
            !bytes
                .windows(6)
                .any(|part| part == b"scored" || part == b"users.")
        );
    }
}

#[test]
fn a_second_run_is_refused_and_the_first_named() {
    let place = Directory::new();
    let first = Ledger::open(place.own()).unwrap();
    let error = Ledger::open(place.own()).err().unwrap();
    assert_eq!(error.exit().code(), 2);
    let named = format!("process {}", std::process::id());
    assert!(error.report().contains(&named), "{}", error.report());
    drop(first);
    assert!(Ledger::open(place.own()).is_ok());
}

#[test]
fn runs_that_share_a_ledger_see_each_others_answers() {
    let place = Directory::new();
    let mut ours = Ledger::open(place.shared()).unwrap();
    let mut others = Ledger::open(place.shared()).unwrap();
    let (keeper, watcher) = (ours.keeper().unwrap(), others.keeper().unwrap());
    let key = ours.keys().key(BODY);
    assert_eq!(others.keys().key(BODY), key);
    assert_eq!(watcher.look_again(&key, BODY).unwrap(), None);
    wait(keeper.keep(key, answer("t-1"))).unwrap();
    assert_eq!(
        watcher.look_again(&key, BODY).unwrap(),
        Some((current(answer("t-1")), Whose::Others))
    );
    assert_eq!(
        keeper.look_again(&key, BODY).unwrap(),
        Some((current(answer("t-1")), Whose::Ours))
    );
}

#[test]
fn a_ledger_that_another_run_is_just_making_is_waited_for() {
    let place = Directory::new();
    let path = place.0.path().join("answers.ledger");
    drop(Ledger::open(place.shared()).unwrap());
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
        Ledger::open(settings).map(drop)
    });
    opens.recv().unwrap();
    // Long enough for one that does not wait to have failed.
    assert!(opens.recv_timeout(Duration::from_millis(200)).is_err());
    other.execute_batch("COMMIT").unwrap();
    let opened = opening.join().unwrap();
    assert!(opened.is_ok(), "{}", opened.unwrap_err().report());
}

#[test]
fn what_is_no_ledger_or_of_another_version_is_refused_and_left_as_it_is() {
    let place = Directory::new();
    let path = place.0.path().join("answers.ledger");
    let foreign = rusqlite::Connection::open(&path).unwrap();
    foreign.execute("CREATE TABLE x (y)", []).unwrap();
    drop(foreign);
    let database = fs::read(&path).unwrap();
    for bytes in [&database[..], b"id,name\n1,Jane\n"] {
        fs::write(&path, bytes).unwrap();
        let error = Ledger::open(place.shared()).err().unwrap();
        assert_eq!(error.exit().code(), 2);
        assert!(error.report().contains("no ledger"), "{}", error.report());
        assert_eq!(fs::read(&path).unwrap(), bytes);
    }
    fs::remove_file(&path).unwrap();
    keep(place.shared(), BODY, &answer("t-1"));
    for version in [VERSION - 1, VERSION + 1] {
        let other = rusqlite::Connection::open(&path).unwrap();
        other.pragma_update(None, "user_version", version).unwrap();
        drop(other);
        let bytes = fs::read(&path).unwrap();
        let error = Ledger::open(place.shared()).err().unwrap();
        let words = format!("version {version}");
        assert!(error.report().contains(&words), "{}", error.report());
        assert_eq!(fs::read(&path).unwrap(), bytes);
        assert_eq!(place.names(), ["answers.ledger"]);
    }
}

#[test]
fn a_damaged_ledger_is_refused_with_the_way_out() {
    let place = Directory::new();
    keep(place.own(), BODY, &answer("t-1"));
    let path = ledger_of(&place.output());
    let mut bytes = fs::read(&path).unwrap();
    bytes[100..].fill(0x55);
    fs::write(&path, bytes).unwrap();
    let error = Ledger::open(place.own()).err().unwrap();
    assert_eq!(error.exit().code(), 2);
    assert!(error.report().contains("--fresh"), "{}", error.report());
    let fresh = Settings {
        reuse: Reuse::Nothing,
        ..place.own()
    };
    assert!(Ledger::open(fresh).is_ok());
}

#[test]
fn a_ledger_that_was_removed_takes_no_more_answers() {
    let place = Directory::new();
    let mut ledger = Ledger::open(place.own()).unwrap();
    let keeper = ledger.keeper().unwrap();
    let key = ledger.keys().key(BODY);
    wait(keeper.keep(key, answer("t-1"))).unwrap();
    fs::remove_file(ledger_of(&place.output())).unwrap();
    let error = wait(keeper.keep(key, answer("t-2"))).unwrap_err();
    assert_eq!(error.exit().code(), 3);
    assert!(error.report().contains("removed"), "{}", error.report());
}

/// Notes how many answers each group has; fails at one of them, and waits before each for a word.
struct Noted {
    groups: Arc<Mutex<Vec<usize>>>,
    fails: usize,
    go: Receiver<()>,
}

impl Store for Noted {
    fn commit(&mut self, group: &[Record]) -> io::Result<()> {
        self.go.recv().unwrap();
        let mut groups = self.groups.lock().unwrap();
        groups.push(group.len());
        if groups.len() == self.fails {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }

    fn found(&mut self, _: KnownLimit) {}

    fn failed(&mut self, _: Vec<Key>) {}

    fn end(&mut self, _: Option<Finished>) {}

    fn count(&self) -> Option<Counted> {
        None
    }
}

type Notes = (Keeper, Keys, Arc<Mutex<Vec<usize>>>, Sender<()>);

fn noted(place: &Directory, fails: usize) -> Notes {
    let ledger = Ledger::open(place.shared()).unwrap();
    let (sender, go) = channel();
    let groups = Arc::new(Mutex::new(Vec::new()));
    let store = Noted {
        groups: Arc::clone(&groups),
        fails,
        go,
    };
    let lookup = ledger.open_lookup().unwrap();
    let (keeper, _) = Keeper::start(store, &ledger.path, ledger.keys(), lookup, false, 8).unwrap();
    (keeper, ledger.keys(), groups, sender)
}

#[test]
fn answers_gather_while_a_group_is_synced() {
    let place = Directory::new();
    let (keeper, keys, groups, go) = noted(&place, 0);
    let all = join_all((0..10_u8).map(|n| keeper.keep(keys.key(&[n]), answer("t-1"))));
    let release = async {
        tokio::task::yield_now().await;
        for _ in 0..10 {
            go.send(()).unwrap();
        }
    };
    let (kept, ()) = wait(futures::future::join(all, release));
    assert!(kept.iter().all(Result::is_ok));
    let groups = groups.lock().unwrap();
    assert_eq!(groups.iter().sum::<usize>(), 10);
    assert!(groups.len() <= 2, "{groups:?}");
}

#[test]
fn a_failed_sync_is_never_tried_again() {
    let place = Directory::new();
    let (keeper, keys, groups, go) = noted(&place, 2);
    for (n, kept) in [(0, true), (1, false), (2, false), (3, false)] {
        go.send(()).unwrap();
        let result = wait(keeper.keep(keys.key(&[n]), answer("t-1")));
        assert_eq!(result.is_ok(), kept);
        if let Err(error) = result {
            assert_eq!(error.exit().code(), 3);
            assert!(error.is_disk_full());
        }
    }
    assert_eq!(*groups.lock().unwrap(), [1, 1]);
}

#[cfg(unix)]
#[test]
fn a_ledger_for_the_length_of_a_run_leaves_nothing_whatever_ends_the_run() {
    let mut ledger = Ledger::open(settings(Place::Scratch)).unwrap();
    let keeper = ledger.keeper().unwrap();
    assert!(!ledger.path.exists() && !ledger.path.parent().unwrap().exists());
    // It is as good without a name.
    let key = ledger.keys().key(BODY);
    for id in ["t-1", "t-2"] {
        wait(keeper.keep(key, answer(id))).unwrap();
        let found = keeper.look_again(&key, BODY).unwrap();
        assert_eq!(found, Some((current(answer(id)), Whose::Ours)));
    }
}
