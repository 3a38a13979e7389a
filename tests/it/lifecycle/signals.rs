//! Signals: calls in flight finish, whole rows stay, and the exit code tells which signal it was.

use std::io::{self, Write};
use std::time::Duration;

use crate::support::process::Place;
use crate::support::server::Server;
use crate::support::users;

#[test]
fn a_signal_lets_calls_in_flight_finish_and_keeps_whole_rows() {
    let csv = users::csv(50);
    for (signal, code, word) in [("INT", 130, "interrupted"), ("TERM", 143, "terminated")] {
        let (server, release) = Server::holding(3);
        let place = Place::with("users.csv", &csv);
        let running = place.run(&server, "users.csv -o scored.csv -c 4").start();
        server.wait_for_calls(7);
        running.signal(signal);
        running.wait_for_words(word);
        drop(release);
        let done = running.done();
        done.exits(code)
            .says("scored.csv.partial")
            .says("rescore.ledger; the same command continues");
        done.check(server.calls() == 7, "no call after the signal");
        assert_eq!(
            place.names(),
            ["rescore.ledger", "scored.csv.partial", "users.csv"]
        );
        assert_eq!(
            place.text("scored.csv.partial"),
            users::scored(&users::csv(7))
        );

        place
            .score(&server, "")
            .exits(0)
            .says("has 7 answers for this run");
        assert_eq!(server.calls(), 50);
        assert_eq!(place.names(), ["rescore.ledger", "scored.csv", "users.csv"]);
        assert_eq!(place.text("scored.csv"), users::scored(&csv));
    }
}

#[test]
fn a_second_signal_ends_the_run_immediately() {
    for more in ["", "--retry-failed"] {
        let (server, release) = Server::holding(3);
        let place = Place::with("users.csv", users::csv(50));
        let running = place.scoring(&server).args("-c 4").start();
        server.wait_for_calls(7);
        // A verdict is in the file some milliseconds later.
        running.wait_for_file("scored.csv.partial", |partial| {
            partial.split(|byte| *byte == b'\n').count() > 4
        });
        running.signal("INT");
        running.wait_for_words("interrupted");
        running.signal("INT");
        // No call is ever answered: only an immediate stop ends before the timeout of 30 s.
        let done = running.done();
        done.exits(130);
        done.check(done.took < Duration::from_secs(20), "immediately");
        assert_eq!(
            place.text("scored.csv.partial"),
            users::scored(&users::csv(3))
        );
        drop(release);
        // The calls that were given up may have been billed, and count towards a budget.
        let next = place.scoring(&server).args(more).args("--max-calls 7");
        next.done()
            .exits(5)
            .says("up to 8 calls, which may be billed twice");
        assert_eq!(server.calls(), 7, "{more}");
        place.score(&server, more).exits(0);
        assert_eq!(server.calls(), 7 + 47);
    }
}

#[test]
fn two_sigterms_at_once_are_one_as_timeout_sends_them() {
    let (server, release) = Server::holding(3);
    let place = Place::with("users.csv", users::csv(50));
    let running = place.run(&server, "users.csv -o scored.csv -c 4").start();
    server.wait_for_calls(7);
    running.signal("TERM");
    running.signal("TERM");
    running.wait_for_words("terminated");
    drop(release);
    running
        .done()
        .exits(143)
        .says("rescore.ledger; the same command continues");
}

#[test]
fn rows_after_one_that_is_lost_are_kept_in_order() {
    // User 2 is never answered; later users are.
    let (server, release) = Server::holding_if(|request| request.name() == "User 2");
    let csv = users::csv(6);
    let place = Place::with("users.csv", &csv);
    let running = place.run(&server, "users.csv -o scored.csv -c 2").start();
    server.wait_for_calls(6);
    running.signal("INT");
    running.wait_for_words("interrupted");
    running.signal("INT");
    running.done().exits(130);
    let partial = place.text("scored.csv.partial");
    let all = users::scored(&csv);
    let mut expected = all.lines().filter(|line| !line.contains(",User 2,"));
    // An answer may have come too late to be read.
    for line in partial.lines() {
        assert!(
            expected.any(|expected| expected == line),
            "{line} in {partial}"
        );
    }
    drop(release);
}

