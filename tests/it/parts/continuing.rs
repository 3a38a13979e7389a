//! The same command: what is finished is not touched again, what cannot be used is named and stops no other file, and nothing
//! is paid for twice.

use std::collections::HashSet;
use std::fs::{self, File};
use std::time::{Duration, SystemTime};

use super::{asked, csv, names, parts, run};
use crate::support::server::Server;
use crate::support::users;

#[test]
fn finished_parts_are_skipped_without_a_call_or_a_write() {
    let place = parts([("1.csv", &csv(1, 3))]);
    let server = Server::good();
    run(&place, &server, []).exits(0);
    let written = fs::metadata(place.path("scored/1.csv")).unwrap();
    let done = run(&place, &server, []).exits(0);
    done.says("skipping 1 file that an earlier run has finished")
        .says("nothing to send");
    assert_eq!(server.calls(), 3);
    place.write("parts/2.csv", csv(4, 5));
    run(&place, &server, []).exits(0).says("skipped 1");
    assert_eq!(server.calls(), 5);
    let now = fs::metadata(place.path("scored/1.csv")).unwrap();
    assert_eq!(now.modified().unwrap(), written.modified().unwrap());
    assert_eq!(place.names(), ["parts", "rescore.ledger", "scored"]);
    // All are written again, from the ledger.
    run(&place, &server, ["--overwrite"]).exits(0);
    assert_eq!(server.calls(), 5);
}

#[test]
fn an_input_that_was_modified_after_its_output_is_an_error_of_its_own() {
    let place = parts([("1.csv", &csv(1, 3)), ("2.csv", &csv(4, 5))]);
    let server = Server::good();
    run(&place, &server, []).exits(0);
    let input = File::options()
        .write(true)
        .open(place.path("parts/1.csv"))
        .unwrap();
    let later = SystemTime::now() + Duration::from_secs(60);
    input.set_modified(later).unwrap();
    run(&place, &server, [])
        .exits(2)
        .says("`scored/1.csv` is older than its input")
        .says("failed 1, skipped 1");
    fs::remove_file(place.path("scored/1.csv")).unwrap();
    run(&place, &server, []).exits(0);
    assert_eq!(place.text("scored/1.csv"), users::scored(&csv(1, 3)));
}

#[test]
fn a_run_that_is_killed_in_its_second_part_continues_and_pays_for_nobody_twice() {
    let all = [csv(1, 5), csv(6, 60), csv(61, 65)];
    let place = parts([("1.csv", &all[0]), ("2.csv", &all[1]), ("3.csv", &all[2])]);
    let (server, release) = Server::holding(20);
    let running = run(&place, &server, ["-c", "4"]).start();
    running.wait_for_file("scored/2.csv.partial", |partial| {
        partial.split(|byte| *byte == b'\n').count() > 10
    });
    running.kill_when(|| server.calls() >= 24);
    drop(release);
    assert_eq!(
        names(&place, "scored"),
        ["1.csv", "2.csv.partial", "2.rejects.csv.partial"]
    );
    run(&place, &server, []).exits(0).says("skipped 1");
    for (part, all) in (1..).zip(&all) {
        assert_eq!(
            place.text(&format!("scored/{part}.csv")),
            users::scored(all)
        );
    }
    let asked = asked(&server);
    let users: HashSet<_> = asked.iter().collect();
    assert_eq!(users.len(), 65);
    // Those in flight at the kill, and answers that were not durable yet: twice the calls in flight at most.
    assert!(asked.len() <= 65 + 8, "{}", asked.len());
    assert_eq!(names(&place, "scored"), ["1.csv", "2.csv", "3.csv"]);
}

#[test]
fn a_run_that_was_killed_between_two_names_writes_both_files_again() {
    let bad = csv(1, 2) + "3,,x@example.com,192.0.2.1,u\n";
    let place = parts([("1.csv", &bad), ("2.csv", "id\n1\n")]);
    let server = Server::good();
    run(&place, &server, []).exits(2);
    // As it is after a kill at that moment.
    let (rejects, partial) = ("scored/1.rejects.csv", "scored/1.rejects.csv.partial");
    let content = place.text(rejects);
    fs::rename(place.path(rejects), place.path(partial)).unwrap();
    run(&place, &server, []).exits(2);
    assert_eq!(server.calls(), 2);
    assert_eq!(place.text(rejects), content);
    assert_eq!(names(&place, "scored"), ["1.csv", "1.rejects.csv"]);
}

const BAD: &str = "colour,size\nred,9\n";

#[test]
fn a_bad_part_stops_no_other_wherever_it_is() {
    for bad in ["0.csv", "2.csv", "9.csv"] {
        let place = parts([("1.csv", &csv(1, 3)), ("3.csv", &csv(4, 6)), (bad, BAD)]);
        let server = Server::good();
        let done = run(&place, &server, []).exits(2);
        done.says(&format!("in `parts/{bad}`"))
            .says("3 files: failed 1, finished 2");
        assert_eq!(server.calls(), 6);
        assert_eq!(names(&place, "scored"), ["1.csv", "3.csv"]);
        // Once it is fixed, the same command scores it alone.
        place.write(&format!("parts/{bad}"), csv(7, 8));
        run(&place, &server, []).exits(0).says("skipped 2");
        assert_eq!(server.calls(), 8);
    }
}

#[test]
fn a_part_that_breaks_in_the_middle_costs_nothing_and_the_next_one_goes_on() {
    let (one, rest) = (
        csv(1, 2_000) + "9,\"x,x@example.com,192.0.2.1,u\n",
        csv(2_001, 2_003),
    );
    let place = parts([("1.csv", &one), ("2.csv", &rest)]);
    let server = Server::good();
    let done = run(&place, &server, []).exits(2);
    done.says("failed 1, finished 1");
    assert_eq!(server.calls(), 3);
    assert_eq!(names(&place, "scored"), ["2.csv"]);
    place.write("parts/1.csv", csv(1, 2_000));
    run(&place, &server, []).exits(0);
    assert_eq!(server.calls(), 2_003);
    assert_eq!(place.text("scored/1.csv"), users::scored(&csv(1, 2_000)));
}
