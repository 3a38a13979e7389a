//! Patterns, and a directory behind a link.

use std::fs;

use super::{csv, names, parts, run};
use crate::support::server::Server;
use crate::support::users;

#[test]
fn a_pattern_is_expanded_unless_a_file_has_that_name() {
    let place = parts([
        ("a[1].csv", &csv(1, 1)),
        ("a1.csv", &csv(2, 2)),
        (".b.csv", ""),
    ]);
    let server = Server::good();
    let args = "parts/a[1].csv --output-dir o";
    place.run(&server, args).exits(0);
    assert_eq!(names(&place, "o"), ["a[1].csv"]);
    run(&place, &server, []).exits(0);
    assert_eq!(names(&place, "scored"), ["a1.csv", "a[1].csv"]);
    // A file that is named twice counts once.
    let args = "parts/a1.csv ./parts/a1.csv --output-dir twice";
    place.run(&server, args).exits(0);
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
    let other = run(&place, &server, []).exits(75);
    other.says("/real`\n");
    drop(release);
    first.exits(0);
    assert_eq!(server.calls(), 0);
    assert_eq!(place.text("real/1.csv"), users::scored(&csv(1, 2)));
}
