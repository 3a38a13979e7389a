//! HTTPS: certificates that are to be trusted and ones that are not.
//!
//! `tls/` holds an authority of our own that signed three certificates for this purpose alone: a good one for
//! 127.0.0.1, an expired one, and one for another host; one that signed itself; and three as `openssl req -x509` makes
//! them, which call themselves an authority's: one for 127.0.0.1, one without names, one for another host. Their keys are
//! public and protect nothing.

use std::io::{BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::support::process::{Done, KEY, Place, Program};
use crate::support::server::{good_body, read_request};
use crate::support::users;

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/support/tls")
        .join(name)
}

/// A server that gives every user the right verdict over TLS; the count is of connections that brought a request.
fn start(certificate: &str) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let config = config(certificate);
    let (address, config) = (listener.local_addr().unwrap(), Arc::new(config));
    let served = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&served);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (config, count) = (Arc::clone(&config), Arc::clone(&count));
            // An error here is the client's refusal: the test sees it from the other side.
            thread::spawn(move || serve(stream.unwrap(), config, &count));
        }
    });
    (address, served)
}

/// What a server with this certificate is set up with.
pub(crate) fn config(certificate: &str) -> ServerConfig {
    let path = file(certificate);
    let chain = CertificateDer::pem_file_iter(&path)
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let key = PrivateKeyDer::from_pem_file(&path).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap()
}

fn serve(stream: TcpStream, config: Arc<ServerConfig>, count: &AtomicUsize) -> std::io::Result<()> {
    let connection = ServerConnection::new(config).unwrap();
    let mut reader = BufReader::new(StreamOwned::new(connection, stream));
    while let Some(request) = read_request(&mut reader, 1)? {
        count.fetch_add(1, Ordering::SeqCst);
        let body = good_body(&request.name());
        let answer = format!(
            "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        reader.get_mut().write_all(answer.as_bytes())?;
    }
    Ok(())
}

pub(crate) fn score(place: &Place, address: SocketAddr, authority: Option<&str>) -> Done {
    program(place, address, authority).done()
}

/// The same, not started yet.
pub(crate) fn program<'a>(
    place: &'a Place,
    address: SocketAddr,
    authority: Option<&str>,
) -> Program<'a> {
    let url = format!("https://{address}");
    let args = [
        "run",
        "users.csv",
        "-o",
        "scored.csv",
        "--service-id",
        "test",
        "--base-url",
        &url,
    ];
    let program = place.rescore(args).env("RESCORE_API_KEY", KEY);
    match authority {
        Some(name) => program.arg("--ca-file").arg(file(name)),
        None => program,
    }
}

#[test]
fn a_companys_own_authority_is_trusted_when_it_is_given() {
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
        // Only that certificate itself, and not one that looks like it.
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
            .says("1 call\n")
            .says(hint);
        if hint.is_empty() {
            done.silent_about("hint:");
        }
        assert_eq!(
            (served.load(Ordering::SeqCst), place.names()),
            (0, vec!["users.csv".to_owned()])
        );
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
            // As web servers answer a TLS greeting on their plain port.
            let _ = stream
                .unwrap()
                .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    let place = Place::with("users.csv", users::csv(5));
    let done = score(&place, address, None);
    done.exits(4)
        .says("error: the service does not speak TLS at this address\n\nhint: check scheme and port of the base address")
        .says("1 call\n");
    assert_eq!(place.names(), ["users.csv"]);
}
