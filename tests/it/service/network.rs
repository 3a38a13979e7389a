//! A network that breaks: what is sent again, what is not, and how many calls are in flight.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::support::process::Place;
use crate::support::server::{Action, Request, Server, good, raw, silence, status};
use crate::support::users;

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";

/// Every way in which a request is sent and no whole answer comes back.
fn broken(way: &str, request: &Request) -> Option<Action> {
    let body = crate::support::server::good_body(&request.name());
    let length = |bytes: usize| format!("{HEAD}content-length: {bytes}\r\n\r\n");
    let headers = |count: usize, size: usize| -> String {
        (0..count)
            .map(|i| format!("x-{i}: {}\r\n", "y".repeat(size)))
            .collect()
    };
    Some(match way {
        "reset" => silence().then_reset(),
        "reset_in_body" => raw(length(body.len()) + &body[..20]).then_reset(),
        "end" => silence().then_close(),
        "short" => raw(length(body.len() + 1) + &body).then_close(),
        "short_chunk" => {
            raw(format!("{HEAD}transfer-encoding: chunked\r\n\r\n50\r\n{{")).then_close()
        }
        "garbage" => raw("SSH-2.0-OpenSSH_9.6\r\n").then_close(),
        "half_head" => raw("HTTP/1.1 200 OK\r\ncontent-le").then_close(),
        "many_headers" => raw(format!("{HEAD}{}\r\n", headers(500, 1))).then_close(),
        "large_headers" => raw(format!("{HEAD}{}\r\n", headers(32, 65_536))).then_close(),
        "stall" => silence().then_stall(),
        "stall_in_body" => raw(length(body.len()) + &body[..20]).then_stall(),
        "dribble" => silence().then_dribble(length(body.len()), Duration::from_millis(40)),
        _ => return None,
    })
}

/// The ways, and the message in the rejects for each.
const WAYS: [(&str, &str); 12] = [
    ("reset", "the connection broke: connection reset by peer"),
    (
        "reset_in_body",
        "the connection broke: connection reset by peer",
    ),
    (
        "end",
        "the connection broke: connection closed before message completed",
    ),
    (
        "short",
        "the connection broke: end of file before message length reached",
    ),
    (
        "short_chunk",
        "the connection broke: end of file before message length reached",
    ),
    (
        "garbage",
        "the connection broke: invalid HTTP version parsed",
    ),
    (
        "half_head",
        "the connection broke: connection closed before message completed",
    ),
    (
        "many_headers",
        "the connection broke: message head is too large",
    ),
    (
        "large_headers",
        "the connection broke: message head is too large",
    ),
    ("stall", "no complete answer in time"),
    ("stall_in_body", "no complete answer in time"),
    ("dribble", "no complete answer in time"),
];

/// The users of [`WAYS`] with a well-served one before each: several failures in a row may rightly stop a run.
fn names() -> Vec<String> {
    WAYS.iter()
        .flat_map(|(way, _)| [format!("before {way}"), (*way).to_owned()])
        .collect()
}

#[test]
fn without_a_whole_answer_a_row_fails_and_is_not_sent_again_when_that_is_forbidden() {
    let csv = users::named(names());
    let server =
        Server::start(|request| broken(&request.name(), request).unwrap_or_else(|| good(request)));
    let place = Place::with("users.csv", &csv);
    let done = place.score(&server, "-c 1 --resend-unknown 0 --timeout 500ms");
    done.exits(1)
        .says("12 calls may have been billed without an answer\n")
        .silent_about("billed twice");
    done.check(server.calls() == names().len(), "each row is sent once");
    assert_eq!(
        place.text("scored.csv"),
        users::scored_without(&csv, |name| WAYS.iter().any(|(way, _)| *way == name))
    );
    let rejects = place.text("scored.rejects.csv");
    for (i, ((way, said), line)) in (1..).zip(WAYS.iter().zip(rejects.lines().skip(1))) {
        let row = 2 * i;
        assert!(
            line.starts_with(&format!("{row},no_answer,{said},{row},{way},")),
            "{line}"
        );
    }
    assert_eq!(rejects.lines().count(), 1 + WAYS.len());
}

#[test]
fn without_a_whole_answer_a_row_is_sent_once_more_and_the_summary_says_so() {
    let ways = ["reset", "end", "short", "garbage"];
    let csv = users::named(["first"].iter().chain(&ways).chain(&["for ever"]));
    let server = Server::start(
        move |request| match (request.name().as_str(), request.attempt) {
            ("for ever", _) => silence().then_close(),
            (way, 1) => broken(way, request).unwrap_or_else(|| good(request)),
            _ => good(request),
        },
    );
    let place = Place::with("users.csv", &csv);
    let done = place.score(&server, "");
    // Four rows that were answered in the end, and one that was not.
    done.exits(1).says("5 rows may have been billed twice");
    assert_eq!(
        place.text("scored.csv"),
        users::scored_without(&csv, |name| name == "for ever")
    );
    done.check(
        server.calls() == 1 + 2 * 5,
        "each once more, and no more than once",
    );
}

#[test]
fn a_status_that_is_known_counts_even_when_its_body_breaks_off() {
    let head = |status: &str| format!("HTTP/1.1 {status}\r\ncontent-length: 99\r\n\r\n{{\"err");
    let place = Place::with("users.csv", users::csv(3));
    let server = Server::start(move |_| raw(head("401 Unauthorized")).then_close());
    place
        .score(&server, "")
        .exits(4)
        .says("API key")
        .silent_about("billed twice");
    assert_eq!(server.calls(), 1);

    let server = Server::start(move |request| match request.attempt {
        1 if request.nth == 2 => raw(head("429 Too Many Requests\r\nretry-after: 1")).then_close(),
        _ => good(request),
    });
    let done = place.score(&server, "-c 1 --retries 0");
    done.exits(0)
        .says("the service throttled 1 call")
        .silent_about("billed twice");
}

