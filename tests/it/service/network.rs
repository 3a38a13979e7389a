//! A network that breaks: what is sent again, what is not, and how many calls are in flight.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::support::process::Place;
use crate::support::server::{Action, Request, Server, good, good_body, ok, raw, silence};
use crate::support::{tls, users};

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";

/// Every way in which a request is sent and no whole answer comes back.
fn broken(way: &str, request: &Request) -> Option<Action> {
    let body = good_body(&request.name());
    let length = |bytes: usize| format!("{HEAD}content-length: {bytes}\r\n\r\n");
    let many_headers = || -> String { (0..500).map(|i| format!("x-{i}: y\r\n")).collect() };
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
        "many_headers" => raw(format!("{HEAD}{}\r\n", many_headers())).then_close(),
        "stall" => silence().then_stall(),
        "stall_in_body" => raw(length(body.len()) + &body[..20]).then_stall(),
        "dribble" => silence().then_dribble(length(body.len()), Duration::from_millis(40)),
        _ => return None,
    })
}

/// The ways, and the message in the rejects for each.
const WAYS: [(&str, &str); 11] = [
    ("reset", "the connection broke: "),
    ("reset_in_body", "the connection broke: "),
    ("end", "the connection broke: "),
    ("short", "the connection broke: "),
    ("short_chunk", "the connection broke: "),
    ("garbage", "the answer is not HTTP: "),
    ("half_head", "the connection broke: "),
    ("many_headers", "the connection broke: "),
    ("stall", "no complete answer in time"),
    ("stall_in_body", "no complete answer in time"),
    ("dribble", "no complete answer in time"),
];

#[test]
fn without_a_whole_answer_a_row_fails_and_is_not_sent_again_when_that_is_forbidden() {
    // A well-served one before each: several failures in a row may rightly stop a run.
    let names = WAYS.map(|(way, _)| [format!("before {way}"), way.to_owned()]);
    let csv = users::named(names.concat());
    let server =
        Server::start(|request| broken(&request.name(), request).unwrap_or_else(|| good(request)));
    let place = Place::with("users.csv", &csv);
    let done = place.score(&server, "-c 1 --resend-unknown 0 --timeout 500ms");
    done.exits(1)
        .says("11 calls may have been billed without an answer\n")
        .silent_about("billed twice");
    done.check(server.calls() == 2 * WAYS.len(), "each row is sent once");
    assert_eq!(
        place.text("scored.csv"),
        users::scored_without(&csv, |name| WAYS.iter().any(|(way, _)| *way == name))
    );
    let rejects = place.text("scored.rejects.csv");
    assert_eq!(rejects.lines().count(), 1 + WAYS.len());
    for (i, ((way, said), line)) in (1..).zip(WAYS.iter().zip(rejects.lines().skip(1))) {
        let is_right = line.starts_with(&format!("{},no_answer,{said}", 2 * i));
        assert!(is_right && line.contains(&format!(",{way},")), "{line}");
    }
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
    let sent = server.calls();
    done.check(sent == 1 + 2 * 5, "each once more, and no more than once");
}

#[test]
fn a_status_that_is_known_counts_even_when_its_body_breaks_off() {
    let head = |status: &str| format!("HTTP/1.1 {status}\r\ncontent-length: 99\r\n\r\n{{\"err");
    let place = Place::with("users.csv", users::csv(3));
    let server = Server::start(move |_| raw(head("401 Unauthorized")).then_close());
    let done = place.score(&server, "");
    done.exits(4).says("API key").silent_about("billed twice");
    assert_eq!(server.calls(), 1);

    let server = Server::start(move |request| match request.attempt {
        1 if request.nth == 2 => raw(head("429 Too Many Requests\r\nretry-after: 1")).then_close(),
        _ => good(request),
    });
    let done = place.score(&server, "-c 1 --retries 0");
    done.exits(0).silent_about("billed twice");
}

