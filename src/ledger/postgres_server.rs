//! Connections to a server: how one is made, how long to wait until it can be made again, and what failures mean.

use std::error::Error as _;
use std::io;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use postgres::Client;
use postgres::error::SqlState;
use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls_platform_verifier::Verifier;
use tokio::time::Instant;
use tokio_postgres_rustls::MakeRustlsConnect;

use super::fault::{DbFault, DbFaultKind};
use super::server_url::ServerUrl;
use super::settings::ServerWait;
use crate::base::error::system_words;
use crate::base::numbers;
use crate::base::own_file::read_small;
use crate::base::redact::Hidden;

use crate::base::text::{printable, shown};

/// What each connection starts with. Where another program holds the tables, the server says so after this time, and the run
/// says that it waits.
const SETUP: &str = "SET standard_conforming_strings = on; SET lock_timeout = '30s'";

/// Something of the tables, or the function, is not there.
const MISSING: [&SqlState; 3] = [
    &SqlState::UNDEFINED_TABLE,
    &SqlState::UNDEFINED_COLUMN,
    &SqlState::UNDEFINED_FUNCTION,
];

/// How long is waited between attempts, at first and at most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(5));

impl From<postgres::Error> for DbFault {
    fn from(error: postgres::Error) -> Self {
        let cause = error.source();
        if let Some(error) = error.as_db_error() {
            // Only the message: the detail may have values.
            let words = printable(error.message());
            let code = error.code();
            let state = format!("SQLSTATE {}", code.code());
            return match code.code().get(..2).unwrap_or_default() {
                _ if MISSING.contains(&code) => Self::missing(),
                _ if *code == SqlState::READ_ONLY_SQL_TRANSACTION => {
                    Self::new(DbFaultKind::ReadOnly, words)
                }
                // The message has the value that is wrong.
                "22" => Self::new(DbFaultKind::Refused, state),
                // Connections, transactions that are not possible now, deadlocks, resources such as a full disk, objects in use, operators, the system, and the server's own failures.
                "08" | "25" | "40" | "53" | "55" | "57" | "58" | "XX" => {
                    Self::new(DbFaultKind::Away, words)
                }
                _ => Self::new(DbFaultKind::Refused, format!("{words} ({state})")),
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

/// Connects to a server, with the password from where PostgreSQL's own programs take it. The client blocks. A thread of its own
/// connects: a server that accepts a connection and then says nothing would hold this one up for ever.
pub(super) fn connect(url: &ServerUrl) -> Result<Client, DbFault> {
    let (config, tls) = (url.with_password(), tls(url.authorities.as_deref())?);
    let hosts = u32::try_from(config.get_hosts().len()).unwrap_or(1);
    let longest = config.get_connect_timeout().copied().unwrap_or_default() * hosts;
    let password = config.get_password().unwrap_or_default().to_owned();
    let (sender, connected) = mpsc::channel();
    let connect = move || {
        let connected = config.connect(tls).and_then(|mut client| {
            client.batch_execute(SETUP)?;
            Ok(client)
        });
        // The caller may have stopped waiting.
        let _ = sender.send(connected);
    };
    let thread = thread::Builder::new().name("ledger-connect".to_owned());
    { thread.spawn(connect) }
        .map_err(|error| DbFault::new(DbFaultKind::Away, system_words(&error)))?;
    match connected.recv_timeout(longest) {
        Ok(connected) => connected.map_err(|error| {
            let code = error.code().map(|code| code.code().to_owned());
            without_password(error.into(), code.as_deref(), &password)
        }),
        Err(_) => Err(DbFault::new(DbFaultKind::Away, "it does not answer")),
    }
}

/// The fault, with the code of the server's error in place of its words if these repeat the password: some servers are sent it
/// as it is.
fn without_password(mut fault: DbFault, code: Option<&str>, password: &[u8]) -> DbFault {
    let mut hidden = Hidden::default();
    hidden.add_key(&String::from_utf8_lossy(password));
    if let Some(code) = code.filter(|_| hidden.is_in(&fault.words)) {
        fault.words = format!("the server refuses with SQLSTATE {code}");
    }
    fault
}

/// Does something, and again while the server does not answer and there is still time. `wait` says why.
pub(super) fn insist<T>(
    longest: Duration,
    wait: &ServerWait,
    mut attempt: impl FnMut() -> Result<T, DbFault>,
) -> Result<T, DbFault> {
    let (started, mut pause) = (Instant::now(), PAUSES.0);
    loop {
        let done = attempt();
        let left = longest.saturating_sub(started.elapsed());
        match done {
            Err(fault) if fault.may_pass() && !left.is_zero() => {
                wait.set(Some(fault.words));
                rest(pause.min(left));
                pause = PAUSES.1.min(pause * 2);
            }
            done if pause == PAUSES.0 => return done,
            done => {
                wait.set(None);
                let time = numbers::time(started.elapsed());
                return done.map_err(|mut fault| {
                    if fault.kind == DbFaultKind::Away {
                        let why = fault.words;
                        fault.words =
                            format!("the ledger's server has not answered for {time} ({why})");
                    }
                    fault
                });
            }
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

/// How connections are encrypted: for servers with a certificate by the system's authorities, or by one in this file.
fn tls(authorities: Option<&Path>) -> Result<MakeRustlsConnect, DbFault> {
    let cannot = |error: rustls::Error| DbFault::new(DbFaultKind::Refused, error.to_string());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let roots = authorities.map(read_pem).transpose()?.unwrap_or_default();
    let verifier = Verifier::new_with_extra_roots(roots, Arc::clone(&provider)).map_err(cannot)?;
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(cannot)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    // As the server asks for where a connection starts with TLS.
    config.alpn_protocols = vec![b"postgresql".to_vec()];
    Ok(MakeRustlsConnect::new(config))
}

/// The certificates in a PEM file.
fn read_pem(file: &Path) -> Result<Vec<CertificateDer<'static>>, DbFault> {
    let pem = read_small(file).unwrap_or_default();
    let roots: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    roots.ok().filter(|roots| !roots.is_empty()).ok_or_else(|| {
        let words = format!("`{}` cannot be read or has no certificate", shown(file));
        DbFault::new(DbFaultKind::Refused, words)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_repeat_the_password_in_any_form_are_not_shown() {
        let plain = "password authentication failed for user \"risk\"";
        for (words, is_shown) in [
            (plain, true),
            ("no access with Tr0ub4dor&3", false),
            ("no access with tr0ub4d…", false),
            ("no access with Tr0ub4dor%263", false),
            ("no access with VHIwdWI0ZG9yJjM=", false),
        ] {
            let fault = DbFault::new(DbFaultKind::Refused, words);
            let fault = without_password(fault, Some("28P01"), b"Tr0ub4dor&3");
            assert_eq!(fault.words == words, is_shown, "{words}");
            assert!(is_shown || fault.words.ends_with("SQLSTATE 28P01"));
        }
        // There is none.
        let fault = DbFault::new(DbFaultKind::Refused, plain);
        assert_eq!(without_password(fault, Some("28P01"), b"").words, plain);
    }
}
