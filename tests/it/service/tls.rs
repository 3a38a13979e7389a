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
    let (by_whom, by_name) = (
        "hint: `--ca-file FILE` accepts the certificate of the authority that signed it, or the service's own certificate\n",
        "hint: use a name that the certificate is for, as in `--base-url https://NAME`\n",
    );
    let unknown = "it is not signed by an authority that this machine trusts";
    for (certificate, authority, why, hint) in [
        ("good.pem", None, unknown, by_whom),
        ("self-signed.pem", None, unknown, by_whom),
        (
            "own-authority.pem",
            None,
            "it is the certificate of an authority and not of a server, as created by `openssl req -x509`",
            by_whom,
        ),
        // Only that certificate itself is trusted, not one that looks like it.
        (
            "nameless.pem",
            Some("own-authority.pem"),
            "it is the certificate of an authority and not of a server, as created by `openssl req -x509`",
            by_whom,
        ),
        (
            "other-host.pem",
            Some("other-host.pem"),
            "it is for `example.com`, not for `127.0.0.1`",
            by_name,
        ),
        (
            "expired.pem",
            Some("authority.pem"),
            "it is not valid after Fri, 01 Jan 2021 00:00:00 GMT",
            "",
        ),
        (
            "expired.pem",
            Some("expired.pem"),
            "it is not valid after Fri, 01 Jan 2021 00:00:00 GMT",
            "",
        ),
        (
            "elsewhere.pem",
            Some("authority.pem"),
            "it is for `example.com`, not for `127.0.0.1`",
            by_name,
        ),
    ] {
        let (address, served) = start(certificate);
        let done = score(&place, address, authority);
        done.exits(4)
            .says(&format!(
                "error: the service's certificate is not trusted: {why}\n"
            ))
            .says("         1 call")
            .says(hint);
        if hint.is_empty() {
            done.silent_about("hint:");
        }
        assert_eq!(served.load(Ordering::SeqCst), 0);
        assert_eq!(place.names(), ["rescore.ledger", "users.csv"]);
    }
}

#[test]
fn a_certificate_that_signed_itself_is_trusted_when_it_is_given() {
    let csv = users::csv(5);
    for certificate in ["self-signed.pem", "own-authority.pem", "nameless.pem"] {
        let place = Place::with("users.csv", &csv);
        let (address, served) = start(certificate);
        score(&place, address, Some(certificate)).exits(0);
        assert_eq!(
            place.text("scored.csv"),
            users::scored(&csv),
            "{certificate}"
        );
        assert_eq!(served.load(Ordering::SeqCst), 5, "{certificate}");
    }
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
