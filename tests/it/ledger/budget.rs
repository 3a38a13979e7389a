//! A budget is the run's, not the start's: it counts all starts until the run has ended.

use crate::support::process::Place;
use crate::support::server::{Request, Server, good, silence, status};
use crate::support::users;

const ROWS: usize = 300;

#[test]
fn four_starts_have_one_budget_and_none_of_them_succeeds() {
    let csv = users::csv(ROWS);
    for (budget, more) in [
        ("--max-calls 50", "--max-calls 120"),
        ("--max-cost 0.5 --price 0.01", "--max-cost 1.2 --price 0.01"),
    ] {
        for retries in [false, true] {
            let place = Place::with("users.csv", &csv);
            // A retry is a call too.
            let server = Server::start(move |request: &Request| {
                if retries && request.attempt == 1 && request.nth.is_multiple_of(10) {
                    return status(500);
                }
                good(request)
            });
            let score = |args: &str| place.score(&server, args);
            for _ in 0..4 {
                score(budget).exits(5);
                assert_eq!(server.calls(), 50, "{budget}");
            }
            score(more).exits(5);
            assert_eq!(server.calls(), 120, "{more}");
            score("").exits(0);
            assert_eq!(place.text("scored.csv"), users::scored(&csv));
            if !retries {
                assert_eq!(server.calls(), ROWS);
            }
            // The run has ended; the next one has a budget of its own.
            let calls = server.calls();
            score(&format!("{budget} --fresh --overwrite")).exits(5);
            assert_eq!(server.calls(), calls + 50);
        }
    }
}

#[test]
fn starts_that_are_killed_spend_no_more_than_the_budget() {
    let csv = users::csv(ROWS);
    for budget in ["--max-calls 90", "--max-cost 9 --price 0.1"] {
        let (place, server) = (Place::with("users.csv", &csv), Server::good());
        for kill in 1..=6 {
            let args = format!("-c 2 {budget}");
            let running = place.scoring(&server).args(&*args).start();
            running.kill_when(|| server.calls() >= 12 * kill);
        }
        place.score(&server, budget).exits(5);
        // Calls that a kill may have lost count as made.
        let least = 90 - 6 * 2 * 2;
        assert!((least..=90).contains(&server.calls()), "{}", server.calls());
    }
}

#[test]
fn a_call_without_an_answer_counts_once_although_it_may_have_been_billed() {
    let place = Place::with("users.csv", users::csv(20));
    let server = Server::start(|request: &Request| match request.nth {
        5 => silence().then_close(),
        _ => good(request),
    });
    place.score(&server, "-c 1 --max-calls 5").exits(5);
    let done = place.score(&server, "-c 1 --max-calls 9");
    done.exits(5).says("may be billed twice");
    assert_eq!(server.calls(), 9);
}

#[test]
fn a_directory_of_files_has_one_budget_too() {
    let place = Place::with("a.csv", users::csv(40));
    place.write(
        "b.csv",
        users::named((1..=40).map(|n| format!("Other {n}"))),
    );
    let server = Server::good();
    let run = |more: &str| {
        let program = place.run(&server, "a.csv b.csv --output-dir scored");
        program.args(more).done()
    };
    for _ in 0..4 {
        run("--max-calls 50").exits(5);
        assert_eq!(server.calls(), 50);
    }
    run("").exits(0);
    assert_eq!(server.calls(), 80);
}
