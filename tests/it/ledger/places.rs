//! Where a ledger cannot be: nothing is sent, nothing is followed or changed, and the way out is named.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

use rusqlite::Connection;

use crate::support::process::Place;
use crate::support::server::Server;
use crate::support::users;

/// Puts something in the place of the ledger; `other.ledger` is one.
type InItsPlace = fn(&Place);

#[test]
fn whatever_else_is_in_its_place_is_refused_before_any_call_and_left_as_it_is() {
    let (server, csv) = (Server::good(), users::csv(3));
    let cases: [InItsPlace; 6] = [
        |place| symlink("other.ledger", place.path("rescore.ledger")).unwrap(),
        |place| symlink("other.ledger", place.path("rescore.ledger-wal")).unwrap(),
        |place| fs::hard_link(place.path("other.ledger"), place.path("rescore.ledger")).unwrap(),
        |place| fs::create_dir(place.path("rescore.ledger")).unwrap(),
        |place| place.write("rescore.ledger", "id,name\n1,Jane\n"),
        |place| {
            fs::copy(place.path("other.ledger"), place.path("rescore.ledger")).unwrap();
            let ledger = Connection::open(place.path("rescore.ledger")).unwrap();
            ledger.pragma_update(None, "user_version", 99).unwrap();
        },
    ];
    for (case, put) in cases.into_iter().enumerate() {
        let place = Place::with("users.csv", &csv);
        let other = place.run(&server, "users.csv -o other.csv --ledger other.ledger");
        other.exits(0);
        let mode = fs::metadata(place.path("other.ledger")).unwrap().mode();
        assert_eq!(mode & 0o777, 0o600, "a ledger is its owner's alone");
        let before = server.calls();
        put(&place);
        let content = || {
            let read = |name: String| (fs::read(place.path(&name)).ok(), name);
            place.names().into_iter().map(read).collect::<Vec<_>>()
        };
        let there = content();
        let done = place.score(&server, "");
        done.exits(2).says("rescore.ledger").says("hint: ");
        assert_eq!(server.calls(), before, "{case}");
        assert!(content() == there, "{case}: {done}");
        // The two ways out.
        place.score(&server, "--ledger third.ledger").exits(0);
        place.score(&server, "--no-ledger --overwrite").exits(0);
    }
}

#[test]
fn where_none_can_be_made_nothing_is_sent_also_for_rows_to_a_stream() {
    // Root may write anywhere.
    const OTHER: &[&str] = &[
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
    ];
    let (server, csv) = (Server::good(), users::csv(3));
    let place = Place::with("users.csv", &csv);
    fs::create_dir(place.path("theirs")).unwrap();
    let mode = |name: &str, mode| {
        fs::set_permissions(place.path(name), Permissions::from_mode(mode)).unwrap();
    };
    let theirs = place.run(&server, "users.csv -o a.csv --ledger theirs.ledger");
    theirs.exits(0);
    for (name, bits) in [
        ("users.csv", 0o644),
        ("theirs.ledger", 0o444),
        ("theirs", 0o555),
        ("", 0o777),
    ] {
        mode(name, bits);
    }
    let is_root = fs::metadata(place.path("")).unwrap().uid() == 0;
    let user = if is_root { OTHER } else { &["env"] };
    if place.rescore("--version").under(user).done().code() != Some(0) {
        println!("skipped: the program cannot be run by another user");
        return;
    }
    let run = |args: &str| place.run(&server, args).under(user).done();
    for args in [
        "users.csv -o b.csv --ledger theirs/some.ledger",
        "users.csv -o theirs/b.csv",
        "users.csv -o b.csv --ledger theirs.ledger",
        "users.csv -o b.csv --ledger nowhere/some.ledger",
    ] {
        run(args).exits(2).says("hint:");
    }
    mode("", 0o555);
    for args in ["users.csv", "users.csv --limit 1"] {
        let done = run(args);
        // No hint leads to paying without a ledger.
        done.exits(2).says("rescore.ledger").says("--ledger");
        done.silent_about("--no-ledger");
        assert!(done.stdout.is_empty());
    }
    assert_eq!(server.calls(), 3);
    let done = run("users.csv --no-ledger");
    done.exits(0);
    assert_eq!(done.stdout, users::scored(&csv).into_bytes());
    mode("", 0o755);
}
