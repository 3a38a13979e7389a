//! The connections to the service: when they are reused, when new ones are made, and which certificates are trusted: those that
//! this machine trusts, and further authorities from a file.
//!
//! It must not know what is sent on them.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hyper_util::client::legacy::connect::HttpInfo;
use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls_platform_verifier::Verifier;

use super::endpoint::LOCALHOST;
use crate::base::error::{Error, Result};
use crate::base::own_file::read_small;

/// What the program calls itself.
pub(super) const USER_AGENT: &str = concat!("rescore/", env!("CARGO_PKG_VERSION"));

/// Connections that were idle for longer are not reused: with the usual 90 s, 9 of 40 requests met
/// a server that was just closing the connection.
pub(super) const POOL_IDLE: Duration = Duration::from_secs(4);

/// Concurrent calls per client. Over HTTP/2 they share one connection. If there are more calls than
/// the server allows on it, the library holds them back unsent while their time runs: they would
/// look slow, or as if they had been sent and not answered. RFC 9113 (6.5.2) recommends that
/// servers allow at least this many.
const STREAMS: usize = 100;

/// Calls per HTTP/1.1 connection, on average, after which a client is replaced. HTTP/1.1 has no
/// numbers that tell whose an answer is: if a server sends one twice, each later answer on that
/// connection is taken for that of the next call. So this many rows can be wrong at most, and not
/// all until the end of the run.
const CALLS_PER_CONNECTION: usize = 100;

/// After this number of breaks, connections are no longer reused.
const MOST_BREAKS: u32 = 3;

/// The time limit for one connection attempt. A host that is there answers far sooner.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The connections. Clients are added as the calls need them, each with connections of its own.
///
/// The library does not reuse connections that were idle for long. But it uses a clock that stops
/// while a laptop sleeps, and afterwards the first calls would be sent on connections that the
/// server has long forgotten. So after a pause by the wall clock, all connections are made again.
pub(super) struct Connections {
    options: ClientOptions,
    clients: RefCell<Vec<Rc<PooledClient>>>,
    pub(super) used: Cell<SystemTime>,
    /// Whether an answer has come since the last break that was counted.
    answered: Cell<bool>,
    /// Breaks since a connection brought a second answer.
    breaks: Cell<u32>,
    /// Connections that have brought one answer since then, each of which may break when it is used
    /// again.
    used_once: Cell<usize>,
    /// How many calls an HTTP/2 connection takes before the server ends it, if that was seen.
    calls_taken: Cell<usize>,
    /// The service refuses HTTP/2.
    http1: Cell<bool>,
}

/// A client of the library, and what is known of its connections.
pub(super) struct PooledClient {
    pub(super) client: reqwest::Client,
    /// Our ends of the connections that brought an answer.
    ports: RefCell<HashSet<u16>>,
    /// How many calls it was given.
    calls: Cell<usize>,
    /// How many answers came over HTTP/1.1.
    answers: Cell<usize>,
    /// How many of them its HTTP/2 connection did not take, as it had ended.
    left_out: Cell<usize>,
}

/// The settings of the library's clients.
pub(super) struct ClientOptions {
    pub(super) timeout: Duration,
    pub(super) loopback: bool,
    /// The TLS configuration; `None` for plain HTTP.
    pub(super) tls: Option<ClientConfig>,
}

impl Connections {
    pub(super) fn new(options: ClientOptions) -> Result<Self> {
        let client = options.client(true, false);
        let client =
            client.map_err(|e| Error::usage("cannot set up the HTTP client").because(e))?;
        Ok(Self {
            options,
            clients: RefCell::new(vec![Rc::new(client)]),
            used: Cell::new(SystemTime::now()),
            answered: Cell::new(false),
            breaks: Cell::new(0),
            used_once: Cell::new(0),
            calls_taken: Cell::new(usize::MAX),
            http1: Cell::new(false),
        })
    }

    /// The client for a call that starts now: the first one with a free stream. The caller drops it
    /// when the call is over, as the calls of a client are counted by its references. Clients that
    /// are no longer needed get no calls, and close their connections.
    pub(super) fn client(&self) -> reqwest::Result<Rc<PooledClient>> {
        let now = SystemTime::now();
        // A clock that was set back says nothing.
        let rest = now.duration_since(self.used.replace(now));
        let mut clients = self.clients.borrow_mut();
        if rest.unwrap_or_default() > POOL_IDLE {
            clients.clear();
        }
        let most = self.calls_taken.get();
        clients.retain(|client| !client.is_worn() && client.calls.get() < most);
        let free = { clients.iter() }.find(|client| Rc::strong_count(client) <= STREAMS);
        let client = if let Some(client) = free {
            Rc::clone(client)
        } else {
            let reuses = self.breaks.get() < MOST_BREAKS;
            let client = Rc::new(self.options.client(reuses, self.http1.get())?);
            clients.push(Rc::clone(&client));
            client
        };
        client.calls.set(client.calls.get() + 1);
        Ok(client)
    }

    /// The server ended this client's HTTP/2 connection before it took a call. Further connections get as many calls as it took
    /// of those that it was given: more would be sent for nothing.
    pub(super) fn left_out_call(&self, client: &PooledClient) {
        client.left_out.set(client.left_out.get() + 1);
        let taken = client.calls.get().saturating_sub(client.left_out.get());
        self.calls_taken.set(taken.max(1));
    }

