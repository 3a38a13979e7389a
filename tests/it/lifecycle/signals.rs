//! Signals: calls in flight finish, whole rows stay, the exit code tells which signal it was, and the same command continues
//! and pays for nothing twice.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use crate::support::process::Place;
use crate::support::server::{Server, good};
use crate::support::users;

#[test]
fn a_signal_lets_calls_in_flight_finish_and_keeps_whole_rows() {
    let csv = users::csv(50);
    // A terminal and a script that forwards signals send two at the same time, as `timeout` does.
    for (signals, codes) in [
        (["INT", "INT"], &[130][..]),
        (["TERM", "TERM"], &[143]),
        (["INT", "TERM"], &[130, 143]),
    ] {
        let (server, release) = Server::holding(3);
        let place = Place::with("users.csv", &csv);
        let running = place.scoring(&server).args("-c 4").start();
        server.wait_for_calls(7);
        // Both wait for it, however slow the machine is.
        let [first, second] = signals;
        for signal in ["STOP", first, second, "CONT"] {
            running.signal(signal);
        }
        running.wait_for_words(" 4 calls in flight");
        drop(release);
        let done = running.done();
        done.exits_with_one_of(codes).says("scored.csv.partial");
        done.check(server.calls() == 7, "no call after the signal");
        let partial = place.text("scored.csv.partial");
        assert_eq!(partial, users::scored(&users::csv(7)));
        assert!(!place.path("scored.csv").exists());
        place.score(&server, "").exits(0);
        assert_eq!(server.calls(), 50);
        assert_eq!(place.names(), ["rescore.ledger", "scored.csv", "users.csv"]);
        assert_eq!(place.text("scored.csv"), users::scored(&csv));
    }
}

#[test]
fn a_run_that_is_interrupted_again_and_again_pays_for_each_user_once() {
    const ROWS: usize = 120;
    const ANSWERED: usize = 5;
    const IN_FLIGHT: usize = 4;
    let csv = users::csv(ROWS);
    let answered = Arc::new(AtomicUsize::new(0));
    let may_answer = Arc::clone(&answered);
    let server = Server::start(move |request| {
        while request.nth > may_answer.load(Relaxed) {
            thread::sleep(Duration::from_millis(1));
        }
        good(request)
    });
    let place = Place::with("users.csv", &csv);
    for stops in 0..ROWS / (ANSWERED + IN_FLIGHT) {
        let before = server.calls();
        answered.store(before + ANSWERED, Relaxed);
        let running = place.run(&server, "users.csv -o scored.csv -c 4").start();
        server.wait_for_calls(before + ANSWERED + IN_FLIGHT);
        running.signal(["INT", "TERM"][stops % 2]);
        running.wait_for_words("s for 4 calls in flight");
        answered.store(usize::MAX, Relaxed);
        running.exits([130, 143][stops % 2]);
        assert_eq!(server.calls(), before + ANSWERED + IN_FLIGHT);
    }
    place.score(&server, "").exits(0);
    assert_eq!(server.calls(), ROWS);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
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
        // No call is ever answered: only an immediate stop ends before the timeout of 30 s.
        let done = running.signal_until_it_ends("INT");
        done.exits(130);
        done.check(done.took < Duration::from_secs(20), "immediately");
        assert_eq!(
            place.text("scored.csv.partial"),
            users::scored(&users::csv(3))
        );
        drop(release);
        // The calls that were given up may have been billed, and count towards a budget.
        let next = place.scoring(&server).args(more).args("--max-calls 7");
        next.exits(5).says("killed runs left ");
        assert_eq!(server.calls(), 7, "{more}");
        place.score(&server, more).exits(0);
        assert_eq!(server.calls(), 7 + 47);
    }
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
    running.exits(143);
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
    running.exits(0);
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
    running.exits(129).says("stopped early (hung up)");
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
            .run(&server, "-o scored.csv --summary s.json --metrics m.prom")
            .stdin_from(reader);
        let last_night = Place::with("users.csv", users::csv(1));
        last_night
            .score(&server, "--summary s.json --metrics m.prom")
            .exits(0);
        for name in ["s.json", "m.prom"] {
            place.write(name, last_night.read(name));
        }
        let running = running.start();
        running.wait_for_file("scored.csv.lock", |_| true);
        // For the header, which comes after the lock.
        running.wait_for_status("State:", |state| state.starts_with('S'));
        running.signal(signal);
        let done = running.exits(code);
        done.says(&format!("error: {word}\n"))
            .says("nothing was sent");
        assert_eq!(server.calls(), 1);
        assert_eq!(place.json("s.json")["exit_code"], code);
        let exit_code = format!("}} {code}\n");
        let metrics = place.text("m.prom");
        let line =
            { metrics.split_inclusive('\n') }.find(|line| line.starts_with("rescore_exit_code{"));
        done.check(
            line.is_some_and(|line| line.ends_with(&exit_code)),
            &metrics,
        );
        // The name of the lock is in nobody's way.
        assert_eq!(place.names(), ["m.prom", "s.json", "scored.csv.lock"]);
        drop(producer);
    }
}

