//! What is said of ledgers: by the commands that look after one, and where one cannot be used.

use std::fs;
use std::os::unix::fs::symlink;

use super::{Page, words};
use crate::support::ledger_file::version_6;
use crate::support::process::Place;
use crate::support::server::Server;
use crate::support::users;

/// Commands one after the other, and how they end. `a` has answers for thirty users, `other` for five of them.
const COMMANDS: [(&str, i32); 27] = [
    ("stats a", 0),
    ("stats missing", 2),
    ("copy a b", 0),
    ("copy a b", 0),
    ("copy a other", 2),
    ("copy a text", 2),
    ("copy text new", 2),
    ("copy missing new", 2),
    ("copy a link", 2),
    ("copy link new", 2),
    ("copy a missing/new", 2),
    ("copy old new", 0),
    ("copy newer new", 2),
    ("forget users.csv --ledger a", 2),
    ("forget five.csv --ledger a", 0),
    ("forget five.csv --ledger a", 1),
    ("forget five.csv --ledger missing", 2),
    ("forget rows.csv --ledger a", 2),
    ("forget list.csv --ledger a --from users.csv", 0),
    ("forget unclear.csv --ledger a --from users.csv", 2),
    ("forget ids.csv --ledger a --from users.csv", 2),
    ("prune a --older-than 30d", 0),
    ("prune a --older-than 1s", 2),
    ("init a", 2),
    ("init postgresql://127.0.0.1:1/x", 3),
    ("stats postgresql://127.0.0.1:1/x", 3),
    ("stats directory", 2),
];

/// Runs with a ledger that cannot be used.
const RUNS: [&str; 8] = [
    "text",
    "link",
    "hard",
    "directory",
    "old",
    "newer",
    "shared",
    "no/where",
];

#[test]
fn the_commands_of_a_ledger_say_what_they_did_and_why_one_cannot_be_used() {
    let (mut page, server) = (Page::default(), Server::good());
    let place = Place::with("users.csv", users::csv(30));
    let rows = users::csv(5);
    for (name, content) in [
        ("five.csv", &*rows),
        ("rows.csv", rows.split_once('\n').unwrap().1),
        ("list.csv", "email\nuser7@example.com\nnobody@example.com\n"),
        ("unclear.csv", "email,phone\nuser8@example.com,12\n"),
        ("ids.csv", "id\n9\n"),
        ("text", "no ledger\n"),
        ("shared", ""),
    ] {
        place.write(name, content);
    }
    place.write("old", version_6());
    place.score(&server, "--ledger a --price 0.004").exits(0);
    let other = "five.csv -o five.scored.csv --ledger other";
    place.run(&server, other).exits(0);
    for name in ["newer", "hard"] {
        fs::copy(place.path("a"), place.path(name)).unwrap();
    }
    let newer = rusqlite::Connection::open(place.path("newer")).unwrap();
    newer
        .execute_batch("PRAGMA user_version = 9; UPDATE meta SET version = 9")
        .unwrap();
    drop(newer);
    symlink("a", place.path("link")).unwrap();
    fs::hard_link(place.path("hard"), place.path("harder")).unwrap();
    fs::create_dir(place.path("directory")).unwrap();
    let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    fs::set_permissions(place.path("shared"), everybody).unwrap();
    page.heading("# Commands");
    for (command, code) in COMMANDS {
        let done = place.rescore("ledger").args(words(command)).done();
        // Nothing of a person is shown.
        done.exits(code)
            .silent_about("user7@")
            .silent_about("User ");
        page.add(&format!("ledger {command}"), &done);
    }
    page.heading("# Runs");
    let calls = server.calls();
    for ledger in RUNS {
        let run = place
            .run(&server, "five.csv -o new.csv -q --ledger")
            .arg(ledger);
        let done = run.done();
        // No hint leads to paying without a ledger.
        done.exits(2).silent_about("--no-ledger");
        page.add(&format!("run --ledger {ledger}"), &done);
    }
    assert_eq!(server.calls(), calls);
    page.is("ledger");
}
