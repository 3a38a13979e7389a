//! `--fresh` starts over: nothing that is there is used, and nothing is thrown away for a run that does not begin.

use std::fs;

use crate::process::Place;
use crate::server::Server;
use crate::users;

/// A run of `users.csv` that stopped after four calls.
fn stopped(place: &Place, server: &Server) {
    place.score(server, ["--max-calls", "4"]).exits(3);
}

#[test]
fn a_run_that_cannot_begin_throws_no_paid_answer_away() {
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
            .score(&server, [])
            .exits(0)
            .says("4 answers are paid for");
        assert_eq!(server.calls(), 9);
        assert_eq!(place.text("scored.csv"), users::scored(&csv));
    }
}
