//! After a signal the same command continues, writes the bytes of an undisturbed run, and pays for nothing twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use insta::assert_snapshot;

use crate::support::process::Place;
use crate::support::server::{Server, answer, good, status};
use crate::support::shown::shown;
use crate::support::users;

/// Runs the same command to its end, and checks how many calls there were in all.
fn goes_on(place: &Place, server: &Server, csv: &str, calls: usize) {
    let done = place.score(server, "-c 4");
    done.exits(0).says("taken from the ledger");
    let said = format!("{calls} calls in all and not {}", server.calls());
    done.check(server.calls() == calls, &said);
    assert_eq!(place.text("scored.csv"), users::scored(csv));
    assert_eq!(place.names(), ["rescore.ledger", "scored.csv", "users.csv"]);
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
        running
            .done()
            .exits([130, 143][stops % 2])
            .says("the same command continues from there");
        assert_eq!(server.calls(), before + ANSWERED + IN_FLIGHT);
    }
    goes_on(&place, &server, &csv, ROWS);
}

#[test]
fn interrupted_twice_a_run_loses_what_is_in_flight_and_continues() {
    let csv = users::csv(40);
    let (server, release) = Server::holding(12);
    let place = Place::with("users.csv", &csv);
    let running = place.run(&server, "users.csv -o scored.csv -c 4").start();
    server.wait_for_calls(16);
    // What is in the file is durable.
    running.wait_for_file("scored.csv.partial", |partial| {
        partial.split(|byte| *byte == b'\n').count() == 14
    });
    running.signal("INT");
    running.wait_for_words("interrupted: waiting up to 30 s for 4 calls in flight (Ctrl-C again stops immediately and loses their answers)");
    running.signal("INT");
    let done = running.done();
    done.exits(130);
    assert_snapshot!(shown(&done, &server), @r"
    rescore: sending users.csv to http://SERVER/v1/validate/user; up to 4 calls at a time, no rate limit
             name ← `name`, email ← `email`, phone not sent, ip ← `ip`, user_agent ← `user_agent`
    rescore: a new ledger, `rescore.ledger`: nothing is paid for yet
    MOMENT rescore: interrupted: waiting up to 30 s for 4 calls in flight (Ctrl-C again stops immediately and loses their answers)
    rescore: stopped immediately
             `rescore.ledger` has the paid answers that reached the disk; the same command continues from there
    ");
    assert_eq!(
        place.text("scored.csv.partial"),
        users::scored(&users::csv(12))
    );
    drop(release);
    goes_on(&place, &server, &csv, 40 + 4);
}

#[test]
fn a_run_that_is_terminated_during_a_back_off_continues() {
    let csv = users::csv(10);
    let place = Place::with("users.csv", &csv);
    // Users 7 and 8 fail, until the run is over.
    let well = Arc::new(AtomicBool::new(false));
    let is_well = Arc::clone(&well);
    let server = Server::start(move |request| {
        let is_sick = !is_well.load(Relaxed);
        if is_sick && ["User 7", "User 8"].contains(&&*request.name()) {
            return status(503);
        }
        good(request)
    });
    let running = place
        .run(&server, "users.csv -o scored.csv -c 4 --retries 15")
        .start();
    // Both were tried three times: the next attempt is at least a second away.
    server.wait_for_calls(8 + 2 * 3);
    running.signal("TERM");
    let signalled = Instant::now();
    let done = running.done();
    done.check(
        signalled.elapsed() < Duration::from_secs(3),
        "no back-off is waited for",
    );
    done.exits(143)
        .says("rescore.ledger; the same command continues from there");
    let left = |name: &str| ["User 7", "User 8"].contains(&name);
    let all = users::scored(&csv);
    let rows: String = all
        .lines()
        .filter(|line| !line.split(',').nth(1).is_some_and(left))
        .map(|line| format!("{line}\n"))
        .collect();
    assert_eq!(place.text("scored.csv.partial"), rows);
    well.store(true, Relaxed);
    let calls = server.calls();
    goes_on(&place, &server, &csv, calls + 2);
}

#[test]
fn a_run_that_is_interrupted_while_the_service_asks_for_a_pause_continues() {
    let csv = users::csv(50);
    for signals in [&["INT"][..], &["TERM"], &["INT", "INT"]] {
        let place = Place::with("users.csv", &csv);
        let over = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&over);
        let server = Server::start(move |request| {
            if request.nth > 20 && !is_over.load(Relaxed) {
                return answer(429, &[("retry-after", "600")], "");
            }
            good(request)
        });
        let running = place.run(&server, "users.csv -o scored.csv -c 4").start();
        running.wait_for_words("paused");
        for signal in signals {
            running.signal(signal);
        }
        running
            .done()
            .exits(if signals[0] == "INT" { 130 } else { 143 });
        over.store(true, Relaxed);
        let refused = server.calls() - 20;
        assert!(refused <= 4, "{refused}");
        let done = place.score(&server, "-c 4");
        done.exits(0);
        // Refused calls were not billed. After a second signal, answers that were not on disk yet may be lost.
        let billed = server.calls() - refused;
        let lost = if signals.len() == 2 { 2 * 4 } else { 0 };
        done.check(
            (50..=50 + lost).contains(&billed),
            &format!("{billed} billed"),
        );
        assert_eq!(place.text("scored.csv"), users::scored(&csv));
        assert_eq!(place.names(), ["rescore.ledger", "scored.csv", "users.csv"]);
    }
}

