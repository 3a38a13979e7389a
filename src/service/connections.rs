//! The connections to the service: when they are reused, when new ones are made, and which certificates are trusted: those that
//! this machine trusts, and further authorities from a file.
//!
//! It must not know what is sent on them.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
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

/// Answers on one HTTP/1.1 connection after which the connections are replaced. HTTP/1.1 has no numbers that tell whose an
/// answer is: if another user's comes in between, each later one on that connection is taken for that of the next call. One
/// that comes twice shows by its id, and the connections are replaced at once. For any other, this many rows can be wrong, and
/// not all until the end of the run.
const ANSWERS_PER_CONNECTION: usize = 10_000;

/// After this number of breaks, connections are no longer reused.
const MOST_BREAKS: u32 = 3;

/// The time limit for one connection attempt. A host that is there answers far sooner.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The connections. Pools are added as the calls need them.
///
/// The library does not reuse connections that were idle for long. But it uses a clock that stops
/// while a laptop sleeps, and afterwards the first calls would be sent on connections that the
/// server has long forgotten. So after a pause by the wall clock, all connections are made again.
pub(super) struct Connections {
    options: ClientOptions,
    pools: RefCell<Vec<Rc<Pool>>>,
    pub(super) used: Cell<SystemTime>,
    /// Pools with a connection that broke when it was used again, since a connection brought a second answer.
    breaks: Cell<u32>,
    /// How many calls an HTTP/2 connection takes before the server ends it, if that was seen.
    calls_taken: Cell<usize>,
    /// The service refuses HTTP/2.
    http1: Cell<bool>,
}

/// A client of the library with its connections, and what is known of them.
pub(super) struct Pool {
    pub(super) client: reqwest::Client,
    /// How many answers each connection brought, by the port of our end.
    answers: RefCell<HashMap<u16, usize>>,
    /// How many calls it was given.
    calls: Cell<usize>,
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
        let pool = options.pool(true, false);
        let pool = pool.map_err(|e| Error::usage("cannot set up the HTTP client").because(e))?;
        Ok(Self {
            options,
            pools: RefCell::new(vec![Rc::new(pool)]),
            used: Cell::new(SystemTime::now()),
            breaks: Cell::new(0),
            calls_taken: Cell::new(usize::MAX),
            http1: Cell::new(false),
        })
    }

    /// The pool for a call that starts now: the first one with a free stream. The caller drops it
    /// when the call is over, as the calls of a pool are counted by its references. Pools that
    /// are no longer needed get no calls, and close their connections.
    pub(super) fn pool(&self) -> reqwest::Result<Rc<Pool>> {
        let now = SystemTime::now();
        // A clock that was set back says nothing.
        let idle = now.duration_since(self.used.replace(now));
        if idle.unwrap_or_default() > POOL_IDLE {
            self.replace_all();
        }
        let mut pools = self.pools.borrow_mut();
        pools.retain(|pool| pool.left_out.get() == 0 && pool.calls.get() < self.calls_taken.get());
        let free = pools.iter().find(|pool| Rc::strong_count(pool) <= STREAMS);
        let pool = if let Some(pool) = free {
            Rc::clone(pool)
        } else {
            let reuses = self.breaks.get() < MOST_BREAKS;
            let pool = Rc::new(self.options.pool(reuses, self.http1.get())?);
            pools.push(Rc::clone(&pool));
            pool
        };
        pool.calls.set(pool.calls.get() + 1);
        Ok(pool)
    }

    /// All calls that start from now on get new connections.
    pub(super) fn replace_all(&self) {
        self.pools.borrow_mut().clear();
    }

    /// The same for those of one pool. Returns whether it still got calls.
    fn replace(&self, pool: &Rc<Pool>) -> bool {
        let mut pools = self.pools.borrow_mut();
        let found = pools.iter().position(|other| Rc::ptr_eq(other, pool));
        found.map(|at| pools.remove(at)).is_some()
    }

    /// The server ended this pool's HTTP/2 connection before it took a call. Further connections get as many calls as it took
    /// of those that it was given: more would be sent for nothing.
    pub(super) fn left_out_call(&self, pool: &Pool) {
        pool.left_out.set(pool.left_out.get() + 1);
        let taken = pool.calls.get().saturating_sub(pool.left_out.get());
        self.calls_taken.set(taken.max(1));
    }

    /// The service refuses HTTP/2: from now on connections are made for HTTP/1.1.
    pub(super) fn use_http1(&self) {
        if !self.http1.replace(true) {
            self.replace_all();
        }
    }

    /// An answer came on a connection of this pool.
    pub(super) fn answered(&self, pool: &Rc<Pool>, answer: &reqwest::Response) {
        let Some(way) = answer.extensions().get::<HttpInfo>() else {
            return;
        };
        let mut answers = pool.answers.borrow_mut();
        let count = answers.entry(way.local_addr().port()).or_default();
        *count += 1;
        if *count > 1 && self.breaks.get() < MOST_BREAKS {
            self.breaks.set(0);
        }
        if *count >= ANSWERS_PER_CONNECTION && answer.version() < reqwest::Version::HTTP_2 {
            self.replace(pool);
        }
    }

    /// The connection at this port broke before a byte of an answer. If it had brought one answer, that is how it looks if a
    /// server closes a connection after each answer without saying so, just when the next call is sent on it. Connections that
    /// break together count once, as a server that restarts breaks them all. If no connection brings a second answer in
    /// between, no call loses anything when they are no longer reused. Returns whether it was probably the reuse, and so says
    /// nothing about the service.
    pub(super) fn broke(&self, pool: &Rc<Pool>, port: u16) -> bool {
        let was_reused = pool.answers.borrow().get(&port) == Some(&1);
        // The call that goes again gets a connection that nothing came over yet.
        if was_reused && self.breaks.get() < MOST_BREAKS && self.replace(pool) {
            self.breaks.set(self.breaks.get() + 1);
        }
        was_reused
    }
}

impl ClientOptions {
    fn pool(&self, reuses: bool, http1: bool) -> reqwest::Result<Pool> {
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
        Ok(Pool {
            client: builder.build()?,
            answers: RefCell::default(),
            calls: Cell::new(0),
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
