//! The connections to the service, and when new ones are made.

use std::cell::{Cell, RefCell};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use super::super::endpoint::LOCALHOST;
use crate::base::error::{Error, Result};

/// Connections idle for longer are not used again: at the usual 90 s, 9 of 40 sends met a server that was just closing.
pub(super) const POOL_IDLE: Duration = Duration::from_secs(4);

/// Calls of one client at a time. Over HTTP/2 they share one connection, and the library has those wait unsent that are
/// more than the server allows on it, while their time runs: they would seem to be slow, or to have been sent and got no
/// answer. RFC 9113 (6.5.2) recommends that servers allow no fewer than these.
const STREAMS: usize = 100;

/// The connections, and how to make new ones. As many clients as the calls need have theirs.
///
/// The library does not use one again that was idle for long. But it tells time by a clock that stands still while a
/// laptop sleeps, and then the first calls would go out on connections that nobody remembers: by the clock on the wall,
/// after a rest of any kind, all are made anew.
pub(super) struct Connections {
    pub(super) setup: Setup,
    first: RefCell<Rc<reqwest::Client>>,
    further: RefCell<Vec<Rc<reqwest::Client>>>,
    pub(super) used: Cell<SystemTime>,
}

/// What a client is made of.
pub(super) struct Setup {
    pub(super) connect_timeout: Duration,
    pub(super) timeout: Duration,
    pub(super) loopback: bool,
    pub(super) plain: bool,
    pub(super) proxy: Option<reqwest::Proxy>,
    /// What TLS is set up with, where certificates were given.
    pub(super) tls: Option<rustls::ClientConfig>,
}

impl Connections {
    pub(super) fn new(setup: Setup) -> Result<Self> {
        let client = setup
            .client()
            .map_err(|e| Error::usage("cannot set up the HTTP client").because(e))?;
        Ok(Self {
            setup,
            first: RefCell::new(Rc::new(client)),
            further: RefCell::default(),
            used: Cell::new(SystemTime::now()),
        })
    }

    /// The client for a call that begins now, to be dropped when it is over.
    pub(super) fn client(&self) -> Rc<reqwest::Client> {
        let now = SystemTime::now();
        // A clock that was set back says nothing.
        let rest = now
            .duration_since(self.used.replace(now))
            .unwrap_or_default();
        let (mut first, mut further) = (self.first.borrow_mut(), self.further.borrow_mut());
        if rest > POOL_IDLE
            && let Ok(fresh) = self.setup.client()
        {
            *first = Rc::new(fresh);
            further.clear();
        }
        // The first that has room: those that are not needed any more get no calls, and close their connections.
        let has_room = |client: &&Rc<_>| Rc::strong_count(client) <= STREAMS;
        if let Some(client) = std::iter::once(&*first).chain(&*further).find(has_room) {
            return Rc::clone(client);
        }
        // The first one could be made, so this one can; were it not so, the call would wait within the library.
        let client = self
            .setup
            .client()
            .map_or_else(|_| Rc::clone(&first), Rc::new);
        further.push(Rc::clone(&client));
        client
    }
}

impl Setup {
    fn client(&self) -> reqwest::Result<reqwest::Client> {
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("rescore/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            .pool_idle_timeout(POOL_IDLE)
            // Were the whole time over first, a call that never left would count as perhaps billed.
            .connect_timeout(self.connect_timeout.min(self.timeout.mul_f64(0.8)))
            .timeout(self.timeout);
        if self.loopback {
            // Whatever the resolver or a file of hosts says: key and data must not leave this machine unencrypted. An
            // address that nobody listens at is passed over.
            let here = [
                SocketAddr::from((Ipv6Addr::LOCALHOST, 0)),
                SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            ];
            builder = builder.no_proxy().resolve_to_addrs(LOCALHOST, &here);
        } else if let Some(proxy) = &self.proxy {
            builder = builder.proxy(proxy.clone());
        }
        if self.plain {
            // No TLS will be spoken: a machine without certificates, as a small container, must do for the sandbox.
            builder = builder.tls_certs_only([]);
        } else if let Some(tls) = &self.tls {
            builder = builder.tls_backend_preconfigured(tls.clone());
        }
        builder.build()
    }
}
