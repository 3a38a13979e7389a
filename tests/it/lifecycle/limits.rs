//! Limits of a run and paths that it cannot use: never a call too many, and a clear message before the first one.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use crate::support::process::Place;
use crate::support::server::{Server, answer, good, ok, status};
use crate::support::users;

#[test]
fn max_calls_is_exact_with_many_in_flight_and_with_retries_and_then_the_same_command_continues() {
    let csv = users::csv(200);
    let place = Place::with("users.csv", &csv);
    // Every third call fails and is sent again soon.
    let server = Server::start(|request| {
        let answer = if request.nth % 3 == 0 && request.attempt == 1 {
            status(500)
        } else {
            good(request)
        };
        answer.after(Duration::from_millis(request.nth as u64 % 4))
    });
    // The budget is for all starts together.
    for most in [75, 75, 150, 225] {
        let most_calls = format!("--max-calls {most}");
        let done = place.score(&server, ["-c", "64", &most_calls.replace(' ', "=")]);
        done.exits(5)
            .says(&most_calls)
            .says("the same command continues from there");
        done.check(server.calls() == most, "as many calls as are allowed");
        let partial = place.text("scored.csv.partial");
        let whole = users::scored(&csv);
        let mut whole = whole.lines();
        let right = partial.lines().all(|line| whole.any(|right| right == line));
        done.check(right && partial.ends_with('\n'), "whole rows in order");
    }
    place.score(&server, "-c 64").exits(0);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
    // No user with an answer was asked again.
    let mut answered: Vec<_> = server
        .requests()
        .iter()
        .map(|request| request.attempt)
        .collect();
    answered.sort_unstable();
    assert!(answered.iter().filter(|attempt| **attempt == 1).count() == 200);
    assert!(*answered.last().unwrap() <= 2);
}

#[test]
fn as_many_calls_as_rows_are_enough() {
    let csv = users::csv(64);
    let (place, server) = (Place::with("users.csv", &csv), Server::good());
    place.score(&server, "-c 64 --max-calls 64").exits(0);
    assert_eq!(server.calls(), 64);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
}

#[test]
fn rows_that_are_known_or_can_ask_nothing_count_for_no_call() {
    let csv = users::csv(30) + "8,,nobody@example.com,192.0.2.1,u\n9,,nobody@example.com,no,u\n";
    let (place, server) = (Place::with("users.csv", &csv), Server::good());
    for (most, code) in [("10", 5), ("20", 5), ("30", 1)] {
        place.score(&server, ["--max-calls", most]).exits(code);
    }
    assert_eq!(server.calls(), 30);
    assert_eq!(
        place.text("scored.csv"),
        users::scored_without(&csv, str::is_empty)
    );
}

#[test]
fn too_many_failures_stop_the_run_with_their_reasons_and_it_continues_once_they_are_fixed() {
    let csv = users::csv(120);
    let wrong = |name: &str| csv.replace(&format!("{name},"), ",");
    let early = wrong("User 5")
        .replace("User 6,", ",")
        .replace("192.0.2.9,", "no,");
    // A percentage counts from the hundredth row on.
    let late = wrong("User 5").replace("192.0.2.110,", "no,");
    for (csv_now, limit, reasons) in [
        (early, "3", "missing_name 2, invalid_ip 1"),
        (late, "1.5%", "missing_name 1, invalid_ip 1"),
    ] {
        let (place, server) = (Place::with("users.csv", &csv_now), Server::good());
        let done = place.score(&server, ["-c", "2", "--max-failures", limit]);
        done.exits(5)
            .says(&format!("failed: `--max-failures {limit}` is reached"))
            .says(&format!("most frequent: {reasons}"))
            .says("hint: fix the rows that fail, start again once the service is well, or raise `--max-failures`")
            .says("the same command continues from there");
        let calls = server.calls();
        done.check(calls < 120, "it stops before the end");
        place.write("users.csv", &csv);
        place
            .score(&server, ["-c", "2", "--max-failures", limit])
            .exits(0);
        assert_eq!(place.text("scored.csv"), users::scored(&csv));
        assert_eq!(server.calls(), 120, "what was paid for is known");
    }
}

