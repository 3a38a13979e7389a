//! The limits that one run found are known to the next run with the same ledger.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::support::process::{KEY, Place, Program};
use crate::support::server::{Server, good, status};
use crate::support::stand_in::StandIn;
use crate::support::users;

/// Bears so many calls in flight and refuses the others, which are counted.
fn accepting(most: usize) -> (Server, Arc<AtomicUsize>) {
    let (now, refused) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    let seen = Arc::clone(&refused);
    let server = Server::start(move |request| {
        let action = if now.fetch_add(1, Ordering::SeqCst) < most {
            // Long enough for a run to have that many calls in flight soon.
            thread::sleep(Duration::from_millis(40));
            good(request)
        } else {
            seen.fetch_add(1, Ordering::SeqCst);
            status(429)
        };
        now.fetch_sub(1, Ordering::SeqCst);
        action
    });
    (server, refused)
}

/// Scores so many users with this name.
fn night<'a>(
    place: &'a Place,
    url: &str,
    name: &str,
    users: usize,
    allowed: &[&str],
) -> Program<'a> {
    let file = format!("{name}.csv");
    let names = (1..=users).map(|i| format!("{name} {i}"));
    place.write(&file, users::named(names));
    let program = place.rescore(["run", &file, "--base-url", url, "--service-id", "test"]);
    let output = format!("{name}.scored.csv");
    let args = ["-o", &output, "--ledger", "answers.ledger"];
    let program = program.args(args.iter().chain(allowed));
    program.env("RESCORE_API_KEY", KEY)
}

#[test]
fn the_next_run_starts_near_the_limit_that_one_found_and_is_refused_less() {
    let (place, (server, refused)) = (Place::new(), accepting(5));
    let score = |name, users, allowed: &[&str]| {
        let done = night(&place, &server.url(), name, users, allowed).done();
        done.exits(0);
        let csv = place.text(&format!("{name}.csv"));
        let scored = place.text(&format!("{name}.scored.csv"));
        assert_eq!(scored, users::scored(&csv));
        (done, refused.swap(0, Ordering::SeqCst))
    };
    let (first, at_first) = score("first", 2_500, &[]);
    first.says("limit found: ").silent_about("near it");
    let stats = place.rescore("ledger stats answers.ledger").done();
    let stats = String::from_utf8(stats.stdout).unwrap();
    assert!(stats.contains("\n  limit found "), "{stats}");

    let (then, later) = score("then", 500, &[]);
    then.says("rescore: the limit found ")
        .says(": starting near it");
    // How many there are of the first depends on the machine.
    assert!(later <= at_first.max(10), "{later} after {at_first}");

    // With no limit asked for, there is none.
    let unlimited = ["-c", "2", "--rate", "unlimited"];
    score("free", 5, &unlimited).0.silent_about("near it");
}

#[test]
fn a_run_that_is_killed_has_kept_the_limit_that_it_found() {
    let (place, (server, refused)) = (Place::new(), accepting(5));
    let url = server.url();
    let run = || night(&place, &url, "killed", 9_000, &[]).start();
    // By then the limit is certain, and an answer after that is durable.
    let found = AtomicUsize::new(0);
    let enough = || {
        let calls = server.calls();
        if refused.load(Ordering::SeqCst) == 0 {
            found.store(calls, Ordering::SeqCst);
        }
        calls > found.load(Ordering::SeqCst) + 3_000
    };
    let done = run().kill_when(enough);
    done.check(done.code().is_none(), "killed");
    let again = run();
    again.wait_for_words("starting near it");
    again.kill_when(|| true);
}

#[test]
fn a_rate_that_was_found_is_not_looked_for_again() {
    let place = Place::new();
    let limit = ["--latency", "5ms", "--rate-limit", "20", "--burst", "5"];
    let stand_in = StandIn::start(&place, limit);
    // One call at a time, so that only the rate can be the limit.
    let summary = ["-c", "1", "--summary", "summary.json"];
    let first = night(&place, &stand_in.url(), "first", 600, &summary).done();
    first.exits(0).says("limit found: about ");
    let summary = place.json("summary.json");
    let limit = summary["pace"]["limit"].as_f64().unwrap();
    let json = ["--progress", "json"];
    let then = night(&place, &stand_in.url(), "then", 90, &json).done();
    then.exits(0);
    // The first line comes after three seconds.
    let rate = |line| {
        let line: Value = serde_json::from_str(line).unwrap();
        line["pace"]["rate"].as_f64()
    };
    let rate = then.stderr.lines().find_map(rate).unwrap();
    // Near the limit, and not at the ten calls a second that a search starts with.
    assert!(
        (limit * 0.6..limit * 1.1).contains(&rate),
        "{rate}, {limit}"
    );
}
