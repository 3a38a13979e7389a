//! The hours of a run: `--until` and `--max-time` end it in order, whatever it does or waits for, and the same command continues.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::support::process::{Done, Place};
use crate::support::server::{Server, answer, good, status};
use crate::support::users;

/// A flag that is not set, twice.
fn flag() -> (Arc<AtomicBool>, Arc<AtomicBool>) {
    let flag = Arc::new(AtomicBool::new(false));
    (Arc::clone(&flag), flag)
}

/// Ends a run while a call is in flight. Returns the place, and what it said.
fn ended_in_flight(hours: &str, timezone: &str) -> (Place, Done) {
    let csv = users::csv(30);
    let (server, release) = Server::holding(4);
    let place = Place::with("users.csv", &csv);
    let run = place.scoring(&server).args("-c 1 --summary s.json");
    let run = run.args(hours).env("TZ", timezone).start();
    run.wait_for_words("is reached: waiting up to 30 s for 1 call in flight");
    drop(release);
    let done = run.exits(5);
    done.says("the same command continues");
    // What was in flight has its answer, and nothing else was sent.
    assert_eq!(server.calls(), 5);
    let partial = place.text("scored.csv.partial");
    assert_eq!(partial, users::scored(&users::csv(5)));
    place.score(&server, "").exits(0);
    assert_eq!(server.calls(), 30);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
    (place, done)
}

#[test]
fn after_its_time_calls_in_flight_finish_and_the_same_command_continues() {
    let (place, done) = ended_in_flight("--max-time 2s", "UTC");
    done.says("`--max-time` is reached: 2 s");
    let summary = place.json("s.json");
    assert_eq!(
        (&summary["stopped"], &summary["exit_code"]),
        (&Value::from("max_time"), &Value::from(5))
    );
}

#[test]
fn at_its_time_of_day_too() {
    // In this zone it is three seconds before 06:00.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let ahead = (6 * 3_600 - 3 + 86_400 - now.as_secs() % 86_400) % 86_400;
    let (hours, minutes, seconds) = (ahead / 3_600, ahead / 60 % 60, ahead % 60);
    let zone = format!("TEST-{hours:02}:{minutes:02}:{seconds:02}");
    let (place, done) = ended_in_flight("--until 06:00", &zone);
    done.says("`--until` is reached: 06:00");
    assert_eq!(place.json("s.json")["stopped"], "until");
}

#[test]
fn a_pause_and_an_outage_end_with_the_hours() {
    let paused = || answer(429, &[("retry-after", "600")], "slow down");
    let csv = users::csv(40);
    for is_pause in [true, false] {
        let (is_well, well) = flag();
        let server = Server::start(move |request| match request.nth {
            4.. if !is_well.load(Relaxed) && is_pause => paused(),
            4.. if !is_well.load(Relaxed) => status(502),
            _ => good(request),
        });
        let place = Place::with("users.csv", &csv);
        let hours = "-c 1 --max-wait 1h --max-time 2s --summary s.json";
        place.score(&server, hours).exits(5);
        assert_eq!(place.json("s.json")["stopped"], "max_time");
        well.store(true, Relaxed);
        place.score(&server, "").exits(0);
        assert_eq!(place.text("scored.csv"), users::scored(&csv));
    }
    // Without calls, the output is complete all the same.
    let place = Place::with("users.csv", &csv);
    let server = Server::start(move |request| match request.nth {
        4.. => paused(),
        _ => good(request),
    });
    let finishes = "-c 1 --max-wait 1h --max-time 2s --at-limit finish --summary s.json";
    place.score(&server, finishes).exits(5);
    let summary = place.json("s.json");
    assert_eq!(summary["stopped"], Value::Null);
    assert_eq!(summary["limited"], "max_time");
    assert_eq!(summary["failed"]["reasons"]["limit"], 37);
    assert_eq!(place.text("scored.csv").lines().count(), 41);
}

#[test]
fn whatever_it_waits_for_before_its_first_call_nothing_is_sent() {
    let (place, server) = (Place::with("users.csv", users::csv(5)), Server::good());
    let told = |done: &Done| {
        done.says("`--max-time` is reached: 1 s")
            .says("nothing was sent");
        assert_eq!(server.calls(), 0);
    };
    // For a header that never comes.
    let (reader, producer) = io::pipe().unwrap();
    let run = place.run(&server, "- -o piped.csv --max-time 1s --summary s.json");
    told(&run.stdin_from(reader).exits(5));
    let summary = place.json("s.json");
    assert_eq!(summary["exit_code"], 5);
    drop(producer);
    // For another run.
    let (slow, release) = Server::holding(0);
    let other = place.scoring(&slow).start();
    slow.wait_for_calls(1);
    told(&place.score(&server, "--wait-lock 1h --max-time 1s"));
    drop(release);
    other.exits(0);
}

#[test]
fn rows_that_never_come_and_rows_that_another_run_asks_about_are_not_waited_for() {
    let (server, release) = Server::holding(0);
    let place = Place::with("users.csv", users::csv(1));
    place.write("settings.toml", "max-time = '2s'\n");
    let other = place.scoring(&server).start();
    server.wait_for_calls(1);
    let same = place.run(&server, "users.csv -o same.csv --config settings.toml");
    same.exits(5).says("`--max-time` is reached");
    let (reader, mut producer) = io::pipe().unwrap();
    io::Write::write_all(&mut producer, users::csv(3).as_bytes()).unwrap();
    let good = Server::good();
    let piped = place.run(&good, "- -o piped.csv --max-time 2s");
    piped.stdin_from(reader).exits(5);
    drop((producer, release));
    other.exits(0);
    assert_eq!(server.calls(), 1);
}

#[test]
fn a_sample_that_grows_and_several_files_end_as_well() {
    let place = Place::with("a.csv", users::csv(2_000));
    place.write("b.csv", users::csv(2_000));
    let server = Server::start(|request| good(request).after(Duration::from_millis(20)));
    for args in [
        "a.csv -o scored.csv --sample auto:±1%",
        "a.csv b.csv --output-dir scored",
    ] {
        let run = place.run(&server, args).args("-c 1 --max-time 2s");
        run.exits(5).says("`--max-time` is reached");
    }
    assert!(server.calls() < 1_000);
}
