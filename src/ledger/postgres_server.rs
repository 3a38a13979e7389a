//! The connection to a server: how it is made, how long a server may take to answer, how long to wait until it can be made again,
//! and what failures mean.

use std::error::Error as _;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls_platform_verifier::Verifier;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, timeout};
use tokio_postgres::Error;
use tokio_postgres_rustls::MakeRustlsConnect;

use super::fault::{DbFault, DbFaultKind};
use super::server_url::{Connection, ServerUrl};
use super::settings::ServerWait;
use crate::base::error::system_words;
use crate::base::numbers;
use crate::base::private_file::read_small;
use crate::base::secret::Hidden;
use crate::base::text::{display, printable};

/// How long is waited between attempts, at first and at most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(5));

impl From<Error> for DbFault {
    fn from(error: Error) -> Self {
        let cause = error.source();
        if let Some(error) = error.as_db_error() {
            // Only the message: the detail may have values.
            let (words, state) = (printable(error.message()), error.code().code());
            return match (state, state.get(..2).unwrap_or_default()) {
                // A table, a column or a function is not there.
                ("42P01" | "42703" | "42883", _) => Self::missing(),
                ("25006", _) => Self::new(DbFaultKind::ReadOnly, words),
                // The message has the value that is wrong.
                (_, "22") => Self::new(DbFaultKind::Refused, format!("SQLSTATE {state}")),
                // Connections, transactions that are not possible now, deadlocks, resources such as a full disk, objects in use, operators, the system, and the server's own failures.
                (_, "08" | "25" | "40" | "53" | "55" | "57" | "58" | "XX") => {
                    Self::new(DbFaultKind::Away, words)
                }
                _ => Self::new(DbFaultKind::Refused, format!("{words} (SQLSTATE {state})")),
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

/// Connects to a server, with the password from where PostgreSQL's own programs take it.
pub(super) fn connect(url: &ServerUrl, patience: Duration) -> Result<Connection, DbFault> {
    let (config, tls) = (url.with_password(), tls(url.authorities.as_deref())?);
    let hosts = u32::try_from(config.get_hosts().len()).unwrap_or(1);
    let longest = config.get_connect_timeout().copied().unwrap_or_default() * hosts;
    let password = config.get_password().unwrap_or_default().to_owned();
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| DbFault::new(DbFaultKind::Away, system_words(&e)))?;
    let connect = async {
        let (client, driver) = config.connect(tls).await?;
        tokio::spawn(driver);
        Ok::<_, Error>(client)
    };
    match wait(&runtime, longest, connect) {
        Ok(client) => Ok(Connection {
            client,
            runtime,
            patience,
        }),
        Err(fault) => {
            // The system may still be looking for the server's name.
            runtime.shutdown_background();
            Err(without_password(fault, &password))
        }
    }
}

impl Connection {
    /// Waits for what the server answers.
    pub(super) fn wait<T>(
        &self,
        answer: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, DbFault> {
        wait(&self.runtime, self.patience, answer)
    }
}

/// Waits for an answer. A server that gives none in time, or something on the way to it that hangs, is away: what it has done is
/// not known, as after a connection that broke.
fn wait<T>(
    runtime: &Runtime,
    patience: Duration,
    answer: impl Future<Output = Result<T, Error>>,
) -> Result<T, DbFault> {
    let answered = runtime.block_on(async { timeout(patience, answer).await });
    let none = |_| {
        let words = format!("no answer within {}", numbers::time(patience));
        DbFault::new(DbFaultKind::Away, words)
    };
    Ok(answered.map_err(none)??)
}

/// The fault, without the server's words if these repeat the password: some servers are sent it as it is.
fn without_password(fault: DbFault, password: &[u8]) -> DbFault {
    let mut hidden = Hidden::default();
    hidden.add_key(&String::from_utf8_lossy(password));
    if hidden.is_in(&fault.words) {
        let words = "the server refuses in words that repeat the password";
        return DbFault::new(fault.kind, words);
    }
    fault
}

/// Does something, and again while the server does not answer and there is still time. `wait` says why.
pub(super) fn retry_until<T>(
    longest: Duration,
    wait: &ServerWait,
    mut attempt: impl FnMut() -> Result<T, DbFault>,
) -> Result<T, DbFault> {
    let (started, mut between) = (Instant::now(), PAUSES.0);
    loop {
        let mut done = attempt();
        let lasted = started.elapsed();
        let left = longest.saturating_sub(lasted);
        match &mut done {
            Err(fault) if fault.may_pass() && !left.is_zero() => {
                wait.set(Some((started, fault.words.clone())));
                pause(between.min(left));
                between = PAUSES.1.min(between * 2);
                continue;
            }
            Err(fault) if fault.kind == DbFaultKind::Away && !longest.is_zero() => {
                let (time, why) = (numbers::time(lasted), &fault.words);
                fault.words = format!("the ledger's server has not answered for {time} ({why})");
            }
            _ => {}
        }
        wait.set(None);
        return done;
    }
}

/// Waits on a thread that has nothing else to do. Workers that lost the server together do not come back together.
#[allow(clippy::disallowed_methods, reason = "no call waits for it")]
fn pause(time: Duration) {
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
        let words = format!("`{}` cannot be read or has no certificate", display(file));
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
            let fault = without_password(fault, b"Tr0ub4dor&3");
            assert_eq!(fault.words == words, is_shown, "{words}");
        }
        // There is none.
        let fault = DbFault::new(DbFaultKind::Refused, plain);
        assert_eq!(without_password(fault, b"").words, plain);
    }
}
