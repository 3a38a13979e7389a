//! What is refused before anything is made, and patterns.

use std::fs;

use super::{csv, names, parts, run};
use crate::support::server::Server;
use crate::support::users;

#[test]
fn what_cannot_be_a_run_over_parts_is_refused_before_anything_is_made() {
    let place = parts([("a.csv", &csv(1, 2)), ("b.csv", &csv(3, 4))]);
    fs::create_dir(place.path("more")).unwrap();
    place.write("more/a.csv", csv(5, 6));
    place.write("parts/a.csv.gz", users::gzip(csv(7, 8)));
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
    // A file that is named twice counts once.
    let args = "parts/a1.csv ./parts/a1.csv --output-dir twice";
    place.run(&server, args).done().exits(0);
    assert_eq!(names(&place, "twice"), ["a1.csv"]);
}

#[test]
fn a_link_to_a_directory_is_followed_and_it_is_one_runs_at_a_time() {
    let place = parts([("1.csv", &csv(1, 2))]);
    fs::create_dir(place.path("real")).unwrap();
    std::os::unix::fs::symlink("real", place.path("scored")).unwrap();
    let server = Server::good();
    let (holding, release) = Server::holding(1);
    let first = run(&place, &holding, ["-c", "1"]).start();
    holding.wait_for_calls(2);
    // Two runs to one directory do not meet.
    let other = run(&place, &server, []).done();
    other.exits(75).says("/real`\n");
    drop(release);
    first.done().exits(0);
    assert_eq!(server.calls(), 0);
    assert_eq!(place.text("real/1.csv"), users::scored(&csv(1, 2)));
}