#[test]
fn a_good_answer_is_read_in_whatever_form_it_comes() {
    let csv = users::csv(3);
    let forms: [fn(&Request) -> Action; 3] = [
        |request| {
            let chunk = |c| format!("1\r\n{c}\r\n");
            let chunks: String = good_body(&request.name()).chars().map(chunk).collect();
            raw(format!(
                "{HEAD}transfer-encoding: chunked\r\n\r\n{chunks}0\r\n\r\n"
            ))
        },
        |request| {
            raw("HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n")
                .and(good(request))
        },
        |request| ok(&format!("\u{feff}{}", good_body(&request.name()))),
    ];
    for form in forms {
        let server = Server::start(form);
        let place = Place::with("users.csv", &csv);
        place.score(&server, "").exits(0);
        assert_eq!(place.text("scored.csv"), users::scored(&csv));
    }
}

#[test]
fn connections_are_used_again_unless_they_were_closed() {
    let (place, server) = (Place::with("users.csv", users::csv(300)), Server::good());
    place.score(&server, "-c 4").exits(0);
    assert!(server.connections() <= 8, "{}", server.connections());
    // One that was closed while it was idle is not used again.
    let csv = users::csv(3);
    let server = Server::start(|request| {
        good(request)
            .then_wait(Duration::from_millis(20))
            .then_close()
    });
    let place = Place::with("users.csv", &csv);
    let done = place.run_at(server.url()).args("--rate 4/s").exits(0);
    done.silent_about("billed twice");
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
    assert_eq!((server.calls(), server.connections()), (3, 3));
}

#[test]
fn over_tls_a_connection_serves_thousands_of_calls() {
    const ROWS: usize = 2_000;
    let (address, served) = tls::start("good.pem");
    let place = Place::with("users.csv", users::csv(ROWS));
    let base = format!("https://{address}");
    let program = tls::program(&place, &base, Some("authority.pem"));
    program.args("-c 4 --rate unlimited").exits(0);
    assert_eq!(served.requests.load(Ordering::SeqCst), ROWS);
    let handshakes = served.handshakes.load(Ordering::SeqCst);
    assert!(handshakes <= 2 * 4, "{handshakes}");
}

#[test]
fn a_server_that_closes_after_each_answer_without_saying_so_costs_no_row() {
    // Sooner or later than the next call is sent on the connection.
    for later in [0, 1] {
        let csv = users::csv(1_000);
        let place = Place::with("users.csv", &csv);
        let server = Server::start(move |request| {
            let answer = good(request);
            match later {
                0 => answer.then_close(),
                wait => answer.then_wait(Duration::from_millis(wait)).then_close(),
            }
        });
        // A repeated call may meet another connection that the server is closing.
        let done = place.score(&server, "-c 16 --resend-unknown 3");
        done.exits(0).silent_about("down").silent_about("failed");
        assert_eq!(place.text("scored.csv"), users::scored(&csv));
    }
}

#[test]
fn the_first_call_goes_alone_and_then_the_concurrency_is_reached_and_never_passed() {
    let (now, most) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    let seen = Arc::clone(&most);
    let server = Server::start(move |request| {
        seen.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        // Others have time to come, most of all during the first call.
        thread::sleep(Duration::from_millis(if request.nth == 1 {
            150
        } else {
            10
        }));
        if request.nth == 1 {
            assert_eq!(seen.load(Ordering::SeqCst), 1, "the first call goes alone");
        }
        now.fetch_sub(1, Ordering::SeqCst);
        good(request)
    });
    let place = Place::with("users.csv", users::csv(100));
    place.score(&server, "-c 5").exits(0);
    assert_eq!(server.calls(), 100);
    assert_eq!(most.load(Ordering::SeqCst), 5);
}

#[test]
fn the_rate_is_kept() {
    let (place, server) = (Place::with("users.csv", users::csv(6)), Server::good());
    place.run_at(server.url()).args("-r 600/m").exits(0);
    let requests = server.requests();
    let took = requests[5].at - requests[0].at;
    let least = Duration::from_millis(450);
    assert!(took >= least, "{took:?} for five steps of 100 ms");
}

#[test]
fn a_service_that_is_silent_from_the_start_is_named_while_its_answer_is_waited_for() {
    let place = Place::with("users.csv", users::csv(3));
    let server = Server::start(|_| silence().then_stall());
    let once = "--timeout 4s --retries 0 --resend-unknown 0";
    let done = place.score(&server, once);
    done.exits(3)
        .says("; no answer to the first call for ")
        .says(" (limit 4 s); ");
    assert_eq!(server.calls(), 1);
}
