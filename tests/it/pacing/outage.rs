//! A service that is down, goes down or gives no verdicts: the run stops early if no row has had a verdict yet, waits for it
//! later and loses nothing, but not for ever, and gets past rows that always fail.

use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use crate::support::process::{Done, Place};
use crate::support::server::{Action, Request, Server, answer, good, ok, silence, status};
use crate::support::users;

fn refused() -> Action {
    answer(400, &[], r#"{"message":"unknown version"}"#)
}

fn run(place: &Place, server: &Server, more: &str) -> Done {
    place.scoring(server).args("-c 1").args(more).done()
}

#[test]
fn a_service_that_comes_back_is_waited_for_and_costs_no_row_its_verdict() {
    // The service is away for ten requests from the 6th on. A call in flight beside the last of those is answered a little
    // later: otherwise its answer could come before theirs, and there would not be ten failures in a row.
    let server = Server::start(|request: &Request| match request.nth {
        6..=15 => status(503),
        16..=18 => good(request).after(Duration::from_millis(500)),
        _ => good(request),
    });
    let place = Place::with("users.csv", users::csv(60));
    let done = run(&place, &server, "--max-wait 1m");
    done.exits(0);
    assert_eq!(place.text("scored.csv"), users::scored(&users::csv(60)));
    assert_eq!(server.calls(), 60 + 10);
}

#[test]
fn a_service_that_stays_away_stops_the_run_and_the_same_command_continues() {
    let server = Server::start(|request: &Request| match request.nth {
        6.. => status(502),
        _ => good(request),
    });
    let place = Place::with("users.csv", users::csv(50));
    let done = run(&place, &server, "--max-wait 1s");
    done.exits(3).says("502");
    // Ten calls that show the outage, and one to see whether it is over.
    assert_eq!(server.calls(), 5 + 10 + 1);
    let partial = place.text("scored.csv.partial");
    assert!(partial.starts_with(&users::scored(&users::csv(5))));
    let server = Server::good();
    run(&place, &server, "").exits(0);
    assert_eq!(place.text("scored.csv"), users::scored(&users::csv(50)));
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
    let program = place.run_at(one_connection_to(&server));
    let program = program.args("--rate unlimited -c 1 --max-wait 1s");
    program.exits(3);
    assert_eq!(server.calls(), 5);
    // Only the network failed: the rows are left for the next run, not failed.
    let names = place.names();
    assert!(
        !names.iter().any(|name| name.contains("rejects")),
        "{names:?}"
    );
}

#[test]
fn a_service_that_fails_on_the_first_row_stops_the_run_which_names_the_row_and_logs_what_is_left() {
    let place = Place::with("users.csv", users::csv(9));
    let server = Server::start(|_| status(500));
    let done = run(&place, &server, "--retries 1 --log n.log");
    done.exits(3).says("row 1");
    assert_eq!(server.calls(), 2);
    let log = place.text("n.log");
    let end: serde_json::Value = serde_json::from_str(log.lines().last().unwrap()).unwrap();
    let rows = &end["data"]["rows"];
    let left = rows["read"].as_u64().unwrap() - rows["written"].as_u64().unwrap();
    assert!(left > 0 && rows["left"] == left, "{end}");
}

#[test]
fn a_service_that_refuses_everybody_is_sent_the_same_three_rows_by_each_run() {
    for action in [refused as fn() -> Action, || ok("{}")] {
        let place = Place::with("users.csv", users::csv(20));
        let server = Server::start(move |_| action());
        for calls in [3, 6, 9] {
            run(&place, &server, "").exits(3);
            assert_eq!(server.calls(), calls);
        }
        // What the run distrusts is not kept, so that a service that is repaired costs nobody a verdict.
        let names: Vec<_> = server.requests().iter().map(Request::name).collect();
        let expected = ["User 1", "User 2", "User 3"].repeat(3);
        assert_eq!(names, expected);
        run(&place, &server, "--keep-going").exits(1);
        assert_eq!(server.calls(), 9 + 20);
        assert_eq!(place.text("scored.rejects.csv").lines().count(), 21);
    }
}

#[test]
fn one_answer_that_is_not_json_is_enough_also_when_earlier_answers_are_known() {
    let csv = users::csv(10);
    let place = Place::with("users.csv", users::csv(5));
    let nights = Server::start(move |request| match request.nth {
        1..=5 => good(request),
        _ => ok("<html><body>502 from the proxy</body></html>"),
    });
    let shared = "--ledger answers.ledger --overwrite";
    run(&place, &nights, shared).exits(0);
    place.write("users.csv", &csv);
    run(&place, &nights, shared).exits(3);
    assert_eq!(nights.calls(), 6);
}

#[test]
fn a_nightly_run_gets_past_rows_that_the_service_always_refuses() {
    let csv = users::csv(6);
    let lines: Vec<_> = csv.lines().collect();
    let rows = |numbers: &[usize]| -> String {
        let rows = numbers.iter().map(|number| format!("{}\n", lines[*number]));
        rows.collect()
    };
    let server = Server::start(|request| match request.name().as_str() {
        "User 2" | "User 3" | "User 4" => refused(),
        _ => good(request),
    });
    let place = Place::with("users.csv", rows(&[0, 1, 2, 3, 4, 5]));
    let nightly = "--ledger answers.ledger --overwrite";
    run(&place, &server, nightly).exits(1);
    assert_eq!(server.calls(), 5);
    // The next night somebody is new, and those come first.
    place.write("users.csv", rows(&[0, 2, 3, 4, 1, 5, 6]));
    let night = run(&place, &server, nightly);
    night.exits(1);
    assert_eq!(server.calls(), 6, "nobody is sent twice");
    // Nor does it stop where they are sent again.
    let night = run(&place, &server, &format!("{nightly} --retry-failed"));
    night.exits(1);
    assert_eq!(server.calls(), 9);
    assert!(!place.text("scored.csv").trim_end().ends_with(",,,"));
}

/// What the service does, the arguments of the run, and what it says about the rows.
type Case = (fn() -> Action, &'static str, &'static str);

#[test]
fn equal_rows_of_a_request_that_failed_cost_no_further_call() {
    let equal = |n: usize| format!("{n},Twin,twin@example.com,192.0.2.1,curl/8\n");
    let csv = users::csv(1) + &(2..62).map(equal).collect::<String>();
    let cases: [Case; 3] = [
        (|| ok(r#"{"transaction_id":"t"}"#), "", "bad_answer 60"),
        (refused, "--no-ledger", "refused 60"),
        (
            || silence().then_reset(),
            "--resend-unknown 0",
            "no_answer 60",
        ),
    ];
    for (action, args, failed) in cases {
        let place = Place::with("users.csv", &csv);
        let server = Server::start(move |request| match &*request.name() {
            "Twin" => action(),
            _ => good(request),
        });
        run(&place, &server, args).exits(1).says(failed);
        assert_eq!(server.calls(), 2, "{failed}");
    }
}