    /// The service refuses HTTP/2: from now on connections are made for HTTP/1.1.
    pub(super) fn use_http1(&self) {
        if !self.http1.replace(true) {
            self.clients.borrow_mut().clear();
        }
    }

    /// An answer came from this client.
    pub(super) fn answered(&self, by: &PooledClient, answer: &reqwest::Response) {
        self.answered.set(true);
        if answer.version() < reqwest::Version::HTTP_2 {
            by.answers.set(by.answers.get() + 1);
        }
        let Some(way) = answer.extensions().get::<HttpInfo>() else {
            return;
        };
        let is_first = by.ports.borrow_mut().insert(way.local_addr().port());
        if self.breaks.get() == MOST_BREAKS {
            return;
        }
        if is_first {
            self.used_once.set(self.used_once.get() + 1);
        } else {
            self.breaks.set(0);
            self.used_once.set(0);
        }
    }

    /// A connection broke before a byte of the answer. That is how it looks if a server closes a
    /// connection after each answer without saying so, just when the next call is sent on it. It
    /// counts if an answer came since the last one: if a server breaks all connections together, it
    /// is not their reuse. If no connection brings a second answer in between, no call loses
    /// anything when they are no longer reused. Returns whether it was probably the reuse, and so says
    /// nothing about the service.
    pub(super) fn broke(&self) -> bool {
        if self.breaks.get() < MOST_BREAKS && self.answered.replace(false) {
            self.breaks.set(self.breaks.get() + 1);
            // The call that goes again gets a connection that nothing came over yet.
            self.clients.borrow_mut().clear();
        }
        let others = self.used_once.get().checked_sub(1);
        others.map(|others| self.used_once.set(others)).is_some()
    }
}

impl PooledClient {
    /// Whether its connections have carried enough calls to be replaced, or have ended.
    fn is_worn(&self) -> bool {
        let connections = self.ports.borrow().len().max(1);
        self.left_out.get() > 0 || self.answers.get() >= connections * CALLS_PER_CONNECTION
    }
}

impl ClientOptions {
    fn client(&self, reuses: bool, http1: bool) -> reqwest::Result<PooledClient> {
        let mut builder = reqwest::Client::builder()
            // For proxies, when they are asked for a connection. Calls have headers of their own.
            .user_agent(USER_AGENT)
            .redirect(reqwest::redirect::Policy::none())
            // Without the limit, a copy of each request would be kept for a retry that never comes.
            .retry(reqwest::retry::never().max_retries_per_request(0))
            .referer(false)
            .pool_idle_timeout(POOL_IDLE)
            .pool_max_idle_per_host(if reuses { usize::MAX } else { 0 })
            // If the total time ended first, a call that was never sent would count as possibly
            // billed.
            .connect_timeout(CONNECT_TIMEOUT.min(self.timeout.mul_f64(0.8)))
            .timeout(self.timeout);
        if self.loopback {
            // Whatever the resolver or the hosts file says, key and data must not leave this
            // machine unencrypted. An address where nothing listens is skipped.
            let here = [
                SocketAddr::from((Ipv6Addr::LOCALHOST, 0)),
                SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            ];
            builder = builder.no_proxy().resolve_to_addrs(LOCALHOST, &here);
        }
        builder = match &self.tls {
            Some(tls) if http1 => {
                let mut tls = tls.clone();
                tls.alpn_protocols = vec![b"http/1.1".to_vec()];
                builder.tls_backend_preconfigured(tls)
            }
            Some(tls) => builder.tls_backend_preconfigured(tls.clone()),
            // A machine without certificates, such as a small container, is enough for the sandbox.
            None => builder.tls_certs_only([]),
        };
        Ok(PooledClient {
            client: builder.build()?,
            ports: RefCell::default(),
            calls: Cell::new(0),
            answers: Cell::new(0),
            left_out: Cell::new(0),
        })
    }
}

/// The TLS configuration for the service, with the certificates of this PEM file. One for all clients: connections that
/// are made again then take less.
///
/// # Errors
/// Exit code 2: the file cannot be read, or has no certificate.
pub(super) fn client_config(ca_file: Option<&Path>) -> Result<ClientConfig> {
    let further = ca_file.map(certificates).transpose()?.unwrap_or_default();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let cannot = || Error::usage("cannot set up TLS");
    let verifier = Verifier::new_with_extra_roots(further, Arc::clone(&provider))
        .map_err(|e| {
            let hint = "install the usual authorities, as with `apt install ca-certificates`, or name a file with `--ca-file`";
            cannot().because(e).hint(hint)
        })?;
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| cannot().because(e))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    // HTTP/2 wherever the service offers it: there, every answer says whose it is.
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let what = format!("cannot use the certificates in `{}`", path.display());
    let wrong = || Error::usage(what.clone());
    let pem = read_small(path).map_err(|e| wrong().because(e))?;
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<_, _>>()
        .map_err(|e| wrong().because(e))?;
    if certificates.is_empty() {
        return Err(wrong().detail("it has no PEM certificate"));
    }
    Ok(certificates)
}
