//! A part that cannot be used: it is named, and does not stop the others unless `--fail-fast` is given.

use super::{csv, names, parts, run};
use crate::support::server::{Server, good, status};
use crate::support::users;

const BAD: &str = "colour,size\nred,9\n";

#[test]
fn a_bad_part_stops_no_other_wherever_it_is() {
    for bad in ["0.csv", "2.csv", "9.csv"] {
        let place = parts([("1.csv", &csv(1, 3)), ("3.csv", &csv(4, 6)), (bad, BAD)]);
        let server = Server::good();
        let done = run(&place, &server, []).done();
        done.exits(2)
            .says(&format!("error: no column for `name`, for `email` or `phone`, for `ip` and for `user_agent` in `parts/{bad}`"))
            .says("3 files: failed 1, finished 2")
            .says("scored/rescore.ledger; the same command continues from there");
        assert_eq!(server.calls(), 6);
        assert_eq!(names(&place, "scored"), ["1.csv", "3.csv"]);
        // Once it is fixed, the same command scores it alone.
        place.write(&format!("parts/{bad}"), csv(7, 8));
        run(&place, &server, []).done().exits(0).says("skipped 2");
        assert_eq!(server.calls(), 8);
    }
}

#[test]
fn failed_rows_are_retried_while_a_part_stays_bad() {
    let place = parts([("1.csv", &csv(1, 3)), ("2.csv", BAD)]);
    let server = Server::start(|request| {
        if request.name() == "User 2" && request.attempt == 1 {
            return status(422);
        }
        good(request)
    });
    let next = |more: &str| run(&place, &server, []).args(more).done();
    next("").exits(2);
    // The same command sends nothing again.
    next("").exits(2).says("skipped 1");
    assert_eq!(server.calls(), 3);
    next("--retry-failed").exits(2);
    assert_eq!(server.calls(), 4);
    assert_eq!(names(&place, "scored"), ["1.csv"]);
    assert_eq!(place.text("scored/1.csv"), users::scored(&csv(1, 3)));
    place.write("parts/2.csv", csv(4, 5));
    next("").exits(0);
    assert_eq!(server.calls(), 6);
}

#[test]
fn a_failed_row_that_is_also_in_a_part_that_is_fixed_is_not_sent_again() {
    let place = parts([("1.csv", &csv(1, 3)), ("2.csv", BAD)]);
    let server = Server::start(|request| match &*request.name() {
        "User 2" => status(422),
        _ => good(request),
    });
    run(&place, &server, []).done().exits(2);
    place.write("parts/2.csv", csv(2, 4));
    run(&place, &server, []).done().exits(1);
    assert_eq!(server.calls(), 4);
}

#[test]
fn with_fail_fast_nothing_is_sent_if_a_part_is_bad() {
    let place = parts([("1.csv", &csv(1, 3)), ("2.csv", BAD)]);
    let server = Server::good();
    run(&place, &server, ["--fail-fast"])
        .done()
        .exits(2)
        .says("in `parts/2.csv`");
    assert_eq!(server.calls(), 0);
    assert_eq!(place.names(), ["parts"]);
}

/// A part whose last row is too long for `--max-record-bytes 1024`, and is found only behind many others.
fn broken(from: usize, to: usize) -> String {
    csv(from, to) + &format!("9,{},x@example.com,192.0.2.1,u\n", "x".repeat(2_000))
}

#[test]
fn a_part_that_breaks_in_the_middle_keeps_its_rows_and_the_next_one_goes_on() {
    let (one, rest) = (broken(1, 2_000), csv(2_001, 2_003));
    let place = parts([("1.csv", &one), ("2.csv", &rest)]);
    let server = Server::good();
    let args = ["--max-record-bytes", "1024"];
    let done = run(&place, &server, args).done();
    done.exits(2)
        .says("partial 1, finished 1")
        .says("a record in `parts/1.csv` at line 2002 is larger than 1K")
        .says("  1.csv: stopped after 1,");
    assert!(server.calls() < 2_003);
    assert_eq!(names(&place, "scored"), ["1.csv.partial", "2.csv"]);
    let (all, partial) = (
        users::scored(&csv(1, 2_000)),
        place.text("scored/1.csv.partial"),
    );
    assert!(all.starts_with(&partial) && partial.lines().count() > 1_000);
    place.write("parts/1.csv", csv(1, 2_000));
    run(&place, &server, args).done().exits(0);
    assert_eq!(server.calls(), 2_003);
    assert_eq!(place.text("scored/1.csv"), users::scored(&csv(1, 2_000)));
}

#[test]
fn with_fail_fast_a_part_that_breaks_in_the_middle_stops_the_run() {
    let place = parts([("1.csv", &broken(1, 2_000)), ("2.csv", &csv(2_001, 2_003))]);
    let server = Server::good();
    let args = ["--max-record-bytes", "1024", "--fail-fast"];
    let done = run(&place, &server, args).done();
    done.exits(2)
        .says("stopped early (the input is invalid)")
        .says("left 1");
    assert!(server.calls() <= 2_000);
    assert!(!names(&place, "scored").contains(&"2.csv".to_owned()));
}
