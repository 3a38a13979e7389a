//! What a run says at its end, however it ends: what it has done, what that cost, what is left, and how it continues. Also of
//! decisions that are made again without a call.

use std::io;

use super::{Page, words};
use crate::support::process::Place;
use crate::support::server::{
    Action, Request, Server, answer, good, good_body, ok, silence, status,
};
use crate::support::users;

/// A service by the users' names and attempts: every kind of trouble that a run survives.
fn troubled(request: &Request) -> Action {
    match (request.name().as_str(), request.attempt) {
        ("User 3", 1) => status(422),
        ("User 4", 1 | 2) => status(500),
        ("User 5", 1) => answer(429, &[("retry-after", "1")], ""),
        ("User 6", 1) => silence().then_reset(),
        ("User 7", 1) => ok("{}"),
        // As a cache answers that takes one user for another.
        ("User 8", _) => ok(&good_body("User 2")),
        _ => good(request),
    }
}

/// Runs one after the other, each with what the last one has left, and how they end.
const RUNS: [(&str, i32); 17] = [
    ("users.csv -o out.csv --max-calls 2", 5),
    ("users.csv -o out.csv --limit 3 --price 0.004EUR", 1),
    ("users.csv -o out.csv --price 0.004EUR --retries 2", 1),
    ("users.csv -o out.csv", 2),
    ("users.csv -o out.csv --retry-failed --price 0.005EUR", 0),
    ("users.csv -o again.csv --sample 50%", 0),
    ("users.csv -o again.csv --overwrite --report r.html", 0),
    (
        "users.csv -o again.csv --overwrite --decide-by level=/summary/risk_level --approve-levels 9",
        1,
    ),
    (
        "users.csv -o new.csv --fresh --column level=/summary/risk_levl",
        0,
    ),
    (
        "out.csv -o new.csv --overwrite --review-max 9 --only name!=User --changes changes.csv",
        0,
    ),
    (
        "users.csv -o limited.csv --fresh --max-calls 3 --at-limit finish",
        5,
    ),
    ("users.csv -o once.csv --no-ledger --max-calls 3", 5),
    ("users.csv -o made-up.csv --sandbox --price 1", 0),
    ("bad.csv -o failing.csv --max-failures 2", 5),
    ("bad.csv -o failing.csv -q", 1),
    (
        "bad.csv -o failing.csv --overwrite --accept-failures 50%",
        0,
    ),
    (
        "a-b.csv users.csv bad.csv --output-dir scored --max-calls 1 --fresh",
        5,
    ),
];

/// Decisions about the same users, without a call.
const DECISIONS: [(&str, i32); 5] = [
    ("out.csv -o decided.csv --approve-max 9 --review-max 9", 0),
    ("out.csv --what-if", 0),
    ("ragged.csv -o decided.csv --overwrite", 1),
    ("ragged.csv --what-if -q", 1),
    (
        "out.csv -o decided.csv --overwrite --decide-by level=id --approve-levels 1,2,3",
        1,
    ),
];

/// What `rescore status` says of runs that have ended, and of one that was killed.
fn add_statuses(page: &mut Page) {
    page.heading("# Status");
    let (place, server) = (Place::with("users.csv", users::csv(9)), Server::good());
    let here = place.path("").canonicalize().unwrap();
    let status = |args| {
        let status = place.rescore("status").args(words(args));
        status.env("XDG_STATE_HOME", &here).done()
    };
    let run = |args| {
        let run = place.run(&server, words(args));
        run.env("XDG_STATE_HOME", &here)
    };
    page.add("status", &status(""));
    run("users.csv -o out.csv --max-calls 2").exits(5);
    run("users.csv -o out.csv --no-ledger").exits(2);
    let (reader, _producer) = io::pipe().unwrap();
    let running = run("-o killed.csv").stdin_from(reader).start();
    let waits = || status("killed.csv").printed().contains("first rows");
    running.wait_until("it waits for its input", waits);
    running.kill_when(|| true);
    page.add("status killed.csv", &status("killed.csv"));
    run("users.csv -o killed.csv --max-calls 3 --price 0.004EUR -q").exits(5);
    for asked in ["killed.csv", "other.csv", ""] {
        page.add(&format!("status {asked}"), &status(asked));
    }
    page.0 = page.0.replace(here.to_str().unwrap(), "/data");
}

#[test]
fn a_run_says_what_it_did_and_what_is_left_however_it_ends() {
    let mut page = Page::default();
    let (place, server) = (
        Place::with("users.csv", users::csv(9)),
        Server::start(troubled),
    );
    place.write("a-b.csv", "a,b\n1,2\n");
    let bad = users::csv(9)
        .replace("User 2,", ",")
        .replace("192.0.2.4", "no");
    place.write("bad.csv", bad.replace("User 6,", ","));
    let scored = "transaction_id,risk_score,decision\nt,1,review\nt\n,,\n";
    place.write("ragged.csv", scored);
    page.heading("# Runs");
    for (run, code) in RUNS {
        let program = if run.contains("--sandbox") {
            place.rescore("run -c 1")
        } else {
            place.run(&server, "-c 1")
        };
        let done = program.args(words(run)).exits(code);
        page.add(&format!("run {run}"), &done);
    }
    page.heading("# Decisions");
    for (decide, code) in DECISIONS {
        let done = place.rescore("decide").args(words(decide)).exits(code);
        page.add(&format!("decide {decide}"), &done);
    }
    add_statuses(&mut page);
    page.is("end_of_run");
}
