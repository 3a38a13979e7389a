//! Runs over other files of a directory, and what earlier runs left undone.

use super::{asked, csv, names, parts};
use crate::support::process::{Place, Program};
use crate::support::server::{Server, good, status};
use crate::support::users;

/// A run of these parts into `scored`.
fn run<'a, const N: usize>(place: &'a Place, server: &'a Server, args: [&str; N]) -> Program<'a> {
    place.run(server, "--output-dir scored").args(args)
}

#[test]
fn a_run_over_other_parts_keeps_the_answers_of_a_stopped_one() {
    for others in [
        &["parts/1.csv"][..],
        &["parts/3.csv"],
        &["parts/1.csv", "parts/3.csv"],
    ] {
        let place = parts([
            ("1.csv", &csv(1, 5)),
            ("2.csv", &csv(6, 20)),
            ("3.csv", &csv(21, 40)),
        ]);
        let server = Server::good();
        run(&place, &server, ["parts/*", "--max-calls", "12"])
            .done()
            .exits(5);
        run(&place, &server, []).args(others).done().exits(0);
        run(&place, &server, ["parts/*"]).done().exits(0);
        assert_eq!(asked(&server).len(), 40, "{others:?}");
        assert_eq!(place.text("scored/2.csv"), users::scored(&csv(6, 20)));
    }
}

#[test]
fn a_run_over_other_parts_keeps_the_answers_that_a_retry_needs() {
    let place = parts([("1.csv", &csv(1, 3)), ("2.csv", &csv(4, 6))]);
    let server = Server::start(|request| match request.name().as_str() {
        "User 2" if request.attempt == 1 => status(422),
        _ => good(request),
    });
    run(&place, &server, ["parts/1.csv"]).done().exits(1);
    run(&place, &server, ["parts/2.csv"]).done().exits(0);
    run(&place, &server, ["parts/*", "--retry-failed"])
        .done()
        .exits(0);
    assert_eq!(server.calls(), 7);
    assert_eq!(names(&place, "scored"), ["1.csv", "2.csv"]);
    assert_eq!(place.text("scored/1.csv"), users::scored(&csv(1, 3)));
}

#[test]
fn the_same_command_again_does_not_accept_what_the_first_one_left() {
    let place = parts([("1.csv", &csv(1, 9))]);
    let server = Server::start(|request| match request.name().as_str() {
        "User 2" | "User 3" => status(422),
        _ => good(request),
    });
    let accepting = ["parts/*", "--accept-failures", "1"];
    run(&place, &server, accepting).done().exits(1);
    run(&place, &server, accepting).done().exits(1);
    let quiet = run(&place, &server, accepting).args("-q").done();
    quiet
        .exits(1)
        .says("1 file with rows without a verdict, finished before this start (finished with exit code 1)");
}