#[test]
fn a_signal_while_nobody_reads_our_output_ends_the_run() {
    let (reader, writer) = io::pipe().unwrap();
    let server = Server::good();
    let place = Place::with("users.csv", users::csv(6_000));
    let running = place.run(&server, "users.csv -c 64").stdout(writer).start();
    // More than the pipe and the window hold together.
    server.wait_for_calls(2_000);
    running.signal("TERM");
    let done = running.exits(143);
    done.says("the output accepts no more rows");
    done.check(
        done.took < Duration::from_secs(50),
        "in time for a service manager",
    );
    drop(reader);
}

#[test]
fn a_stop_while_equal_rows_wait_for_one_answer_leaves_them_all_or_none() {
    let row = |name| format!("1,{name},{name}@example.com,::1,u\n");
    let rows = ["A", "B", "B", "B", "C"].map(row).concat();
    let csv = format!("id,name,email,ip,user_agent\n{rows}");
    let place = Place::with("users.csv", &csv);
    let (server, release) =
        Server::holding_if(|request| request.name() == "B" && request.attempt == 1);
    let running = place.scoring(&server).start();
    server.wait_for_calls(3);
    running.signal("INT");
    running.wait_for_words("interrupted");
    drop(release);
    running.exits(130);
    assert_eq!(place.text("scored.csv.partial"), users::scored(&csv));
    place.score(&server, "").exits(0);
    assert_eq!(server.calls(), 3);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
}

#[test]
fn a_run_that_waits_for_another_one_leaves_its_summary_alone() {
    let (server, release) = Server::holding(0);
    let place = Place::with("users.csv", users::csv(1));
    place.write("s.json", "{\"type\":\"summary\"}");
    let first = place.scoring(&server).start();
    server.wait_for_calls(1);
    let second = place
        .scoring(&server)
        .args("--wait-lock 10m --summary s.json")
        .start();
    second.wait_for_words("waiting up to");
    second.signal("TERM");
    second.exits(143);
    assert_eq!(place.text("s.json"), "{\"type\":\"summary\"}");
    drop(release);
    first.exits(0);
}

#[test]
fn a_pipe_without_a_reader_is_refused_as_a_summary() {
    let (place, server) = (Place::with("users.csv", users::csv(1)), Server::good());
    let made = std::process::Command::new("mkfifo")
        .arg(place.path("pipe"))
        .status();
    assert!(made.unwrap().success());
    let done = place.score(&server, "--summary pipe");
    done.exits(2)
        .says("cannot write `pipe`: no program reads it");
    assert_eq!(server.calls(), 0);
    let path = place.path("pipe");
    let reader = thread::spawn(move || std::fs::read_to_string(path).unwrap());
    // The reader may need a moment to open it.
    while place.score(&server, "--summary pipe").code() == Some(2) {
        thread::sleep(Duration::from_millis(10));
    }
    assert!(reader.join().unwrap().contains("\"summary\""));
}
