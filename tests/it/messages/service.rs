//! What a run says of a service that stops it: it answers wrongly, cannot be reached or is not trusted. Each stop costs the calls
//! in brackets, and no row its verdict.

use std::io::Write as _;
use std::net::{Ipv4Addr, TcpListener};
use std::thread;

use super::Page;
use crate::support::process::{Done, Place};
use crate::support::server::{Action, Server, answer, ok, raw, silence, status};
use crate::support::{tls, users};

/// One call and no more is made where one of these is the answer.
const STOPS: [u16; 12] = [300, 302, 308, 401, 402, 403, 404, 405, 407, 410, 429, 511];

/// What stops a run after a few calls, and how many calls these are.
type Case = (&'static str, fn() -> Action, usize);
const CASES: [Case; 11] = [
    ("nothing but 500", || status(500), 2),
    ("rows that are all rejected", || status(422), 3),
    ("answers without a verdict", || ok("{}"), 3),
    (
        "a quota in words",
        || ok(r#"{"success":false,"message":"monthly quota exceeded"}"#),
        3,
    ),
    ("a page", || ok("<html>502 from the proxy</html>"), 1),
    ("words", || answer(422, &[], "Bad Request"), 1),
    (
        "a firewall",
        || {
            answer(
                403,
                &[],
                "<html><title>Access denied |\n x.example</title></html>",
            )
        },
        1,
    ),
    (
        "a blank in a header",
        || raw("HTTP/1.1 200 OK\r\nX-Foo : bar\r\ncontent-length: 2\r\n\r\n{}").then_close(),
        2,
    ),
    (
        "no status",
        || raw("HTTP/1.1 2OO OK\r\ncontent-length: 2\r\n\r\n{}").then_close(),
        2,
    ),
    ("mail", || raw("220 mail ESMTP\r\n").then_close(), 2),
    ("nothing", || silence().then_close(), 2),
];

/// Certificates of the service, the authority that is given, and whether it is trusted.
const CERTIFICATES: [(&str, Option<&str>, bool); 8] = [
    ("good.pem", Some("authority.pem"), true),
    ("self-signed.pem", Some("self-signed.pem"), true),
    ("good.pem", Some("self-signed.pem"), false),
    ("good.pem", None, false),
    ("self-signed.pem", None, false),
    // It says that it is an authority's and not a server's.
    ("own-authority.pem", Some("own-authority.pem"), false),
    ("elsewhere.pem", Some("authority.pem"), false),
    ("expired.pem", Some("authority.pem"), false),
];

/// Addresses to which nothing is sent.
const ADDRESSES: [&str; 8] = [
    "https://api.example.com?api_key=SECRET",
    "http://me:SECRET@api.example.com",
    "SECRET",
    "http://api.example.com/risk",
    // Names that only look like this machine's.
    "http://evil.localhost:PORT",
    "http://localhost.:PORT",
    "http://127.0.0.1.example.com:PORT",
    "https://rescore.invalid",
];

/// Runs over a hundred users, and adds what is said. No file is left of it but a ledger.
fn stopped(page: &mut Page, scenario: &str, code: i32, run: impl FnOnce(&Place) -> Done) {
    let place = Place::with("users.csv", users::csv(100));
    let done = run(&place);
    done.exits(code).silent_about("SECRET");
    page.add(scenario, &done);
    assert!(!place.path("scored.csv").exists());
}

#[test]
fn what_stops_a_run_is_named_and_costs_no_more_calls_than_it_must() {
    let mut page = Page::default();
    page.heading("# Answers that stop a run at once");
    let elsewhere = Server::good();
    for status in STOPS {
        let target = format!("{}/v1/validate/user", elsewhere.url());
        let body = r#"{"error":{"message":"no more, insufficient_quota"}}"#;
        let server = Server::start(move |_| answer(status, &[("location", &target)], body));
        stopped(&mut page, &status.to_string(), 4, |place| {
            place.score(&server, "-q -c 64")
        });
        assert_eq!(server.calls(), 1, "{status}");
    }
    assert_eq!(elsewhere.connections(), 0);
    page.heading("# Others, and failures");
    for (scenario, action, calls) in CASES {
        let server = Server::start(move |_| action());
        let code = if scenario == "a firewall" { 4 } else { 3 };
        stopped(&mut page, scenario, code, |place| {
            place.score(&server, "-q -c 1 --retries 1")
        });
        assert_eq!(server.calls(), calls, "{scenario}");
    }
    let nobody = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let url = format!("http://{}", nobody.local_addr().unwrap());
    drop(nobody);
    stopped(&mut page, "nobody", 3, |place| {
        place
            .run_at(&*url)
            .args("-q --retries 1 --max-wait 1s")
            .done()
    });
    page.heading("# Addresses");
    let server = Server::good();
    for address in ADDRESSES {
        let base = address.replace("PORT", &server.port().to_string());
        let code = if address.ends_with("invalid") { 3 } else { 2 };
        stopped(&mut page, address, code, |place| {
            place.run_at(&*base).args("-q").done()
        });
    }
    assert_eq!(server.connections(), 0);
    page.heading("# TLS");
    for (certificate, authority, is_trusted) in CERTIFICATES {
        let (address, counted) = tls::start(certificate);
        let base = format!("https://{address}");
        let run = |place: &Place| tls::program(place, &base, authority).args("-q").done();
        if is_trusted {
            run(&Place::with("users.csv", users::csv(5))).exits(0);
            assert_eq!(counted.requests(), 5);
        } else {
            stopped(
                &mut page,
                &format!("{certificate}, authority {}", authority.unwrap_or("none")),
                4,
                run,
            );
            assert_eq!(counted.requests(), 0);
        }
    }
    let (address, counted) = tls::start_for_clients_with("good.pem");
    let base = format!("https://{address}");
    let run = |place: &Place| {
        tls::program(place, &base, Some("authority.pem"))
            .args("-q")
            .done()
    };
    stopped(&mut page, "it wants a certificate", 4, run);
    stopped(&mut page, "no certificates on this machine", 2, |place| {
        let run = tls::program(place, &base, None).env("SSL_CERT_FILE", "/nonexistent");
        run.env("SSL_CERT_DIR", "/nonexistent").done()
    });
    assert_eq!(counted.requests(), 0);
    let plain = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let base = format!("https://{}", plain.local_addr().unwrap());
    thread::spawn(move || {
        for stream in plain.incoming() {
            // As web servers answer a TLS handshake on their plain port.
            let _ = { stream.unwrap() }.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    stopped(&mut page, "plain HTTP", 4, |place| {
        place.run_at(&*base).args("-q").done()
    });
    page.is("service");
}
