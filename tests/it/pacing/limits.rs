//! Limits of services, found by a run without any pace setting, and known to the next run. The tests check which limit was found
//! and how many calls were refused, never how long it took.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::support::process::{KEY, Place, Program};
use crate::support::server::{Server, answer, good, good_body, status};
use crate::support::stand_in::StandIn;
use crate::support::users;

/// Scores users without any pace setting, and returns the summary.
fn found(place: &Place, url: &str, rows: usize) -> Value {
    place.write("users.csv", users::csv(rows));
    let done = place.run_at(url).args("--summary summary.json").exits(0);
    done.says("limit found: ");
    let scored = place.text("scored.csv");
    assert!(!scored.contains(users::EMPTY), "each row has its verdict");
    let summary = place.json("summary.json");
    let refused = summary["calls"]["throttled"].as_u64().unwrap();
    assert!((1..=40).contains(&refused), "{summary:#}");
    summary
}

#[test]
fn the_stand_ins_limit_is_found_and_its_bill_is_that_of_the_summary() {
    let place = Place::new();
    let limit = "--latency 20ms --rate-limit 40 --burst 5 --retry-after 1";
    let stand_in = StandIn::start(&place, limit);
    let summary = found(&place, &stand_in.url(), 150);
    // On a busy machine, a search of some seconds has not come near yet. How near it comes is tested on a simulated clock.
    let limit = summary["pace"]["limit"].as_f64().unwrap();
    assert!((40.0 / 3.0..40.0 * 3.0).contains(&limit), "{summary:#}");
    let bill = stand_in.bill();
    assert_eq!(bill["billed"], 150, "{bill:#}");
    assert_eq!(bill["throttled"], summary["calls"]["throttled"]);
}

#[test]
fn headers_with_the_remaining_quota_slow_a_run_down_before_anything_is_refused() {
    let server = Server::start(|request| {
        let left = format!(r#""all";r={};t=4"#, 20 - request.nth);
        answer(200, &[("ratelimit", &left)], &good_body(&request.name()))
    });
    let place = Place::with("users.csv", users::csv(12));
    let done = place.score(&server, "-c 2 --progress plain");
    done.exits(0).says("/s, as the service's headers ask");
    assert_eq!(place.text("scored.csv"), users::scored(&users::csv(12)));
}

/// Bears so many calls in flight and refuses the others, which are counted.
fn accepting(most: usize) -> (Server, Arc<AtomicUsize>) {
    let (now, refused) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    let seen = Arc::clone(&refused);
    let server = Server::start(move |request| {
        let action = if now.fetch_add(1, Ordering::SeqCst) < most {
            // Long enough for a run to have that many calls in flight soon.
            thread::sleep(Duration::from_millis(30));
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
fn night<'a>(place: &'a Place, server: &Server, name: &str, users: usize) -> Program<'a> {
    let file = format!("{name}.csv");
    let names = (1..=users).map(|i| format!("{name} {i}"));
    place.write(&file, users::named(names));
    let args = [
        "run",
        &file,
        "--base-url",
        &server.url(),
        "--service-id",
        "test",
    ];
    let program = place.rescore(args).env("RESCORE_API_KEY", KEY);
    let output = format!("{name}.scored.csv");
    program.args(["-o", &output, "--ledger", "answers.ledger"])
}

#[test]
fn the_next_run_starts_near_the_limit_that_a_killed_one_found_and_is_refused_less() {
    let (place, (server, refused)) = (Place::new(), accepting(5));
    // A limit is kept once it is certain.
    let is_kept = || {
        thread::sleep(Duration::from_millis(200));
        let stats = place.rescore("ledger stats answers.ledger").done();
        stats.printed().contains("\n  limit found ")
    };
    let first = night(&place, &server, "first", 20_000).start();
    first.wait_for_file("answers.ledger", |_| true);
    let first = first.kill_when(is_kept);
    first.check(first.code().is_none(), "killed");
    first.silent_about("near it");
    let at_first = refused.swap(0, Ordering::SeqCst);

    let then = night(&place, &server, "then", 500).exits(0);
    then.says("rescore: the limit found ")
        .says(": starting near it");
    let (csv, scored) = (place.text("then.csv"), place.text("then.scored.csv"));
    assert_eq!(scored, users::scored(&csv));
    // How many there are of the first depends on the machine.
    let later = refused.swap(0, Ordering::SeqCst);
    assert!(later <= at_first.max(10), "{later} after {at_first}");

    // With no limit asked for, there is none.
    let free = night(&place, &server, "free", 5).args("-c 2 --rate unlimited");
    free.exits(0).silent_about("near it");
}