#[test]
fn an_answer_in_single_bytes_is_read() {
    let server = Server::start(|request| {
        let body = crate::support::server::good_body(&request.name());
        let chunks: String = body.chars().map(|c| format!("1\r\n{c}\r\n")).collect();
        raw(format!(
            "{HEAD}transfer-encoding: chunked\r\n\r\n{chunks}0\r\n\r\n"
        ))
    });
    let csv = users::csv(3);
    let place = Place::with("users.csv", &csv);
    place.score(&server, "").exits(0);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
}

#[test]
fn a_connection_that_was_closed_while_idle_is_not_used_again() {
    let csv = users::csv(3);
    let server = Server::start(|request| {
        good(request)
            .then_wait(Duration::from_millis(20))
            .then_close()
    });
    let place = Place::with("users.csv", &csv);
    let done = place.run_at(server.url()).args("--rate 4/s").done();
    done.exits(0).silent_about("billed twice");
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
    assert_eq!((server.calls(), server.connections()), (3, 3));
}

#[test]
fn a_connection_that_closes_during_a_request_costs_at_most_one_more_call_and_the_summary_says_so() {
    let csv = users::csv(4);
    // The worst moment for an idle connection to close: when the next request is on it and may have been processed.
    let used = Mutex::new(HashSet::new());
    let server = Server::start(move |request| {
        let first = used.lock().unwrap().insert(request.connection);
        if first || request.attempt > 1 {
            good(request)
        } else {
            silence().then_reset()
        }
    });
    let place = Place::with("users.csv", &csv);
    let done = place.score(&server, "-c 1");
    // How many rows are affected depends on how soon a row is retried.
    let again = server.calls() - 4;
    done.check((2..=3).contains(&again), "some are sent again");
    done.exits(0)
        .says(&format!("{} calls, {again} of them retries", 4 + again))
        .says(&format!(
            "{again} rows may have been billed twice: sent again because no answer came\n"
        ));
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
    assert!(server.requests().iter().all(|request| request.attempt <= 2));
}

#[test]
fn connections_are_used_again() {
    let (place, server) = (Place::with("users.csv", users::csv(300)), Server::good());
    place.score(&server, "-c 4").exits(0);
    assert!(
        server.connections() <= 8,
        "{} connections",
        server.connections()
    );
}

#[test]
fn the_concurrency_is_reached_and_never_passed() {
    let (now, most) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    let seen = Arc::clone(&most);
    let server = Server::start(move |request| {
        seen.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        thread::sleep(Duration::from_millis(10));
        now.fetch_sub(1, Ordering::SeqCst);
        good(request)
    });
    let place = Place::with("users.csv", users::csv(100));
    place.score(&server, "-c 5").exits(0);
    assert_eq!(most.load(Ordering::SeqCst), 5);
}

#[test]
fn the_first_call_goes_alone() {
    let first = Arc::new(AtomicUsize::new(0));
    let (calls, alone) = (AtomicUsize::new(0), Arc::clone(&first));
    let server = Server::start(move |request| {
        calls.fetch_add(1, Ordering::SeqCst);
        if request.nth == 1 {
            // Long enough for other calls to come.
            thread::sleep(Duration::from_millis(150));
            alone.store(calls.load(Ordering::SeqCst), Ordering::SeqCst);
        }
        good(request)
    });
    let place = Place::with("users.csv", users::csv(20));
    place.score(&server, "-c 20").exits(0);
    assert_eq!(first.load(Ordering::SeqCst), 1);
}

#[test]
fn the_rate_is_kept() {
    let (place, server) = (Place::with("users.csv", users::csv(6)), Server::good());
    let program = place.run_at(server.url()).args("-r 600/m");
    program.done().exits(0);
    let requests = server.requests();
    let took = requests[5].at - requests[0].at;
    assert!(
        took >= Duration::from_millis(450),
        "{took:?} for five steps of 100 ms"
    );
}

#[test]
fn a_proxy_serves_addresses_beyond_this_machine_and_none_on_it() {
    let (place, proxy) = (Place::with("users.csv", users::csv(1)), Server::good());
    let through = |base: &str, plain: &str| {
        let program = place.run_at(base).env("http_proxy", plain);
        let program = program.args("--overwrite --no-ledger --allow-http --retries 0");
        program.done()
    };
    through("http://users.example", &proxy.url()).exits(0);
    assert_eq!(
        proxy.only_request().path,
        "http://users.example/v1/validate/user"
    );
    through(&proxy.url(), "http://127.0.0.1:1").exits(0);

    let proxy = Server::start(|_| status(407));
    through("http://users.example", &proxy.url())
        .exits(4)
        .says("proxy")
        .says("HTTP_PROXY");
    assert_eq!(proxy.calls(), 1);
}

#[test]
fn a_server_that_closes_after_each_answer_without_saying_so_costs_no_row() {
    // Sooner or later than the next call is sent on the connection.
    for later in [0, 1] {
        let csv = users::csv(3_000);
        let place = Place::with("users.csv", &csv);
        let server = Server::start(move |request| {
            let answer = good(request);
            match later {
                0 => answer.then_close(),
                wait => answer.then_wait(Duration::from_millis(wait)).then_close(),
            }
        });
        let done = place.score(&server, "-c 16");
        done.exits(0).silent_about("down").silent_about("failed");
        assert_eq!(place.text("scored.csv"), users::scored(&csv));
    }
}
