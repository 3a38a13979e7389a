//! `--fresh` starts over: nothing that is there is used, and nothing is deleted for a run that cannot start.

use std::fs;

use crate::support::process::Place;
use crate::support::server::Server;
use crate::support::users;

/// A run of `users.csv` that stopped after four calls.
fn stopped(place: &Place, server: &Server) {
    place.score(server, "--max-calls 4").exits(3);
}

#[test]
fn a_run_that_cannot_start_throws_no_paid_answer_away() {
    let csv = users::csv(9);
    for file in ["--summary", "--rejects", "--changes"] {
        let (place, server) = (Place::with("users.csv", &csv), Server::good());
        stopped(&place, &server);
        fs::create_dir(place.path("directory")).unwrap();
        for cannot in ["no/such/file.csv", "directory"] {
            let done = place.score(&server, ["--fresh", file, cannot]);
            done.exits(2).says(cannot);
        }
        place
            .score(&server, "")
            .exits(0)
            .says("4 answers are paid for");
        assert_eq!(server.calls(), 9);
        assert_eq!(place.text("scored.csv"), users::scored(&csv));
    }
}

#[test]
fn runs_that_start_over_on_one_ledger_each_send_every_row() {
    const RUNS: usize = 6;
    let csv = users::csv(5);
    let (place, server) = (Place::with("users.csv", &csv), Server::good());
    for run in 1..=RUNS {
        let args = "--ledger answers.ledger --fresh --overwrite";
        let done = place.score(&server, args);
        done.exits(0).silent_about("taken from the ledger");
        assert_eq!(server.calls(), 5 * run);
    }
}

#[test]
fn a_stopped_run_that_started_over_is_continued_without_starting_over_again() {
    for shared in [false, true] {
        let csv = users::csv(9);
        let (place, server) = (Place::with("users.csv", &csv), Server::good());
        let run = |more: &[&str]| {
            let program = place.scoring(&server);
            let ledger = ["--ledger", "answers.ledger"];
            let ledger = ledger.into_iter().filter(|_| shared);
            let args = ledger.chain(more.iter().copied());
            program.args(args).done()
        };
        run(&["--fresh", "--max-calls", "4"])
            .exits(3)
            .says("the same command without `--fresh` continues from there");
        run(&[])
            .exits(0)
            .says("4 rows already paid for, taken from the ledger");
        assert_eq!(server.calls(), 9);
        assert_eq!(place.text("scored.csv"), users::scored(&csv));
    }
}