#[test]
fn what_a_bad_night_failed_on_does_not_stop_the_next_one_and_is_retried_in_the_end() {
    let csv = users::csv(400);
    for refusal in [403, 422] {
        let place = Place::with("users.csv", &csv);
        let is_well = Arc::new(AtomicBool::new(false));
        let well = Arc::clone(&is_well);
        let server = Server::start(move |request| match request.nth % 5 {
            0 if !well.load(Relaxed) => status(refusal),
            _ => good(request),
        });
        let night = "-c 2 --max-failures 5%";
        place
            .score(&server, night)
            .exits(5)
            .says("rows failed: `--max-failures 5%` is reached")
            .says("the same command continues from there")
            .silent_about("once rows are fixed");
        // Each start may fail up to the limit anew.
        let calls = server.calls();
        place
            .score(&server, night)
            .exits(5)
            .says("that failed before this start do not count");
        assert!(server.calls() > calls);

        let failed = server.calls() / 5;
        is_well.store(true, Relaxed);
        place
            .score(&server, night)
            .exits(1)
            .says(&format!("failed {failed}: "))
            .says("`--retry-failed` sends only the rows without a verdict");
        assert_eq!(server.calls(), 400, "nobody is asked about twice");
        place
            .score(&server, format!("{night} --retry-failed").as_str())
            .exits(0);
        assert_eq!(server.calls(), 400 + failed);
        assert_eq!(place.text("scored.csv"), users::scored(&csv));
    }
}

#[test]
fn a_run_that_stopped_before_its_first_answer_does_not_stop_the_next() {
    // The first rows cannot be sent, so that there are rows in the output and none in the ledger.
    let csv = "id,name,email,ip,user_agent\n0,,x@example.com,192.0.2.1,u\n".to_owned()
        + users::csv(3).split_once('\n').unwrap().1;
    let place = Place::with("users.csv", &csv);
    let server = Server::start(|request| match request.nth {
        1 => answer(429, &[("retry-after", "3600")], ""),
        _ => good(request),
    });
    place.score(&server, "").exits(3);
    assert_eq!(server.calls(), 1);
    place.score(&server, "").exits(1);
    assert_eq!(
        place.text("scored.csv"),
        users::scored_without(&csv, str::is_empty)
    );
    assert_eq!(server.calls(), 4);
}

