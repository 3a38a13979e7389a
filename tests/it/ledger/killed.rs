//! A run that is killed with a ledger of its own: the next one counts what may have been billed twice, at most.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::process::{Done, Place};
use crate::support::server::{Server, good, status};
use crate::support::users;

/// Answers each request after a while.
fn slow() -> Server {
    Server::start(|request| good(request).after(Duration::from_millis(100)))
}

/// How many rows may have been billed twice, as the summary of the last run says.
fn counted(place: &Place) -> usize {
    let summary: serde_json::Value = serde_json::from_str(&place.text("s.json")).unwrap();
    let twice = summary["calls"]["maybe_billed_twice"].as_u64();
    usize::try_from(twice.unwrap()).unwrap()
}

/// The most calls whose answers a kill can lose now, as the ledger says.
fn most_calls(place: &Place) -> usize {
    let ledger = rusqlite::Connection::open(place.path("scored.csv.ledger")).unwrap();
    let most = ledger.query_row("SELECT calls FROM runs", [], |row| row.get(0));
    usize::try_from(most.unwrap_or(0_i64)).unwrap()
}

/// How many rows may have been billed twice, as a ledger keeps it.
fn kept(place: &Place, ledger: &str) -> usize {
    let ledger = rusqlite::Connection::open(place.path(ledger)).unwrap();
    let rows = "SELECT maybe_billed_twice FROM runs";
    let rows = ledger.query_row(rows, [], |row| row.get(0));
    usize::try_from(rows.unwrap_or(0_i64)).unwrap()
}

/// Whether a file has so many lines.
fn lines(lines: usize) -> impl Fn(&[u8]) -> bool {
    move |text| text.split(|byte| *byte == b'\n').count() == lines + 1
}

/// Kills a run when so many calls are out.
fn killed(place: &Place, server: &Server, calls: usize) {
    let args = format!("users.csv -o scored.csv -c {calls}");
    let running = place.run(server, &*args).start();
    server.wait_for_calls(server.calls() + 1 + calls);
    running.kill_when(|| most_calls(place) >= calls);
}

fn next(place: &Place, server: &Server, more: &str) -> Done {
    let args = "users.csv -o scored.csv --summary s.json --price 1";
    place.run(server, args).args(more).done()
}

#[test]
fn calls_that_a_killed_run_has_lost_are_counted_once() {
    for (calls, most) in [(4, 16), (64, 256)] {
        let (place, server) = (Place::with("users.csv", users::csv(400)), slow());
        killed(&place, &server, calls);
        let before = server.calls();
        let done = next(&place, &server, "");
        done.exits(0)
            .says("rows may have been billed twice: an earlier run was killed");
        let (counted, asked) = (counted(&place), server.calls() - before);
        let twice = server.calls() - 400;
        assert!(twice > 0 && (twice..=most).contains(&counted), "{counted}");
        done.says(&format!("at most {}.00, with ", asked + counted));
    }
}

#[test]
fn what_was_lost_counts_until_a_run_has_said_so() {
    let (place, server) = (Place::with("users.csv", users::csv(400)), slow());
    killed(&place, &server, 4);
    killed(&place, &server, 4);
    // A run that is stopped in order has counted it.
    next(&place, &server, "--max-calls 40").exits(3);
    assert_eq!(counted(&place), 32);
    next(&place, &server, "").exits(0).silent_about("twice");
    assert_eq!(counted(&place), 0);
}

#[test]
fn what_a_run_that_stops_early_has_not_counted_counts_for_the_next() {
    let place = Place::with("users.csv", users::csv(400));
    let refuses = Arc::new(AtomicBool::new(false));
    let server = Server::start({
        let refuses = Arc::clone(&refuses);
        move |request| {
            let answer = if refuses.load(Ordering::Relaxed) {
                status(401)
            } else {
                good(request)
            };
            answer.after(Duration::from_millis(100))
        }
    });
    killed(&place, &server, 4);
    let lost = most_calls(&place);
    refuses.store(true, Ordering::Relaxed);
    next(&place, &server, "").exits(4);
    assert_eq!((counted(&place), most_calls(&place)), (1, lost - 1));
    refuses.store(false, Ordering::Relaxed);
    next(&place, &server, "--max-calls 3").exits(3);
    assert_eq!((counted(&place), most_calls(&place)), (3, lost - 4));
    next(&place, &server, "--limit 2").exits(0);
    next(&place, &server, "").exits(0);
    assert_eq!(counted(&place), lost - 4);
}

#[test]
fn what_a_run_asked_again_before_it_was_killed_counts_for_the_next() {
    for ledger in ["scored.csv.ledger", "answers.ledger"] {
        let place = Place::with("users.csv", users::csv(9));
        let (server, free) = Server::holding_past(1);
        let run = || {
            let run = place.run(&server, "users.csv -o scored.csv -c 8 --summary s.json");
            if ledger == "answers.ledger" {
                run.args("--ledger answers.ledger")
            } else {
                run
            }
        };
        let first = run().start();
        server.wait_for_calls(9);
        first.wait_for_file("scored.csv.partial", lines(2));
        first.kill_when(|| true);
        free.store(7, Ordering::Release);
        let second = run().start();
        server.wait_for_calls(17);
        second.wait_for_file("scored.csv.partial", lines(8));
        // The last of them may still be on its way to the disk.
        second.wait_until("8 rows", || kept(&place, ledger) == 8);
        second.kill_when(|| true);
        free.store(9, Ordering::Release);
        run()
            .done()
            .exits(0)
            .says("10 rows may have been billed twice");
        assert_eq!((counted(&place), server.calls()), (10, 19), "{ledger}");
        let again = run().args("--fresh --overwrite").done();
        again.exits(0).silent_about("twice");
    }
}

#[test]
fn what_was_asked_again_is_kept_only_until_a_summary_says_so() {
    let place = Place::with("users.csv", users::csv(9));
    let (server, free) = Server::holding_past(1);
    let args = "users.csv -o scored.csv -c 8 --summary s.json --ledger answers.ledger";
    let killed = place.run(&server, args).start();
    server.wait_for_calls(9);
    killed.wait_for_file("scored.csv.partial", lines(2));
    killed.kill_when(|| true);
    free.store(9, Ordering::Release);
    place
        .run(&server, args)
        .args("--max-calls 4")
        .done()
        .exits(3);
    assert_eq!((counted(&place), kept(&place, "answers.ledger")), (4, 0));
    place.run(&server, args).done().exits(0);
    assert_eq!((counted(&place), server.calls()), (4, 17));
}

#[test]
fn no_more_rows_are_counted_than_are_asked_again() {
    let (place, server) = (Place::with("users.csv", users::csv(9)), slow());
    killed(&place, &server, 4);
    let before = server.calls();
    next(&place, &server, "").exits(0);
    assert_eq!(counted(&place), server.calls() - before);
}
