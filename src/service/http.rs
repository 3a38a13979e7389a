//! The HTTP client: the only file that names reqwest.
//!
//! It sends a body and brings back what came, or why nothing came, as plain data. It never sends anything twice, never
//! follows a redirect, and lets no key or URL into a message.

mod fault;

use std::cell::{Cell, RefCell};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use bytes::{Bytes, BytesMut};
use futures::FutureExt;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Method, Request};

use super::endpoint::LOCALHOST;
use super::{
    Endpoint, Exchange, KeyFile, Keys, Proxy, ProxyName, Renewal, Reply, Sent, Service, ServiceId,
    pinned,
};
use crate::base::error::{Error, Result};
use crate::base::secret::Secret;

/// What the client must know.
#[derive(Debug, Clone)]
pub struct ClientSettings {
    /// Where requests go.
    pub endpoint: Endpoint,
    /// The bearer token.
    pub api_key: Secret,
    /// The file that it came from; `None` where nothing can have changed, as in a variable.
    pub key_file: Option<KeyFile>,
    /// The calling application's identifier.
    pub service_id: ServiceId,
    /// The proxy that a variable names for the endpoint.
    pub proxy: Option<Proxy>,
    /// From the request's begin to the answer's last byte.
    pub timeout: Duration,
    /// For the connection alone.
    pub connect_timeout: Duration,
    /// A further certificate authority, or the service's own certificate, PEM.
    pub ca_file: Option<PathBuf>,
}

/// Connections idle for longer are not used again: at the usual 90 s, 9 of 40 sends met a server that was just closing.
const POOL_IDLE: Duration = Duration::from_secs(4);

/// A client for one endpoint.
pub(crate) struct Client {
    connections: Connections,
    endpoint: Endpoint,
    proxy: Option<ProxyName>,
    key: RefCell<Key>,
    key_file: Option<KeyFile>,
}

/// The key in use.
struct Key {
    secret: Secret,
    /// What each request has at its head, this key with it.
    headers: HeaderMap,
    /// It and those before it.
    used: Keys,
}

impl Client {
    /// Builds the client; sends nothing.
    ///
    /// # Errors
    /// Exit code 2: a key that cannot stand in a header, a proxy's address that the library does not accept, or
    /// certificates that cannot be read.
    pub(crate) fn new(settings: ClientSettings) -> Result<Self> {
        // Another part of the process may have installed one: then that is used.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let named = settings.proxy.as_ref().map(Proxy::name).cloned();
        Ok(Self {
            connections: Connections::new(Setup {
                connect_timeout: settings.connect_timeout,
                timeout: settings.timeout,
                loopback: settings.endpoint.is_loopback(),
                plain: settings.endpoint.is_plain(),
                proxy: settings.proxy.as_ref().map(proxy).transpose()?,
                tls: { settings.ca_file.as_deref() }
                    .map(|path| pinned::client_config(path, &settings.endpoint))
                    .transpose()?,
            })?,
            proxy: named.or_else(|| ProxyName::of_system(&settings.endpoint)),
            endpoint: settings.endpoint,
            key: RefCell::new(Key {
                headers: headers(&settings.service_id, &settings.api_key)?,
                used: Keys::new(settings.api_key.clone()),
                secret: settings.api_key,
            }),
            key_file: settings.key_file,
        })
    }

    #[expect(
        clippy::manual_async_fn,
        reason = "an `async fn` holds twice what it is given, and this is a part of what is allocated for each row"
    )]
    fn exchange(
        &self,
        sent: Bytes,
    ) -> impl Future<Output = std::result::Result<Reply, reqwest::Error>> {
        async move {
            let mut request = Request::new(Method::POST, self.endpoint.url().clone());
            // One copy of the whole: header by header, with defaults of the client's behind, takes 500 instructions more.
            request.headers_mut().clone_from(&self.key.borrow().headers);
            *request.body_mut() = Some(sent.clone().into());
            // Held until the answer is whole: by it the calls of a client are counted.
            let client = self.connections.client();
            let mut response = client.execute(request).await?;
            let status = response.status().as_u16();
            let (mut body, mut cut) = (Body::default(), false);
            loop {
                match response.chunk().await {
                    Ok(Some(chunk)) if body.len() + chunk.len() > Reply::MAX_BODY => {
                        cut = true;
                        break;
                    }
                    Ok(Some(chunk)) => body.push(chunk),
                    // A success that breaks off may have been billed. Of anything else the status says it all.
                    Err(error) if (200..300).contains(&status) => return Err(error),
                    Ok(None) | Err(_) => break,
                }
            }
            Ok(Reply {
                status,
                headers: std::mem::take(response.headers_mut()),
                body: body.into_bytes(),
                cut,
                sent: Sent {
                    // As of now: the key may have been renewed while this was out.
                    api_keys: self.key.borrow().used.clone(),
                    body: sent,
                },
            })
        }
    }
}