#[test]
fn interrupted_before_its_first_verdict_a_run_continues() {
    let csv = users::csv(5);
    let (server, release) = Server::holding(0);
    let place = Place::with("users.csv", &csv);
    let running = place.scoring(&server).start();
    server.wait_for_calls(1);
    running.signal("INT");
    running.wait_for_words("interrupted");
    running.signal("INT");
    running.done().exits(130);
    drop(release);
    place.score(&server, "").exits(0);
    assert_eq!(server.calls(), 1 + 5);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
    assert_eq!(place.names(), ["rescore.ledger", "scored.csv", "users.csv"]);
}

#[test]
fn a_stop_while_equal_rows_wait_for_one_answer_leaves_them_all_or_none() {
    let csv = "id,name,email,ip,user_agent\n".to_owned()
        + &["A", "B", "B", "B", "C"]
            .map(|name| format!("1,{name},{name}@example.com,::1,u\n"))
            .concat();
    let place = Place::with("users.csv", &csv);
    let (server, release) =
        Server::holding_if(|request| request.name() == "B" && request.attempt == 1);
    let running = place.scoring(&server).start();
    server.wait_for_calls(3);
    running.signal("INT");
    running.wait_for_words("interrupted");
    drop(release);
    running.done().exits(130);
    assert_eq!(place.text("scored.csv.partial"), users::scored(&csv));
    goes_on(&place, &server, &csv, 3);
}

#[test]
fn calls_in_flight_when_no_more_are_allowed_are_finished_and_kept_so_that_each_run_comes_further() {
    const ROWS: usize = 15;
    let csv = users::csv(ROWS);
    let place = Place::with("users.csv", &csv);
    // Each run's first call is answered immediately, so that the other four go out together.
    let server = Server::start(|request| match request.nth % 5 {
        1 => good(request),
        _ => good(request).after(Duration::from_millis(500)),
    });
    for calls in [5, 10] {
        let most = format!("-c 8 --timeout 5s --max-calls {calls}");
        let done = place.score(&server, most.as_str());
        done.exits(5)
            .says("`--max-calls` is reached: waiting up to 5 s for 4 calls in flight\n")
            .says("the same command continues from there");
        assert_eq!(server.calls(), calls);
    }
    goes_on(&place, &server, &csv, ROWS);
}

#[test]
fn a_call_that_is_never_answered_holds_up_a_stop_no_longer_than_its_own_timeout() {
    let (server, release) = Server::holding(3);
    let csv = users::csv(9);
    let place = Place::with("users.csv", &csv);
    let args = "users.csv -o scored.csv -c 4 --timeout 1s";
    let running = place.run(&server, args).start();
    server.wait_for_calls(7);
    running.signal("INT");
    let done = running.done();
    done.exits(130)
        .says("up to 1 s for 4 calls in flight (Ctrl-C again")
        .says("4 calls may have been billed without an answer")
        .says("the same command continues");
    drop(release);
    goes_on(&place, &server, &csv, 9 + 4);
}

#[test]
fn after_a_stop_the_ledger_alone_has_every_answer() {
    // More rows than are read ahead, so that the reader is still busy when the run stops.
    let place = Place::with("users.csv", users::csv(20_000));
    let run = |most| {
        let run = place.rescore("run users.csv -o scored.csv --sandbox --max-calls");
        run.arg(format!("{most}")).done()
    };
    run(20).exits(5);
    for start in 2..=20 {
        run(20 * start).exits(5).says(&format!(
            "`rescore-sandbox.ledger` has {} answers for this run",
            20 * (start - 1)
        ));
        let left = ["rescore-sandbox.ledger", "scored.csv.partial", "users.csv"];
        assert_eq!(place.names(), left);
    }
}
