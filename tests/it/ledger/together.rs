//! Several runs at the same time: a second run on one output is refused, and on one ledger each user is paid for once.

use std::time::Duration;

use rusqlite::Connection;

use crate::support::process::{Place, Running};
use crate::support::server::{Request, Server, good, status};
use crate::support::users;

/// Calls in flight of each run.
const CALLS: usize = 4;

/// Answers each request after some milliseconds.
fn slow() -> Server {
    Server::start(|request: &Request| {
        good(request).after(Duration::from_millis(1 + request.nth as u64 % 5))
    })
}

/// With calls that can take longer than a test may: a run that waits for one that is gone counts as hanging.
fn start<'a>(place: &'a Place, server: &'a Server, input: &str, output: &str) -> Running<'a> {
    let program = place.run(server, [input, "-o", output]);
    program.args("-c 4 --timeout 2m").start()
}

/// The same users, the last one first.
fn reversed(csv: &str) -> String {
    let (header, rows) = csv.split_once('\n').unwrap();
    let rows: String = rows.lines().rev().map(|row| format!("{row}\n")).collect();
    format!("{header}\n{rows}")
}

#[test]
fn of_two_runs_to_one_output_the_second_is_refused_and_the_first_named() {
    let csv = users::csv(50);
    let (server, release) = Server::holding(3);
    let place = Place::with("users.csv", &csv);
    let first = place.scoring(&server).args("-c 4").start();
    server.wait_for_calls(7);
    // With another ledger or without one, it is still the same output.
    for more in [
        "--overwrite",
        "--fresh",
        "--ledger answers.ledger",
        "--no-ledger",
    ] {
        let named = format!("another run (process {} on ", first.id());
        let done = place.score(&server, more);
        done.exits(75)
            .says(&named)
            .says(") is writing `scored.csv`\n");
    }
    assert_eq!(server.calls(), 7);
    drop(release);
    first.exits(0);
    assert_eq!(server.calls(), 50);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
}

#[test]
fn runs_in_step_over_the_same_users_pay_for_each_of_them_once() {
    const ROWS: usize = 400;
    let csv = users::csv(ROWS);
    for runs in [2, 5] {
        let (place, server) = (Place::with("users.csv", &csv), slow());
        place.write("reversed.csv", reversed(&csv));
        // They make the ledger together, some meet in the middle, and the last one starts when half is done.
        let start = |run: usize| {
            let input = ["users.csv", "reversed.csv"][run % 2];
            start(&place, &server, input, &format!("{run}.csv"))
        };
        let first: Vec<_> = (0..runs).map(start).collect();
        server.wait_for_calls(ROWS / 2);
        for run in first.into_iter().chain([start(runs)]) {
            run.exits(0);
        }
        for run in 0..=runs {
            let input = if run % 2 == 0 { &csv } else { &reversed(&csv) };
            assert_eq!(place.text(&format!("{run}.csv")), users::scored(input));
        }
        assert_eq!(server.calls(), ROWS, "{runs} runs");
        // Nothing else is left of the ledger once all its runs have ended.
        let names = place.names();
        let left = { names.iter() }.filter(|name| name.starts_with("rescore.ledger"));
        assert_eq!(left.count(), 1, "{names:?}");
    }
}

#[test]
fn a_run_that_was_killed_holds_up_neither_its_next_run_nor_another_one() {
    let csv = users::csv(400);
    let (place, server) = (Place::with("users.csv", &csv), slow());
    let start = |output| start(&place, &server, "users.csv", output);
    let (killed, living) = (start("1.csv"), start("2.csv"));
    server.wait_for_calls(150);
    killed.kill_when(|| true);
    // Neither waits until the lease has ended.
    for run in [living, start("1.csv")] {
        run.exits(0);
    }
    for output in ["1.csv", "2.csv"] {
        assert_eq!(place.text(output), users::scored(&csv));
    }
    // Calls in flight, and those whose answers were not durable yet.
    let calls = server.calls();
    assert!((400..=400 + 2 * CALLS).contains(&calls), "{calls}");
}

#[test]
fn what_a_killed_run_had_claimed_is_taken_over_once_no_call_of_it_can_be_out() {
    let csv = users::csv(40);
    let (server, release) = Server::holding(10);
    let place = Place::with("users.csv", &csv);
    let claims = |place: &Place| -> u32 {
        let ledger = Connection::open(place.path("rescore.ledger")).unwrap();
        let count = "SELECT count(*) FROM claims";
        ledger.query_row(count, [], |row| row.get(0)).unwrap()
    };
    let run = |output| {
        // It waits for as long as a call can take, and some seconds.
        let args = "users.csv -c 4 --timeout 2s --summary s.json -o";
        place.run(&server, args).arg(output)
    };
    let killed = run("1.csv").start();
    server.wait_for_calls(10 + CALLS);
    killed.kill_when(|| claims(&place) > 0);
    drop(release);
    // Meanwhile nothing is left of these users in a copy, once they are forgotten there.
    let copy = Place::with("users.csv", &csv);
    for name in place.names() {
        if name.starts_with("rescore.ledger") {
            copy.write(&name, place.read(&name));
        }
    }
    let forget = copy.rescore("ledger forget users.csv --wait-lock 1m");
    let forget = forget.start();
    run("2.csv").exits(0);
    assert_eq!(place.text("2.csv"), users::scored(&csv));
    forget.done().exits_with_one_of(&[0, 1]);
    assert_eq!(claims(&copy), 0);
    // The kill also lost answers that were on their way to the ledger.
    let calls = server.calls();
    assert!((40 + CALLS..=40 + 2 * CALLS).contains(&calls), "{calls}");
    let said = place.json("s.json")["calls"]["maybe_billed_twice"].clone();
    assert!(said.as_u64().unwrap() >= calls as u64 - 40, "{said}");
    run("1.csv").exits(0);
    assert_eq!(server.calls(), calls);
}

#[test]
fn what_an_interrupted_run_was_about_to_ask_is_asked_by_the_other() {
    let csv = users::csv(300);
    let (place, server) = (Place::with("users.csv", &csv), slow());
    let start = |output| start(&place, &server, "users.csv", output);
    let (interrupted, living) = (start("1.csv"), start("2.csv"));
    server.wait_for_calls(100);
    interrupted.signal("INT");
    interrupted.exits(130);
    living.exits(0);
    assert_eq!(place.text("2.csv"), users::scored(&csv));
    assert_eq!(server.calls(), 300);
    start("1.csv").exits(0);
    assert_eq!(place.text("1.csv"), users::scored(&csv));
    assert_eq!(server.calls(), 300);
}

#[test]
fn a_row_that_failed_in_one_run_is_asked_by_the_other_only_if_it_cannot_have_been_billed() {
    let csv = users::csv(60);
    for (code, calls, codes) in [(422, 60, [Some(1); 2]), (500, 61, [Some(0), Some(1)])] {
        let place = Place::with("users.csv", &csv);
        let server = Server::start(move |request: &Request| match &*request.name() {
            "User 30" if request.attempt == 1 => status(code),
            _ => good(request).after(Duration::from_millis(2)),
        });
        let run = |output| {
            let args = "users.csv -c 4 --retries 0 -o";
            place.run(&server, args).arg(output).start()
        };
        let mut ends = [run("1.csv"), run("2.csv")].map(|run| run.done().code());
        ends.sort_unstable();
        assert_eq!((ends, server.calls()), (codes, calls));
    }
}
