//! A service that answers with a bare 503 to calls beyond its limit, as nginx does by default: the run slows down, and does
//! not take the service to be down.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::support::process::Place;
use crate::support::server::{Action, Request, Server, good, status};
use crate::support::users;

/// How long an answer takes.
const LATENCY: Duration = Duration::from_millis(60);

/// Works on so many calls at a time, and answers the others with a bare 503.
fn at_most(calls: usize) -> impl Fn(&Request) -> Action + Send + Sync + 'static {
    let busy_until = Mutex::new(Vec::new());
    move |request| {
        let mut busy_until = busy_until.lock().unwrap();
        let now = Instant::now();
        busy_until.retain(|until| *until > now);
        if busy_until.len() >= calls {
            return status(503);
        }
        busy_until.push(now + LATENCY);
        good(request).after(LATENCY)
    }
}

#[test]
fn a_bare_503_to_calls_beyond_a_limit_slows_the_run_down_and_costs_no_row_its_verdict() {
    const ROWS: usize = 300;
    let place = Place::with("users.csv", users::csv(ROWS));
    let server = Server::start(at_most(4));
    let flags = "--summary summary.json --progress plain";
    let done = place.run_at(server.url()).args(flags).done();
    done.exits(0)
        .says("paused: the service is busy, 1 s left")
        .says("paused for ")
        .silent_about("service down");
    assert_eq!(place.text("scored.csv"), users::scored(&users::csv(ROWS)));
    // Without a cut, each call beyond the limit would be refused: hundreds.
    let refused = server.calls() - ROWS;
    assert!((1..=60).contains(&refused), "{refused}");
    let calls = &place.json("summary.json")["calls"];
    assert_eq!(calls["throttled"], 0, "they use up attempts of their rows");
}

#[test]
fn rows_that_always_get_a_bare_503_among_answers_are_no_outage_at_the_end_of_the_file() {
    // Of the second file the last row is such a row as well: nothing is accepted after it.
    for rows in [400, 307] {
        let csv = users::csv(rows);
        let place = Place::with("users.csv", &csv);
        let server = Server::start(|request: &Request| {
            let name = request.name();
            let number: Option<usize> = name
                .strip_prefix("User ")
                .and_then(|number| number.parse().ok());
            match number {
                Some(number) if number < 310 && number % 20 == 7 => status(503),
                _ => good(request),
            }
        });
        let flags = "--rate 200 --max-wait 30s";
        let done = place.run_at(server.url()).args(flags).done();
        done.exits(1)
            .says("server_error 16")
            .silent_about("service down");
    }
}
