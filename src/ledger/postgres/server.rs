//! The connection to a server: how it is made and made again, transactions, and what failures mean.
//!
//! Statements have our numbers and hashes in them; what other people wrote, and what is large, is sent beside them.

use std::error::Error as _;
use std::io;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use postgres::error::SqlState;
use postgres::{Client, SimpleQueryMessage};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use rustls_platform_verifier::Verifier;
use tokio::time::Instant;
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::ledger::server_url::{CONNECT_TIMEOUT, Certificates, ServerUrl};

use crate::base::error::{Error, Result as RunResult, printable, shown, system_words};
use crate::base::numbers;
use crate::ledger::database::TableRow;
use crate::ledger::fault::{DbFault, DbFaultKind};
use crate::ledger::settings::ServerWait;

/// Starts a transaction that writes, alone. What is acknowledged is durable, whatever the server's default is: also claims, as
/// those who have them outlive the server. A program that is suspended within it holds the others up for this long.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED;
    SET LOCAL synchronous_commit = on;
    SET LOCAL idle_in_transaction_session_timeout = '10s';
    LOCK TABLE meta IN EXCLUSIVE MODE";

/// How long is waited between attempts, at first and at most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(5));

impl From<postgres::Error> for DbFault {
    fn from(error: postgres::Error) -> Self {
        let cause = error.source();
        if let Some(error) = error.as_db_error() {
            // Only the message: the detail may have values.
            let words = printable(error.message());
            let code = error.code();
            return match code.code().get(..2).unwrap_or_default() {
                _ if [SqlState::UNDEFINED_TABLE, SqlState::UNDEFINED_COLUMN].contains(code) => {
                    Self::missing()
                }
                // Connections, transactions that are not possible now, such as writing ones on a copy, deadlocks, resources such
                // as a full disk, objects in use, operators, the system, and the server's own failures.
                "08" | "25" | "40" | "53" | "55" | "57" | "58" | "XX" => {
                    Self::new(DbFaultKind::Away, words)
                }
                _ => Self::new(DbFaultKind::Refused, words),
            };
        }
        if let Some(error) = cause.and_then(|cause| cause.downcast_ref::<io::Error>()) {
            let words = printable(&system_words(error));
            let tls = error.get_ref().and_then(|tls| tls.downcast_ref());
            return match tls {
                Some(rustls::Error::InvalidCertificate(_)) => {
                    Self::new(DbFaultKind::Refused, words)
                }
                _ => Self::new(DbFaultKind::Away, words),
            };
        }
        if error.is_closed() {
            return Self::new(DbFaultKind::Away, "the connection broke".to_owned());
        }
        // The client's own words have no values.
        Self::new(
            DbFaultKind::Refused,
            cause.map_or_else(|| error.to_string(), ToString::to_string),
        )
    }
}

/// A server, with one connection, which is made when it is needed.
pub(super) struct Server {
    pub(super) url: ServerUrl,
    /// How it is waited for.
    pub(super) wait: ServerWait,
    tls: MakeRustlsConnect,
    client: Option<Client>,
    /// What each connection starts with.
    setup: &'static str,
}

impl Server {
    /// For a run, whose statements are short, or for a command, which may read all that there is.
    ///
    /// # Errors
    /// Exit code 2: certificates cannot be read.
    pub(super) fn new(url: &ServerUrl, is_run: bool, wait: ServerWait) -> RunResult<Self> {
        Ok(Self {
            url: url.clone(),
            wait,
            tls: tls(&url.certificates)?,
            client: None,
            setup: if is_run {
                "SET standard_conforming_strings = on; SET statement_timeout = '30s'"
            } else {
                "SET standard_conforming_strings = on; SET statement_timeout = 0"
            },
        })
    }

    /// Another connection to it.
    pub(super) fn again(&self, wait: ServerWait) -> Self {
        Self {
            url: self.url.clone(),
            wait,
            tls: self.tls.clone(),
            client: None,
            setup: self.setup,
        }
    }

    /// Does something, again as long as the server is away and the patience lasts.
    pub(super) fn run<T>(
        &mut self,
        mut work: impl FnMut(&mut Client) -> Result<T, DbFault>,
    ) -> Result<T, DbFault> {
        let (started, mut pause) = (Instant::now(), PAUSES.0);
        loop {
            let done = self.run_once(&mut work);
            let left = self.wait.longest.saturating_sub(started.elapsed());
            match done {
                Err(fault) if fault.kind == DbFaultKind::Away && !left.is_zero() => {
                    self.wait.set(Some(fault.words().to_owned()));
                    rest(pause.min(left));
                    pause = PAUSES.1.min(pause * 2);
                }
                done if pause == PAUSES.0 => return done,
                done => {
                    self.wait.set(None);
                    let time = numbers::time(started.elapsed());
                    return done.map_err(|fault| match fault.kind {
                        DbFaultKind::Away => fault.with_words(|why| {
                            format!("the ledger's server has not answered for {time} ({why})")
                        }),
                        _ => fault,
                    });
                }
            }
        }
    }

