//! What is refused before anything is made, and patterns.

use std::fs;

use super::{csv, names, parts, run};
use crate::support::process::Place;
use crate::support::server::{Server, status};
use crate::support::users;

#[test]
fn what_cannot_be_a_run_over_parts_is_refused_before_anything_is_made() {
    let place = parts([("a.csv", &csv(1, 2)), ("b.csv", &csv(3, 4))]);
    fs::create_dir(place.path("more")).unwrap();
    place.write("more/a.csv", csv(5, 6));
    place.write("parts/a.csv.gz", super::gzip(&csv(7, 8)));
    place.write("file", "");
    let server = Server::good();
    for (args, words) in [
        (
            "parts/a.csv parts/b.csv",
            "--output-dir scored` scores each of them",
        ),
        (
            "parts/a.csv more/a.csv --output-dir o",
            "`o/a.csv` would be written for `more/a.csv` and for `parts/a.csv`",
        ),
        (
            "parts/a.csv parts/a.csv.gz --output-dir o",
            "`o/a.rejects.csv` would be written for `parts/a.csv` and for `parts/a.csv.gz`",
        ),
        (
            "parts --output-dir o",
            "name its files, as in `parts/*.csv`",
        ),
        (
            "parts/*.tsv --output-dir o",
            "no file matches `parts/*.tsv`",
        ),
        (
            "parts/a.csv - --output-dir o",
            "`--output-dir` needs the names of the inputs",
        ),
        (
            "parts/a.csv --output-dir parts",
            "the output `parts/a.csv` would overwrite the input",
        ),
        (
            "parts/a.csv --output-dir no/where",
            "cannot write to `no/where`",
        ),
        ("parts/a.csv --output-dir file", "it is not a directory"),
        (
            "parts/a.csv --output-dir o --output x",
            "cannot be used with",
        ),
        (
            "parts/a.csv --output-dir o --changes x",
            "cannot be used with",
        ),
        (
            "parts/a.csv --output-dir o --limit 1",
            "cannot be used with",
        ),
        (
            "parts/a.csv --output-dir o --summary o/a.csv",
            "the output `o/a.csv` and the summary `o/a.csv` would be the same file",
        ),
    ] {
        let done = place.run(&server, "").args(args.split(' ')).done();
        done.exits(2).says(words);
        assert_eq!(place.names(), ["file", "more", "parts"], "{args}");
    }
    assert_eq!(server.calls(), 0);
}

#[test]
fn a_pattern_is_expanded_unless_a_file_has_that_name() {
    let place = parts([
        ("a[1].csv", &csv(1, 1)),
        ("a1.csv", &csv(2, 2)),
        (".b.csv", ""),
    ]);
    let server = Server::good();
    let args = "parts/a[1].csv --output-dir o";
    place.run(&server, args).done().exits(0);
    assert_eq!(names(&place, "o"), ["a[1].csv"]);
    run(&place, &server, []).done().exits(0);
    assert_eq!(names(&place, "scored"), ["a1.csv", "a[1].csv"]);
}

#[test]
fn a_file_that_is_named_twice_counts_once() {
    let place = Place::with("in.csv", csv(1, 2));
    let server = Server::good();
    let args = "in.csv in.csv ./in.csv --output-dir scored";
    place.run(&server, args).done().exits(0);
    assert_eq!(names(&place, "scored"), ["in.csv"]);
    let checked = place.rescore("check in.csv ./in.csv --json").done();
    assert_eq!(checked.json()["rows"]["read"], 2);
}

#[test]
fn a_link_to_a_directory_is_followed_and_the_ledger_is_in_the_real_one() {
    let place = parts([("1.csv", &csv(1, 2))]);
    fs::create_dir(place.path("real")).unwrap();
    std::os::unix::fs::symlink("real", place.path("scored")).unwrap();
    let server = Server::good();
    run(&place, &server, ["--max-calls", "1"]).done().exits(5);
    assert!(place.path("real/rescore.ledger").exists());
    run(&place, &server, []).done().exits(0);
    assert_eq!(place.text("real/1.csv"), users::scored(&csv(1, 2)));
}

#[test]
fn two_runs_to_one_directory_do_not_meet() {
    let place = parts([("1.csv", &csv(1, 4))]);
    let (server, release) = Server::holding(1);
    let running = run(&place, &server, ["-c", "1"]).start();
    server.wait_for_calls(2);
    let other = run(&place, &server, []).done();
    other.says("is writing `scored`");
    drop(release);
    running.done().exits(0);
    assert_eq!(server.calls(), 4);
}

#[test]
fn a_pipe_cannot_be_a_part() {
    let place = Place::with("1.csv", csv(1, 2));
    let server = Server::good();
    let args = "1.csv /dev/stdin --output-dir o";
    let done = place.run(&server, args).stdin(csv(3, 4)).done();
    done.exits(2).says("must be a regular file");
    assert_eq!(names(&place, "o"), ["1.csv"]);
}

#[test]
fn a_summary_does_not_replace_the_rejects_of_a_finished_part() {
    let place = parts([("1.csv", &csv(1, 2)), ("2.csv", "id\n1\n")]);
    let server = Server::start(|_| status(422));
    run(&place, &server, ["--keep-going"]).done().exits(2);
    let rejects = place.text("scored/1.rejects.csv");
    run(&place, &server, ["--summary", "scored/1.rejects.csv"])
        .done()
        .exits(2)
        .says("would be the same file");
    assert_eq!(place.text("scored/1.rejects.csv"), rejects);
}
