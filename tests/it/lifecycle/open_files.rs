//! How many files may be open: fewer calls are made at a time, or none where there are too few for one.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use crate::support::process::{KEY, Place};
use crate::support::server::{Server, good};
use crate::support::users;

/// Runs a command with a limit on open files.
fn with_files(place: &Place, limit: &str) -> &'static [&'static str] {
    place.write("few-files.sh", format!("ulimit {limit}\nexec \"$@\"\n"));
    &["sh", "few-files.sh"]
}

/// Counts the calls in flight.
fn crowded() -> (Server, Arc<AtomicUsize>) {
    let (now, most) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    let seen = Arc::clone(&most);
    let server = Server::start(move |request| {
        seen.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        thread::sleep(Duration::from_millis(5));
        now.fetch_sub(1, Ordering::SeqCst);
        good(request)
    });
    (server, most)
}

#[test]
fn if_few_files_may_be_open_fewer_calls_are_in_flight_and_a_warning_says_so() {
    let csv = users::csv(90);
    for (limit, room) in [("64", 8), ("49", 1), ("26", 1)] {
        let (server, most) = crowded();
        let place = Place::with("users.csv", &csv);
        let under = with_files(&place, &format!("-n {limit}"));
        let args = "users.csv -o scored.csv -c 200 -q";
        let done = place.run(&server, args).under(under).done();
        done.exits(0);
        let warning = format!(
            "warning: at most {room} calls in flight instead of 200: this process may open only {limit} files (`ulimit -n`)\n"
        );
        done.check(done.stderr == warning, "the warning and nothing else");
        assert_eq!(place.text("scored.csv"), users::scored(&csv));
        assert_eq!(server.calls(), 90);
        assert!(most.load(Ordering::SeqCst) <= room);
    }
}

#[test]
fn if_too_few_files_may_be_open_for_one_call_the_run_does_not_start_and_names_their_number() {
    let run = "run users.csv -o scored.csv";
    for (limit, more, needed) in [
        (4, &[][..], 24),
        (20, &[], 24),
        (23, &[], 24),
        (25, &["--changes", "c.csv", "--summary", "s.json"], 26),
        (24, &["--sandbox"], 30),
    ] {
        let place = Place::with("users.csv", users::csv(3));
        let server = Server::good();
        let program = place.rescore(run).env("RESCORE_API_KEY", KEY);
        let program = program
            .env("RESCORE_BASE_URL", server.url())
            .env("RESCORE_SERVICE_ID", "test")
            .under(with_files(&place, &format!("-n {limit}")));
        let done = more
            .iter()
            .fold(program, |program, arg| program.arg(*arg))
            .done();
        done.exits(2);
        let words = format!(
            "error: this process may open only {limit} files (`ulimit -n`), and {needed} are needed\n\nhint: raise the limit, as with `ulimit -n 1024`\n"
        );
        done.check(done.stderr == words, "the refusal and nothing else");
        let mut names = place.names();
        // The failure is in the summary.
        names.retain(|name| name != "s.json");
        assert_eq!(names, ["few-files.sh", "users.csv"]);
        assert_eq!(server.connections(), 0);
    }
}

#[test]
fn a_run_with_just_enough_open_files_succeeds() {
    let csv = users::csv(90);
    for (limit, more) in [
        (24, &[][..]),
        (26, &["--changes", "c.csv", "--summary", "s.json"]),
        (
            32,
            &["--changes", "c.csv", "--summary", "s.json", "--sandbox"],
        ),
    ] {
        let (place, server) = (Place::with("users.csv", &csv), Server::good());
        let under = with_files(&place, &format!("-n {limit}"));
        let program = place
            .rescore("run users.csv -o scored.csv -q")
            .env("RESCORE_API_KEY", KEY)
            .env("RESCORE_SERVICE_ID", "test")
            .env("RESCORE_BASE_URL", server.url());
        let done = more
            .iter()
            .fold(program, |program, arg| program.arg(*arg))
            .under(under)
            .done();
        done.exits(0);
        assert_eq!(place.text("scored.csv").lines().count(), 91);
    }
}

#[test]
fn without_a_given_concurrency_there_are_silently_as_many_calls_as_open_files_allow() {
    let csv = users::csv(90);
    let (server, most) = crowded();
    let place = Place::with("users.csv", &csv);
    let under = with_files(&place, "-n 64");
    let args = "users.csv -o scored.csv --progress off";
    let done = place.run(&server, args).under(under).done();
    done.exits(0)
        .says("up to 8 calls at a time, no rate limit")
        .silent_about("warning");
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
    assert!(most.load(Ordering::SeqCst) <= 8);
    // With enough open files, the maximum is the one in the help.
    let place = Place::with("users.csv", &csv);
    let under = with_files(&place, "-n 1072");
    let done = place.run(&server, args).under(under).done();
    done.exits(0)
        .says("up to 512 calls at a time, no rate limit");
}

#[test]
fn if_few_files_may_be_open_no_call_lacks_one() {
    // With a service this fast, many connections are opened that no call waits for any more.
    let csv = users::csv(3_000);
    let place = Place::with("users.csv", &csv);
    let under = with_files(&place, "-n 256");
    let args = "run users.csv -o scored.csv --sandbox";
    let done = place.rescore(args).under(under).done();
    done.exits(0)
        .says("up to 52 calls at a time, no rate limit")
        .silent_about("down")
        .silent_about("retries");
}

#[test]
fn a_limit_that_may_be_raised_is_raised_in_silence() {
    const TOGETHER: usize = 100;
    let csv = users::csv(1 + TOGETHER);
    // Only the first call is answered before all are there.
    let all = Barrier::new(TOGETHER);
    let server = Server::start(move |request| {
        if request.nth > 1 {
            all.wait();
        }
        good(request)
    });
    let place = Place::with("users.csv", &csv);
    let under = with_files(&place, "-Sn 64");
    let args = "users.csv -o scored.csv -c 100 -q";
    let done = place.run(&server, args).under(under).done();
    done.exits(0);
    done.check(done.stderr.is_empty(), "nothing to be said");
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
}
