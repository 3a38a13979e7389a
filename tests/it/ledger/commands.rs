//! `rescore ledger`: show what a ledger holds, prune old answers, and forget people.

use rusqlite::Connection;

use crate::support::ledger_file;
use crate::support::process::{Done, KEY, Place};
use crate::support::server::{Request, Server};
use crate::support::users;

const LEDGER: &str = "rescore.ledger";

/// A ledger with an answer for each of five users.
fn kept(server: &Server, flags: &[&str]) -> Place {
    let place = Place::with("users.csv", users::csv(5));
    run(&place, server, flags).exits(0);
    place
}

/// The address and the service id are in variables, so that flags can give others.
fn run(place: &Place, server: &Server, flags: &[&str]) -> Done {
    let program = place
        .rescore("run users.csv -o scored.csv --overwrite")
        .env("RESCORE_API_KEY", KEY)
        .env("RESCORE_BASE_URL", server.url())
        .env("RESCORE_SERVICE_ID", "test");
    program.args(flags).done()
}

fn ledger(place: &Place, words: &[&str]) -> Done {
    place.rescore("ledger").args(words).done()
}

/// Every answer as it is stored.
fn sealed(place: &Place) -> Vec<Vec<u8>> {
    let ledger = Connection::open(place.path(LEDGER)).unwrap();
    let mut query = ledger.prepare("SELECT sealed FROM answers").unwrap();
    let rows = query.query_map([], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}

/// How many of these answers are somewhere in the ledger's files.
fn in_files(place: &Place, sealed: &[Vec<u8>]) -> usize {
    let files = place.names();
    let files = files.iter().filter(|name| name.starts_with(LEDGER));
    let bytes: Vec<_> = files.flat_map(|name| place.read(name)).collect();
    let found = |sealed: &&Vec<u8>| bytes.windows(sealed.len()).any(|part| part == &sealed[..]);
    sealed.iter().filter(found).count()
}

#[test]
fn the_users_of_a_file_are_forgotten_leave_no_trace_and_are_sent_again() {
    let server = Server::good();
    let place = kept(&server, &[]);
    let before = sealed(&place);
    assert_eq!(in_files(&place, &before), 5);
    let forget = |people: &str, words: &str| {
        place.write("people.csv", people);
        let done = place.rescore("ledger forget people.csv").args(words).done();
        done.silent_about("User ").silent_about("@example");
        done
    };
    let all = users::csv(7);
    let lines: Vec<_> = all.lines().collect();
    let some = [
        lines[0],
        lines[2],
        lines[4],
        lines[7],
        "8,User 8,,192.0.2.8,u",
    ]
    .join("\n");
    forget(&some, "")
        .exits(0)
        .prints("forgot 2 answers")
        .prints("1 row without a valid");
    assert_eq!(in_files(&place, &before), 3);
    forget(&some, "").exits(1);
    run(&place, &server, &[]).exits(0);
    let mut asked: Vec<_> = server.requests()[5..].iter().map(Request::name).collect();
    asked.sort();
    assert_eq!(asked, ["User 2", "User 4"]);

    // Columns have names as in `run`. Without a header the first user is not taken for one.
    let (header, rows) = all.split_once('\n').unwrap();
    let renamed = format!("{}\n{rows}", header.replace("ip", "last_seen"));
    forget(&renamed, "--map ip=last_seen")
        .exits(0)
        .prints("forgot 5 answers");
    run(&place, &server, &[]).exits(0);
    forget(rows, "").exits(2).says("--no-header");
    let numbers = "--no-header --map name=2 --map email=3 --map ip=4 --map user_agent=5";
    forget(rows, numbers).exits(0).prints("forgot 5 answers ");
    // A file that breaks off changes nothing.
    run(&place, &server, &[]).exits(0);
    let before = place.read(LEDGER);
    forget(&format!("{all}9,\"never closed"), "").exits(2);
    assert_eq!(place.read(LEDGER), before);
}

#[test]
fn every_request_about_a_user_is_forgotten() {
    let server = Server::good();
    let place = kept(&server, &["--service-id", "other"]);
    for flags in [
        &["--vpn-check"][..],
        &["--advanced"],
        &["--vpn-check", "--advanced"],
        &["--plan", "free", "--free-base-url", &server.url()],
    ] {
        run(&place, &server, flags).exits(0);
    }
    let before = sealed(&place);
    let user: String = users::csv(3).split_inclusive('\n').take(2).collect();
    place.write("people.csv", user);
    let done = ledger(&place, &["forget", "people.csv"]);
    done.exits(0).prints("forgot 5 answers");
    assert_eq!(in_files(&place, &before), 20);
}

#[test]
fn prune_removes_older_answers_and_those_of_the_last_day_only_if_that_is_meant() {
    let server = Server::good();
    let place = kept(&server, &[]);
    let prune = |options: &str| place.rescore("ledger prune").args(options).done();
    prune("--older-than 30d")
        .exits(0)
        .prints("removed 0 answers");
    for refused in [
        "--older-than 1s",
        "--older-than 0s",
        "--older-than soon",
        "",
    ] {
        prune(refused).exits(2);
    }
    assert_eq!(sealed(&place).len(), 5);
    ledger_file::age(&place.path(LEDGER), &server, 31 * 86_400_000);
    place.write("users.csv", users::csv(7));
    run(&place, &server, &[]).exits(0);
    let before = sealed(&place);
    prune("rescore.ledger --older-than 30d")
        .exits(0)
        .prints("removed 5 answers");
    assert_eq!(in_files(&place, &before), 2);
    run(&place, &server, &[]).exits(0);
    assert_eq!(server.calls(), 7 + 5);
    ledger_file::age(&place.path(LEDGER), &server, 2_000);
    prune("--older-than 1s --yes")
        .exits(0)
        .prints("removed 7 answers");
    assert_eq!(sealed(&place).len(), 0);
}

#[test]
fn the_ledger_of_an_active_run_can_be_read_but_not_changed() {
    let (server, release) = Server::holding_if(|request| request.nth > 3);
    let place = Place::with("users.csv", users::csv(5));
    let running = place.run(&server, "users.csv -o scored.csv -c 1").start();
    server.wait_for_calls(4);
    let done = ledger(&place, &["stats"]);
    // The third may not be durable yet.
    done.exits(0).prints(" answers, ");
    let forget = || ledger(&place, &["forget", "users.csv"]);
    ledger(&place, &["prune", "--older-than", "1d"]).exits(75);
    forget().exits(75);
    running.signal("INT");
    running.wait_for_words("interrupted");
    drop(release);
    running.done().exits(130);
    // Once the run has ended, its answers can be forgotten like all others.
    forget().exits(0).prints("forgot 4 answers");
    place.score(&server, "").exits(0);
    assert_eq!(server.calls(), 9);
    assert_eq!(place.text("scored.csv"), users::scored(&users::csv(5)));
}

#[test]
fn stats_prints_what_a_ledger_holds_and_changes_nothing() {
    let server = Server::good();
    let place = kept(&server, &[]);
    run(&place, &server, &["--service-id", "other"]).exits(0);
    let before = place.read(LEDGER);
    let done = ledger(&place, &["stats"]);
    done.exits(0)
        .prints("rescore.ledger: ledger version 6, created ")
        .prints("\n10 answers, ");
    let account = format!("\n{}/v1/validate/user\n  5 answers, from ", server.url());
    assert_eq!(done.printed().matches(&account).count(), 2, "{done}");
    assert_eq!(place.read(LEDGER), before);
    assert_eq!(place.names(), [LEDGER, "scored.csv", "users.csv"]);
}