    /// Runs statements and does something in one transaction, while no other one writes. It may have been committed although the
    /// connection broke, and then is repeated.
    pub(super) fn transaction<T>(
        &mut self,
        statements: &str,
        mut work: impl FnMut(&mut Client) -> Result<T, DbFault>,
    ) -> Result<T, DbFault> {
        let begin = format!("{BEGIN}; {statements}");
        self.run(|client| {
            let done = { client.batch_execute(&begin).map_err(DbFault::from) }
                .and_then(|()| work(client))
                .and_then(|done| Ok(client.batch_execute("COMMIT").map(|()| done)?));
            if done.is_err() {
                // On a connection that is broken, the server does it.
                let _ = client.batch_execute("ROLLBACK");
            }
            done
        })
    }

    fn run_once<T>(
        &mut self,
        work: &mut impl FnMut(&mut Client) -> Result<T, DbFault>,
    ) -> Result<T, DbFault> {
        let client = match self.client.take() {
            Some(client) if !client.is_closed() => client,
            _ => self.connect()?,
        };
        let client = self.client.insert(client);
        let done = work(client);
        if { done.as_ref() }.is_err_and(|fault| fault.kind == DbFaultKind::Away) {
            self.client = None;
        }
        done
    }

    /// Connects, on a thread of its own: a server that accepts a connection and then says nothing would hold this one up for
    /// ever.
    fn connect(&self) -> Result<Client, DbFault> {
        let (config, tls, setup) = (self.url.with_password(), self.tls.clone(), self.setup);
        let hosts = u32::try_from(config.get_hosts().len()).unwrap_or(1);
        let (sender, connected) = mpsc::channel();
        thread::Builder::new()
            .name("ledger-connect".to_owned())
            .spawn(move || {
                let connected = config.connect(tls).and_then(|mut client| {
                    client.batch_execute(setup)?;
                    Ok(client)
                });
                // Nobody may be waiting any more.
                let _ = sender.send(connected);
            })
            .map_err(|error| DbFault::new(DbFaultKind::Away, system_words(&error)))?;
        match connected.recv_timeout(CONNECT_TIMEOUT * hosts) {
            Ok(connected) => Ok(connected?),
            Err(_) => Err(DbFault::new(
                DbFaultKind::Away,
                "it does not answer".to_owned(),
            )),
        }
    }
}

/// Waits on a thread that has nothing else to do. Workers that lost the server together do not come back together.
#[allow(
    clippy::disallowed_methods,
    reason = "on the ledger's or the reader's thread"
)]
fn rest(time: Duration) {
    thread::sleep(time.mul_f64(f64::from(fastrand::u8(128..=255)) / 256.0));
}

/// What statements return, one after the other.
pub(super) fn rows(client: &mut Client, statements: &str) -> Result<Vec<TableRow>, DbFault> {
    let row = |message| match message {
        SimpleQueryMessage::Row(row) => {
            let cell = |column| row.get(column).map(str::to_owned);
            Some(TableRow((0..row.len()).map(cell).collect()))
        }
        _ => None,
    };
    let messages = client.simple_query(statements)?;
    Ok(messages.into_iter().filter_map(row).collect())
}

/// How connections are encrypted.
fn tls(certificates: &Certificates) -> RunResult<MakeRustlsConnect> {
    let cannot = |error: rustls::Error| {
        Error::usage("cannot set up TLS for the ledger's server").because(error)
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier: Arc<dyn ServerCertVerifier> = match certificates {
        Certificates::Unchecked => {
            let algorithms = provider.signature_verification_algorithms;
            Arc::new(AnyServer(algorithms.supported_schemes()))
        }
        Certificates::Trusted(file) => {
            let roots = file.as_deref().map(authorities).transpose()?;
            let roots = roots.unwrap_or_default();
            let verifier = Verifier::new_with_extra_roots(roots, Arc::clone(&provider));
            Arc::new(verifier.map_err(cannot)?)
        }
    };
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder
        .with_safe_default_protocol_versions()
        .map_err(cannot)?;
    let mut config = { builder.dangerous() }
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    // As the server asks for where a connection starts with TLS.
    config.alpn_protocols = vec![b"postgresql".to_vec()];
    Ok(MakeRustlsConnect::new(config))
}

/// The certificates in a PEM file.
fn authorities(file: &Path) -> RunResult<Vec<CertificateDer<'static>>> {
    let roots: Result<Vec<_>, _> = CertificateDer::pem_file_iter(file).and_then(Iterator::collect);
    let roots = roots.unwrap_or_default();
    if roots.is_empty() {
        let file = shown(file);
        let words = format!("`{file}` cannot be read or has no PEM certificate");
        return Err(Error::usage(words));
    }
    Ok(roots)
}

/// Accepts any server, as `sslmode=prefer` says. This keeps out listeners, but no attacker who takes the server's place.
#[derive(Debug)]
struct AnyServer(Vec<SignatureScheme>);

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.clone()
    }
}