#[test]
fn a_signal_while_a_producer_is_silent_ends_the_run_immediately() {
    let (reader, mut producer) = io::pipe().unwrap();
    let (place, server) = (Place::new(), Server::good());
    let running = place
        .run(&server, "-o scored.csv")
        .stdin_from(reader)
        .start();
    producer.write_all(users::csv(2).as_bytes()).unwrap();
    server.wait_for_calls(2);
    running.wait_for_file("scored.csv.partial", |_| true);
    running.signal("TERM");
    running.done().exits(143);
    assert_eq!(
        place.text("scored.csv.partial"),
        users::scored(&users::csv(2))
    );
    drop(producer);
}

#[test]
fn under_nohup_a_hang_up_changes_nothing() {
    let (server, release) = Server::holding(2);
    let place = Place::with("users.csv", users::csv(5));
    let running = place.scoring(&server).under(&["nohup"]).start();
    server.wait_for_calls(3);
    running.signal("HUP");
    drop(release);
    running.done().exits(0);
    assert_eq!(place.text("scored.csv"), users::scored(&users::csv(5)));
}

#[test]
fn a_dropped_connection_ends_a_run_in_order_although_two_signals_come() {
    let (server, release) = Server::holding(3);
    let csv = users::csv(9);
    let place = Place::with("users.csv", &csv);
    let running = place.run(&server, "users.csv -o scored.csv -c 4").start();
    server.wait_for_calls(7);
    // By the shell, and by the system.
    running.signal("HUP");
    running.wait_for_words("hung up: waiting up to 20 s for 4 calls in flight\n");
    running.signal("HUP");
    drop(release);
    running
        .done()
        .exits(129)
        .says("stopped early (hung up)")
        .says("rescore.ledger; the same command continues");
    assert_eq!(server.calls(), 7);
    place.score(&server, "").exits(0);
    assert_eq!(server.calls(), 9);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
}

#[test]
fn a_signal_before_the_header_is_there_ends_the_run_with_a_word() {
    for (signal, code, word) in [
        ("INT", 130, "interrupted"),
        ("TERM", 143, "terminated"),
        ("HUP", 129, "hung up"),
    ] {
        let (reader, producer) = io::pipe().unwrap();
        let (place, server) = (Place::new(), Server::good());
        let running = place
            .run(&server, "-o scored.csv")
            .stdin_from(reader)
            .start();
        running.wait_for_status("SigCgt:", |caught| {
            // Bit 14 is SIGTERM, bit 0 is SIGHUP, whose handler is installed last.
            u64::from_str_radix(caught, 16).unwrap() & 0x4001 == 0x4001
        });
        running.signal(signal);
        let done = running.done();
        done.exits(code)
            .says(&format!("error: {word}\n"))
            .says("nothing was sent: the signal came before the first call");
        assert_eq!(server.calls(), 0);
        // The name of the lock is in nobody's way.
        assert_eq!(place.names(), ["scored.csv.lock"]);
        drop(producer);
    }
}

#[test]
fn rows_to_a_stream_without_a_ledger_are_reported_as_all_that_stays() {
    let (server, release) = Server::holding(3);
    let place = Place::with("users.csv", users::csv(50));
    let args = "users.csv --no-ledger -c 4 --timeout 10s";
    let running = place.run(&server, args).start();
    server.wait_for_calls(7);
    running.signal("INT");
    running.wait_for_words("interrupted");
    drop(release);
    let done = running.done();
    done.exits(130).says(
        "no ledger keeps the 7 paid answers of this run: another run makes the same calls again",
    );
    assert_eq!(done.printed(), users::scored(&users::csv(7)));
    // With a ledger, or to a file, the message does not appear.
    let server = Server::good();
    for args in [
        &["-o", "-"][..],
        &["-o", "scored.csv"],
        &["--no-ledger", "-q"],
    ] {
        let run = place.run(&server, "users.csv").args(args);
        run.done().exits(0).silent_about("no ledger");
    }
}

#[test]
fn a_signal_while_nobody_reads_our_output_ends_the_run() {
    let (reader, writer) = io::pipe().unwrap();
    let server = Server::good();
    let place = Place::with("users.csv", users::csv(20_000));
    let running = place.run(&server, "users.csv -c 64").stdout(writer).start();
    // More than the pipe and the window hold together.
    server.wait_for_calls(2_000);
    running.signal("TERM");
    let done = running.done();
    done.exits(143).says("the output accepts no more rows");
    done.check(
        done.took < Duration::from_secs(50),
        "in time for a service manager",
    );
    drop(reader);
}
