//! A service that goes down or asks for long pauses during a run: the run waits for it and loses nothing, but does not
//! wait for ever.

use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use crate::support::process::{Done, Place};
use crate::support::server::{Action, Request, Server, answer, good, good_body, status};
use crate::support::users;

/// A run over so many rows.
fn run<const N: usize>(
    rows: usize,
    script: impl Fn(&Request) -> Action + Send + Sync + 'static,
    flags: [&str; N],
) -> (Place, Server, Done) {
    let place = Place::with("users.csv", users::csv(rows));
    let server = Server::start(script);
    let done = place.score(&server, flags);
    (place, server, done)
}

#[test]
fn a_service_that_comes_back_is_waited_for_and_costs_no_row_its_verdict() {
    // The service is away for ten requests from the 6th on. A call in flight beside the last of those is answered a little
    // later: otherwise its answer could come before theirs, and there would not be ten failures in a row.
    let script = |request: &Request| match request.nth {
        6..=15 => status(503),
        16..=18 => good(request).after(Duration::from_millis(500)),
        _ => good(request),
    };
    let (place, server, done) = run(60, script, ["-c", "1", "--max-wait", "1m"]);
    done.exits(0)
        .says("service down, next try in 5 s")
        .says("the service is back after")
        .says("the service was down once, for ");
    assert_eq!(place.text("scored.csv"), users::scored(&users::csv(60)));
    assert_eq!(server.calls(), 60 + 10);
}

#[test]
fn a_service_that_stays_away_stops_the_run_and_the_same_command_continues() {
    for broken in [502, 503, 504] {
        let script = move |request: &Request| match request.nth {
            6.. => status(broken),
            _ => good(request),
        };
        let flags = ["-c", "1", "--max-wait", "1s"];
        let (place, server, done) = run(50, script, flags);
        done.exits(3)
            .says("` has accepted no call for 1 s")
            .says(&format!("the last call: {broken}"))
            .says("`--max-wait` sets how long a run waits")
            .says("the same command continues from there");
        // Ten calls that show the outage, and one to see whether it is over.
        assert_eq!(server.calls(), 5 + 10 + 1);
        let partial = place.text("scored.csv.partial");
        assert!(partial.starts_with(&users::scored(&users::csv(5))));
        drop(server);

        let server = Server::start(good);
        place.score(&server, "-c 1").exits(0);
        assert_eq!(place.text("scored.csv"), users::scored(&users::csv(50)));
    }
}

/// An address that accepts one connection to the server; afterwards nobody listens there.
fn one_connection_to(server: &Server) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let inner = TcpStream::connect(server.url().strip_prefix("http://").unwrap()).unwrap();
    thread::spawn(move || {
        let (outer, _) = listener.accept().unwrap();
        drop(listener);
        let (mut from, mut to) = (outer.try_clone().unwrap(), inner.try_clone().unwrap());
        thread::spawn(move || io::copy(&mut from, &mut to));
        let _ = io::copy(&mut &inner, &mut &outer);
        let _ = outer.shutdown(Shutdown::Both);
    });
    url
}

#[test]
fn a_network_that_goes_and_stays_away_stops_the_run() {
    let place = Place::with("users.csv", users::csv(50));
    let server = Server::start(|request: &Request| match request.nth {
        5 => good(request).then_close(),
        _ => good(request),
    });
    let url = one_connection_to(&server);
    place
        .run_at(url)
        .args("--rate unlimited -c 1 --max-wait 1s")
        .done()
        .exits(3)
        .says("` has accepted no call for 1 s")
        .says("the last call: cannot connect: connection refused");
    assert_eq!(server.calls(), 5);
    // Only the network failed: the rows are left for the next run, not failed.
    assert_eq!(
        place
            .names()
            .iter()
            .filter(|name| name.contains("rejects"))
            .count(),
        0
    );
}

#[test]
fn a_pause_longer_than_the_limit_stops_the_run() {
    let script = |request: &Request| match request.nth {
        6.. => answer(429, &[("retry-after", "3")], ""),
        _ => good(request),
    };
    let (_, server, done) = run(50, script, ["-c", "1", "--max-wait", "2s"]);
    done.exits(3)
        .says("the service asks for a pause that is too long to wait for")
        .says("it asks to come back in 3 s, at ")
        .says("stopped early (the service refuses calls, or asks to wait, for longer than `--max-wait`)")
        .says("`--max-wait` sets how long a run waits");
    assert_eq!(server.calls(), 6);
}

#[test]
fn headers_with_the_remaining_quota_slow_a_run_down_before_anything_is_refused() {
    let script = |request: &Request| {
        let left = format!(r#""all";r={};t=4"#, 20 - request.nth);
        let headers = [
            ("content-type", "application/json"),
            ("ratelimit", left.as_str()),
        ];
        answer(200, &headers, &good_body(&request.name()))
    };
    let flags = ["-c", "2", "--progress", "plain"];
    let (place, _, done) = run(12, script, flags);
    done.exits(0).says("/s, as the service's headers ask");
    assert_eq!(place.text("scored.csv"), users::scored(&users::csv(12)));
}
