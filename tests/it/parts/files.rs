//! What is written, what is paid for, and how the run exits.

use std::io::Read as _;

use super::{asked, csv, gzip, names, parts, run};
use crate::support::process::Place;
use crate::support::server::{Server, good, status};
use crate::support::users;

#[test]
fn each_part_keeps_its_name_format_and_compression() {
    let place = parts([("b.csv", &csv(4, 6))]);
    place.write("parts/a.csv.gz", gzip(&csv(1, 3)));
    place.write("parts/c.jsonl", users::object("User 7") + "\n");
    let server = Server::good();
    run(&place, &server, []).done().exits(0);
    assert_eq!(server.calls(), 7);
    assert_eq!(names(&place, "scored"), ["a.csv.gz", "b.csv", "c.jsonl"]);
    let mut text = String::new();
    let packed = place.read("scored/a.csv.gz");
    flate2::read::GzDecoder::new(&packed[..])
        .read_to_string(&mut text)
        .unwrap();
    assert_eq!(text, users::scored(&csv(1, 3)));
    assert_eq!(place.text("scored/b.csv"), users::scored(&csv(4, 6)));
    let row = place.text("scored/c.jsonl");
    assert!(row.contains(&users::Verdict::of("User 7").id), "{row}");
    assert_eq!(place.names(), ["parts", "scored"]);
    assert!(place.path("scored/rescore.ledger").exists());
}

#[test]
fn parts_are_sent_in_the_order_of_their_names_and_the_same_user_is_paid_for_once() {
    let place = parts([("2.csv", &csv(3, 4)), ("1.csv", &csv(1, 3))]);
    let server = Server::good();
    run(&place, &server, ["-c", "1"]).done().exits(0);
    let asked = asked(&server);
    assert_eq!(asked, ["User 1", "User 2", "User 3", "User 4"]);
    assert_eq!(place.text("scored/1.csv"), users::scored(&csv(1, 3)));
    assert_eq!(place.text("scored/2.csv"), users::scored(&csv(3, 4)));
}

#[test]
fn rows_without_a_verdict_go_beside_their_output_and_are_retried_in_their_file() {
    let place = parts([("1.csv", &csv(1, 3)), ("2.csv", &csv(4, 6))]);
    let server = Server::start(|request| {
        if request.name() == "User 5" && request.attempt == 1 {
            return status(422);
        }
        good(request)
    });
    let done = run(&place, &server, []).done();
    done.exits(1)
        .says("2.csv: 3 rows")
        .says("see scored/2.rejects.csv")
        .says("`--retry-failed` sends only the rows without a verdict");
    assert_eq!(names(&place, "scored"), ["1.csv", "2.csv", "2.rejects.csv"]);
    // The same command finds nothing to do, and still says that a row has no verdict.
    run(&place, &server, []).done().exits(1).says("skipped 2");
    assert_eq!(server.calls(), 6);
    run(&place, &server, ["--retry-failed"]).done().exits(0);
    assert_eq!(server.calls(), 7);
    assert_eq!(names(&place, "scored"), ["1.csv", "2.csv"]);
    assert_eq!(place.text("scored/2.csv"), users::scored(&csv(4, 6)));
    assert_eq!(place.names(), ["parts", "scored"]);
}

#[test]
fn one_part_alone_may_have_a_directory() {
    let place = Place::with("users.csv", csv(1, 2));
    let server = Server::good();
    let args = "users.csv --output-dir scored/";
    place.run(&server, args).done().exits(0);
    assert_eq!(place.text("scored/users.csv"), users::scored(&csv(1, 2)));
    assert_eq!(place.names(), ["scored", "users.csv"]);
}

#[test]
fn a_budget_is_for_all_parts() {
    let place = parts([
        ("1.csv", &csv(1, 3)),
        ("2.csv", &csv(4, 6)),
        ("3.csv", &csv(7, 9)),
    ]);
    let server = Server::good();
    // Also for all starts together.
    for words in [
        "partial 1, left 1, finished 1",
        "partial 1, left 1, skipped 1",
    ] {
        run(&place, &server, ["--max-calls", "4"])
            .done()
            .exits(5)
            .says(words)
            .says("scored/rescore.ledger; once the limit is raised, the same command continues");
        assert_eq!(server.calls(), 4);
    }
    run(&place, &server, []).done().exits(0);
    assert_eq!(server.calls(), 9);
    assert_eq!(place.text("scored/2.csv"), users::scored(&csv(4, 6)));
}
