//! A server that speaks TLS, with certificates of our own.
//!
//! `tls/` holds an authority of our own that signed three certificates for this purpose alone: a good one for
//! 127.0.0.1, an expired one, and one for another host; one that signed itself; and one as `openssl req -x509` makes it,
//! which calls itself an authority's. Their keys are public and protect nothing.

use std::io::{BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};

use super::process::{Place, Program};
use super::server::{good_body, read_request};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/support/tls")
        .join(name)
}

/// What a server has counted.
#[derive(Default)]
pub(crate) struct Served {
    pub(crate) handshakes: AtomicUsize,
    pub(crate) requests: AtomicUsize,
}

impl Served {
    pub(crate) fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

/// A server that gives every user the right verdict over TLS.
pub(crate) fn start(certificate: &str) -> (SocketAddr, Arc<Served>) {
    start_with(config(certificate))
}

/// The same for a server that wants a certificate of the client, which the authority of its own has signed.
pub(crate) fn start_for_clients_with(certificate: &str) -> (SocketAddr, Arc<Served>) {
    let mut authorities = RootCertStore::empty();
    let own = CertificateDer::from_pem_file(file("authority.pem")).unwrap();
    authorities.add(own).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let clients =
        WebPkiClientVerifier::builder_with_provider(authorities.into(), Arc::clone(&provider));
    let clients = clients.build().unwrap();
    let (chain, key) = chain(certificate);
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(clients)
        .with_single_cert(chain, key);
    start_with(config.unwrap())
}

fn start_with(config: ServerConfig) -> (SocketAddr, Arc<Served>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, config) = (listener.local_addr().unwrap(), Arc::new(config));
    let served = Arc::new(Served::default());
    let count = Arc::clone(&served);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (config, count) = (Arc::clone(&config), Arc::clone(&count));
            // An error here means that the client refused: the test sees that from the other side.
            thread::spawn(move || {
                let mut stream = stream?;
                let mut connection = ServerConnection::new(config).unwrap();
                connection.complete_io(&mut stream)?;
                count.handshakes.fetch_add(1, Ordering::SeqCst);
                answer_all(StreamOwned::new(connection, stream), &count.requests)
            });
        }
    });
    (address, served)
}

fn chain(certificate: &str) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
    let path = file(certificate);
    let chain = CertificateDer::pem_file_iter(&path).unwrap();
    let chain = chain.map(Result::unwrap).collect();
    (chain, PrivateKeyDer::from_pem_file(&path).unwrap())
}

/// The configuration of a server with this certificate.
pub(crate) fn config(certificate: &str) -> ServerConfig {
    let (chain, key) = chain(certificate);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap()
}

/// Gives every user the right verdict over HTTP/1.1.
pub(crate) fn answer_all(
    stream: StreamOwned<ServerConnection, TcpStream>,
    count: &AtomicUsize,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
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

/// `users.csv` to `scored.csv` at this base address, with the certificate of this authority.
pub(crate) fn program<'a>(place: &'a Place, base: &str, authority: Option<&str>) -> Program<'a> {
    let program = place.run_at(base);
    match authority {
        Some(name) => program.arg("--ca-file").arg(file(name)),
        None => program,
    }
}
