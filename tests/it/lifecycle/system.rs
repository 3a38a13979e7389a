//! What a run asks of the system: open files, of which fewer mean fewer calls at a time, and memory.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use crate::support::process::Place;
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
    for (limit, concurrency, room) in [("64", "-c 200", 8), ("26", "-c 200", 1), ("64", "", 8)] {
        let (server, most) = crowded();
        let place = Place::with("users.csv", &csv);
        let under = with_files(&place, &format!("-n {limit}"));
        let program = place.scoring(&server).args("-q").args(concurrency);
        let done = program.under(under).exits(0);
        if concurrency.is_empty() {
            done.check(done.stderr.is_empty(), "nothing to be said");
        } else {
            done.says(&format!(
                "warning: at most {room} calls in flight instead of 200"
            ));
        }
        assert_eq!(place.text("scored.csv"), users::scored(&csv));
        assert_eq!(server.calls(), 90);
        assert!(most.load(Ordering::SeqCst) <= room);
    }
}

#[test]
fn if_few_files_may_be_open_no_call_lacks_one() {
    // With a service this fast, many connections are opened that no call waits for any more.
    let csv = users::csv(3_000);
    let place = Place::with("users.csv", &csv);
    let under = with_files(&place, "-n 256");
    let args = "run users.csv -o scored.csv --sandbox";
    let done = place.rescore(args).under(under).exits(0);
    done.says("up to 52 calls at a time, no rate limit")
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
    let done = place.run(&server, args).under(under).exits(0);
    done.check(done.stderr.is_empty(), "nothing to be said");
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
}

#[cfg(target_os = "linux")]
#[test]
fn a_run_takes_no_huge_pages_where_the_system_gives_them_unasked() {
    let (server, release) = Server::holding_if(|_| true);
    let place = Place::with("users.csv", users::csv(1));
    let running = place.scoring(&server).start();
    server.wait_for_calls(1);
    // Linux reports it since 5.0.
    let given = running.status("THP_enabled:");
    drop(release);
    running.exits(0);
    assert!(given.is_none_or(|given| given == "0"));
}
