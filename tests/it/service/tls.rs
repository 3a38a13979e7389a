//! HTTPS: certificates that are trusted and certificates that are not.

use std::io::Write as _;
use std::net::TcpListener;
use std::sync::atomic::Ordering;
use std::thread;

use crate::support::process::Place;
use crate::support::tls::{score, start};
use crate::support::users;

#[test]
fn a_companys_own_authority_is_trusted_if_it_is_given() {
    let csv = users::csv(5);
    let place = Place::with("users.csv", &csv);
    let (address, served) = start("good.pem");
    score(&place, address, Some("authority.pem")).exits(0);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
    assert_eq!(served.load(Ordering::SeqCst), 5);
}

#[test]
fn a_certificate_that_is_not_to_be_trusted_stops_the_run_before_anything_is_sent() {
    let place = Place::with("users.csv", users::csv(5));
    for (certificate, authority, why) in [
        ("good.pem", None, "UnknownIssuer"),
        ("self-signed.pem", None, "UnknownIssuer"),
        // It says that it is an authority's and not a server's.
        (
            "own-authority.pem",
            Some("own-authority.pem"),
            "CaUsedAsEndEntity",
        ),
        (
            "elsewhere.pem",
            Some("authority.pem"),
            "certificate not valid for name \"127.0.0.1\"",
        ),
        ("expired.pem", Some("authority.pem"), "expired"),
        ("expired.pem", Some("expired.pem"), "expired"),
    ] {
        let (address, served) = start(certificate);
        let done = score(&place, address, authority);
        done.exits(4)
            .says("error: the service's certificate is not trusted: ")
            .says(why)
            .says("         1 call")
            .says(
                "hint: `--ca-file FILE` accepts the certificate of the authority that signed it; ",
            );
        assert_eq!(served.load(Ordering::SeqCst), 0);
        assert_eq!(place.names(), ["rescore.ledger", "users.csv"]);
    }
}

#[test]
fn a_certificate_that_signed_itself_is_trusted_when_it_is_given() {
    let csv = users::csv(5);
    let place = Place::with("users.csv", &csv);
    let (address, served) = start("self-signed.pem");
    score(&place, address, Some("self-signed.pem")).exits(0);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
    assert_eq!(served.load(Ordering::SeqCst), 5);
}

#[test]
fn plain_http_where_tls_was_meant_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            // As web servers answer a TLS handshake on their plain port.
            let _ = stream
                .unwrap()
                .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    let place = Place::with("users.csv", users::csv(5));
    let done = score(&place, address, None);
    done.exits(4)
        .says("error: the service does not speak TLS at this address\n\nhint: check scheme and port of the base address")
        .says("         1 call");
    assert_eq!(place.names(), ["rescore.ledger", "users.csv"]);
}
