//! The connections to the service, and when new ones are made.

use std::cell::{Cell, RefCell};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use super::super::endpoint::LOCALHOST;
use crate::base::error::{Error, Result};

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

/// The connections, and how to make new ones. There are as many clients as the calls need, each
/// with its own connections.
///
/// The library does not reuse connections that were idle for long. But it uses a clock that stops
/// while a laptop sleeps, and afterwards the first calls would be sent on connections that the
/// server has long forgotten. So after a pause by the wall clock, all connections are made again.
pub(super) struct Connections {
    pub(super) options: ClientOptions,
    first: RefCell<Rc<reqwest::Client>>,
    further: RefCell<Vec<Rc<reqwest::Client>>>,
    /// The client that reuses no connection, once there is one.
    single_use: RefCell<Option<Rc<reqwest::Client>>>,
    pub(super) used: Cell<SystemTime>,
    /// After so many more answers that were mixed up, connections are no longer reused.
    leaves: Cell<u32>,
}

/// The mixed-up answer after which connections are no longer reused. Each of them is a wrong verdict, and so may be others
/// that are on their way then; a new connection for each call only costs time. Once or twice may be an accident.
const MOST_LEAVES: u32 = 3;

/// Whether a client keeps its connections for further calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeepAlive {
    Yes,
    No,
}

/// The settings of the library's clients.
pub(super) struct ClientOptions {
    pub(super) connect_timeout: Duration,
    pub(super) timeout: Duration,
    pub(super) loopback: bool,
    pub(super) plain: bool,
    pub(super) proxy: Option<reqwest::Proxy>,
    /// The TLS configuration, if certificates were given.
    pub(super) tls: Option<rustls::ClientConfig>,
}

impl Connections {
    pub(super) fn new(options: ClientOptions) -> Result<Self> {
        let client = options
            .client(KeepAlive::Yes)
            .map_err(|e| Error::usage("cannot set up the HTTP client").because(e))?;
        Ok(Self {
            options,
            first: RefCell::new(Rc::new(client)),
            further: RefCell::default(),
            single_use: RefCell::default(),
            used: Cell::new(SystemTime::now()),
            leaves: Cell::new(MOST_LEAVES),
        })
    }

    /// The client for a call that starts now. The caller drops it when the call is over.
    pub(super) fn client(&self) -> Rc<reqwest::Client> {
        if self.leaves.get() == 0 {
            return self.single_use();
        }
        let now = SystemTime::now();
        // A clock that was set back says nothing.
        let rest = now
            .duration_since(self.used.replace(now))
            .unwrap_or_default();
        if rest > POOL_IDLE {
            self.renew();
        }
        let (first, mut further) = (self.first.borrow(), self.further.borrow_mut());
        // The first client with a free stream. Those that are no longer needed get no calls, and close their
        // connections.
        let has_room = |client: &&Rc<_>| Rc::strong_count(client) <= STREAMS;
        if let Some(client) = std::iter::once(&*first).chain(&*further).find(has_room) {
            return Rc::clone(client);
        }
        // The first client could be built, so this one can be, too. If not, the call waits within
        // the library.
        let client = self
            .options
            .client(KeepAlive::Yes)
            .map_or_else(|_| Rc::clone(&first), Rc::new);
        further.push(Rc::clone(&client));
        client
    }

    /// The client that makes a new connection for each call, so that any number of calls may use it.
    fn single_use(&self) -> Rc<reqwest::Client> {
        let mut client = self.single_use.borrow_mut();
        let client = client.get_or_insert_with(|| {
            // As above, it can be built.
            let built = self.options.client(KeepAlive::No);
            built.map_or_else(|_| Rc::clone(&self.first.borrow()), Rc::new)
        });
        Rc::clone(client)
    }

    /// Gives up all connections because answers were mixed up. Whether, from this moment on, none is reused any more.
    pub(super) fn leave(&self) -> bool {
        let Some(left) = self.leaves.get().checked_sub(1) else {
            return false;
        };
        self.leaves.set(left);
        self.renew();
        left == 0
    }

    /// Calls that start from now on get new connections.
    fn renew(&self) {
        if let Ok(fresh) = self.options.client(KeepAlive::Yes) {
            self.first.replace(Rc::new(fresh));
            self.further.borrow_mut().clear();
        }
    }
}

impl ClientOptions {
    fn client(&self, reuse: KeepAlive) -> reqwest::Result<reqwest::Client> {
        let mut builder = reqwest::Client::builder()
            // For proxies, when they are asked for a connection. Calls have headers of their own.
            .user_agent(USER_AGENT)
            .redirect(reqwest::redirect::Policy::none())
            // Without the limit, a copy of each request would be kept for a retry that never comes.
            .retry(reqwest::retry::never().max_retries_per_request(0))
            .referer(false)
            .pool_idle_timeout(POOL_IDLE)
            // If the total time ended first, a call that was never sent would count as possibly
            // billed.
            .connect_timeout(self.connect_timeout.min(self.timeout.mul_f64(0.8)))
            .timeout(self.timeout);
        if reuse == KeepAlive::No {
            builder = builder.pool_max_idle_per_host(0);
        }
        if self.loopback {
            // Whatever the resolver or the hosts file says, key and data must not leave this
            // machine unencrypted. An address where nobody listens is skipped.
            let here = [
                SocketAddr::from((Ipv6Addr::LOCALHOST, 0)),
                SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            ];
            builder = builder.no_proxy().resolve_to_addrs(LOCALHOST, &here);
        } else if let Some(proxy) = &self.proxy {
            builder = builder.proxy(proxy.clone());
        }
        if self.plain {
            // TLS is not used. A machine without certificates, such as a small container, is enough
            // for the sandbox.
            builder = builder.tls_certs_only([]);
        } else if let Some(tls) = &self.tls {
            builder = builder.tls_backend_preconfigured(tls.clone());
        }
        builder.build()
    }
}