/// Calls of one client at a time. Over HTTP/2 they share one connection, and the library has those wait unsent that are
/// more than the server allows on it, while their time runs: they would seem to be slow, or to have been sent and got no
/// answer. RFC 9113 (6.5.2) recommends that servers allow no fewer than these.
const STREAMS: usize = 100;

/// The connections, and how to make new ones. As many clients as the calls need have theirs.
///
/// The library does not use one again that was idle for long. But it tells time by a clock that stands still while a
/// laptop sleeps, and then the first calls would go out on connections that nobody remembers: by the clock on the wall,
/// after a rest of any kind, all are made anew.
struct Connections {
    setup: Setup,
    first: RefCell<Rc<reqwest::Client>>,
    further: RefCell<Vec<Rc<reqwest::Client>>>,
    used: Cell<SystemTime>,
}

/// What a client is made of.
struct Setup {
    connect_timeout: Duration,
    timeout: Duration,
    loopback: bool,
    plain: bool,
    proxy: Option<reqwest::Proxy>,
    /// What TLS is set up with, where certificates were given.
    tls: Option<rustls::ClientConfig>,
}

impl Connections {
    fn new(setup: Setup) -> Result<Self> {
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
    fn client(&self) -> Rc<reqwest::Client> {
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

/// A body as it arrives. Nearly every one is a single chunk: then nothing is copied.
#[derive(Default)]
struct Body {
    first: Bytes,
    all: BytesMut,
}

impl Body {
    fn len(&self) -> usize {
        self.first.len().max(self.all.len())
    }

    fn push(&mut self, chunk: Bytes) {
        if self.first.is_empty() && self.all.is_empty() {
            self.first = chunk;
            return;
        }
        self.all.extend_from_slice(&std::mem::take(&mut self.first));
        self.all.extend_from_slice(&chunk);
    }

    fn into_bytes(self) -> Bytes {
        if self.all.is_empty() {
            self.first
        } else {
            self.all.freeze()
        }
    }
}

impl Service for Client {
    fn ask(&self, body: Bytes) -> impl Future<Output = Exchange> {
        self.exchange(body).map(|exchange| {
            self.connections.used.set(SystemTime::now());
            exchange.map_err(|error| {
                fault::fault(&error.without_url(), &self.endpoint, self.proxy.as_ref())
            })
        })
    }

    fn renew_key(&self) -> Renewal {
        let Some(file) = &self.key_file else {
            return Renewal::Fixed;
        };
        let mut key = self.key.borrow_mut();
        let secret = match file.read_again(&key.secret) {
            Ok(secret) => secret,
            Err(why) => return Renewal::Kept(why),
        };
        match authorization(&secret) {
            Ok(authorization) => {
                key.headers.insert(AUTHORIZATION, authorization);
                key.used = key.used.and(&secret);
                key.secret = secret;
                Renewal::Renewed
            }
            Err(error) => Renewal::Kept(error.to_string()),
        }
    }

    fn longest_call(&self) -> Duration {
        self.connections.setup.timeout
    }
}

/// The proxy for the library, which is then asked for every request.
fn proxy(proxy: &Proxy) -> Result<reqwest::Proxy> {
    // Without the cause: it may name the address, and so a password.
    reqwest::Proxy::all(proxy.url())
        .map_err(|_| Error::usage(format!("{} cannot be used", proxy.name())))
}

/// The headers of each request.
fn headers(service_id: &ServiceId, key: &Secret) -> Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    headers.insert(AUTHORIZATION, authorization(key)?);
    headers.insert("x-service-id", header("service id", service_id.as_str())?);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(headers)
}

fn authorization(key: &Secret) -> Result<HeaderValue> {
    let mut value = header("API key", &format!("Bearer {}", key.expose()))?;
    value.set_sensitive(true);
    Ok(value)
}

fn header(what: &str, text: &str) -> Result<HeaderValue> {
    HeaderValue::try_from(text).map_err(|_| {
        Error::usage(format!(
            "the {what} has a line break or another control character in it"
        ))
    })
}

#[cfg(test)]
mod tests;