#[test]
fn a_path_where_no_ledger_can_be_is_reported_before_the_first_call() {
    let csv = users::csv(3);
    let (place, server) = (Place::with("users.csv", &csv), Server::good());
    fs::create_dir(place.path("directory")).unwrap();
    for ledger in [
        "users.csv/x",
        "no/such/x",
        "directory",
        "users.csv",
        "scored.csv",
    ] {
        place
            .score(&server, ["--ledger", ledger])
            .exits(2)
            .says(ledger);
    }
    // What is in the way of the folder's.
    fs::create_dir(place.path("rescore.ledger")).unwrap();
    place.score(&server, "").exits(2).says("rescore.ledger");
    fs::remove_dir(place.path("rescore.ledger")).unwrap();
    // Nobody may write there, except root.
    let closed = place.path("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o500)).unwrap();
    if fs::write(closed.join("x"), "").is_err() {
        let run = place.run(&server, "users.csv -o closed/scored.csv");
        run.done().exits(2).says("permission denied");
    } else {
        println!("skipped: this user may write everywhere");
        fs::remove_file(closed.join("x")).unwrap();
    }
    assert_eq!(server.calls(), 0);
    assert_eq!(place.names(), ["closed", "directory", "users.csv"]);
    assert_eq!(place.text("users.csv"), csv);
}

#[test]
fn a_directory_that_is_removed_meanwhile_stops_the_run() {
    let csv = users::csv(200);
    let (server, release) = Server::holding(20);
    let place = Place::with("users.csv", &csv);
    fs::create_dir(place.path("out")).unwrap();
    let running = place
        .run(&server, "users.csv -o out/scored.csv -c 4")
        .start();
    server.wait_for_calls(24);
    fs::remove_dir_all(place.path("out")).unwrap();
    drop(release);
    let done = running.done();
    done.exits(3)
        .says("it was removed or moved while it was in use");
    let calls = server.calls();
    done.check(
        calls <= 24 + 2 * 4,
        &format!("no calls whose answers cannot be kept: {calls}"),
    );
    assert_eq!(place.names(), ["users.csv"]);

    fs::create_dir(place.path("out")).unwrap();
    place
        .run(&server, "users.csv -o out/scored.csv")
        .done()
        .exits(0);
    assert_eq!(place.text("out/scored.csv"), users::scored(&csv));
}

#[test]
fn without_a_ledger_equal_rows_are_asked_once_and_nothing_is_left_behind() {
    let row = |id: usize| format!("{id},User {0},u{0}@example.com,192.0.2.1,u\n", id % 7);
    let csv = "id,name,email,ip,user_agent\n".to_owned() + &(0..50).map(row).collect::<String>();
    let (place, server) = (Place::with("users.csv", &csv), Server::good());
    fs::create_dir(place.path("tmp")).unwrap();
    let left = || fs::read_dir(place.path("tmp")).unwrap().count();
    let run = |server| {
        place
            .run(server, "users.csv --no-ledger")
            .env("TMPDIR", place.path("tmp"))
    };
    let done = run(&server).done();
    done.exits(0)
        .says("43 rows reused the answer of an identical row");
    assert_eq!(done.printed(), users::scored(&csv));
    assert_eq!((server.calls(), left()), (7, 0));

    // Nor does a run that stops; not even one that is killed would.
    let (server, release) = Server::holding(3);
    let running = run(&server).start();
    server.wait_for_calls(4);
    assert_eq!(left(), 0);
    running.signal("TERM");
    running.wait_for_words("terminated");
    drop(release);
    running.done().exits(143);
    assert_eq!(
        (place.names(), left()),
        (vec!["tmp".to_owned(), "users.csv".to_owned()], 0)
    );
}

#[test]
fn a_run_to_standard_output_continues_too() {
    let csv = users::csv(30);
    let (place, server) = (Place::with("users.csv", &csv), Server::good());
    let run = || place.run(&server, "users.csv -c 1");
    let done = run().args("--max-calls 12").done();
    // Each start has the budget for itself.
    done.exits(5).says("answers are kept in rescore.ledger");
    done.silent_about("all starts").silent_about("is raised");
    let first = done.printed();
    assert_eq!(first, users::scored(&users::csv(12)));
    run().args("--max-calls 12").done().exits(5);
    assert_eq!(server.calls(), 24);
    let done = run().done();
    done.exits(0)
        .says("24 rows already paid for, taken from the ledger");
    assert_eq!(done.printed(), users::scored(&csv));
    assert_eq!(server.calls(), 30);
    assert_eq!(place.names(), ["rescore.ledger", "users.csv"]);
}

#[test]
fn without_a_ledger_the_next_run_refuses_what_was_paid_for() {
    let csv = users::csv(9);
    let (place, server) = (Place::with("users.csv", &csv), Server::good());
    place.score(&server, "--no-ledger --max-calls 4").exits(5);
    assert_eq!(place.names(), ["scored.csv.partial", "users.csv"]);
    for more in ["--no-ledger", ""] {
        place.score(&server, more).exits(2).says("is in the way");
    }
    assert_eq!(server.calls(), 4);
    place.score(&server, "--overwrite").exits(0);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
}

#[test]
fn an_answer_without_a_verdict_is_asked_for_again_only_when_told_to() {
    let csv = users::csv(6);
    let place = Place::with("users.csv", &csv);
    let server = Server::start(|request| match request.nth {
        4 => ok("{}"),
        _ => good(request),
    });
    place.score(&server, "-c 1").exits(1);
    place.score(&server, "-c 1 --overwrite").exits(1);
    assert_eq!(server.calls(), 6);
    let failed = |name: &str| name == "User 4";
    assert_eq!(
        place.text("scored.csv"),
        users::scored_without(&csv, failed)
    );
    place.score(&server, "-c 1 --retry-failed").exits(0);
    assert_eq!(server.calls(), 7);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
}
