//! The HTTP client: the only file that names reqwest.
//!
//! It sends a body and brings back what came, or why nothing came, as plain data. It never sends anything twice, never
//! follows a redirect, and lets no key or URL into a message.

use std::cell::{Cell, RefCell};
use std::error::Error as StdError;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use bytes::{Bytes, BytesMut};
use futures::FutureExt;
use hyper_util::client::proxy::matcher::Matcher;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Method, Request};

use super::{
    Endpoint, Exchange, KeyFile, Keys, Renewal, Reply, Sent, Service, TransportFault, trust,
};
use crate::error::{Error, Result, system_words};
use crate::secret::Secret;

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
    pub service_id: String,
    /// From the request's begin to the answer's last byte.
    pub timeout: Duration,
    /// For the connection alone.
    pub connect_timeout: Duration,
    /// A further certificate authority, PEM.
    pub ca_file: Option<PathBuf>,
}

/// Connections idle for longer are not used again: at the usual 90 s, 9 of 40 sends met a server that was just closing.
const POOL_IDLE: Duration = Duration::from_secs(4);

/// A client for one endpoint.
pub struct Client {
    connections: Connections,
    endpoint: Endpoint,
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
    /// Exit code 2: a key or service id that cannot stand in a header, or certificates that cannot be read.
    pub fn new(settings: ClientSettings) -> Result<Self> {
        // Another part of the process may have installed one: then that is used.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Ok(Self {
            connections: Connections::new(Setup {
                connect_timeout: settings.connect_timeout,
                timeout: settings.timeout,
                loopback: settings.endpoint.is_loopback(),
                plain: settings.endpoint.is_plain(),
                certificates: settings.ca_file.as_deref().map(certificates).transpose()?,
            })?,
            endpoint: settings.endpoint,
            key: RefCell::new(Key {
                headers: headers(settings.service_id, &settings.api_key)?,
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
            let answer = self.connections.client().execute(request);
            let mut response = answer.await?;
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

/// The connections, and how to make them anew.
///
/// The library does not use one again that was idle for long. But it tells time by a clock that stands still while a
/// laptop sleeps, and then the first calls would go out on connections that nobody remembers: by the clock on the wall,
/// after a rest of any kind, all are made anew.
struct Connections {
    setup: Setup,
    client: RefCell<reqwest::Client>,
    used: Cell<SystemTime>,
}

/// What a client is made of.
struct Setup {
    connect_timeout: Duration,
    timeout: Duration,
    loopback: bool,
    plain: bool,
    certificates: Option<Vec<reqwest::Certificate>>,
}

impl Connections {
    fn new(setup: Setup) -> Result<Self> {
        let client = setup
            .client()
            .map_err(|e| Error::usage("cannot set up the HTTP client").because(e))?;
        Ok(Self {
            setup,
            client: RefCell::new(client),
            used: Cell::new(SystemTime::now()),
        })
    }

    /// The client for a call that begins now.
    fn client(&self) -> reqwest::Client {
        let now = SystemTime::now();
        // A clock that was set back says nothing.
        let rest = now
            .duration_since(self.used.replace(now))
            .unwrap_or_default();
        if rest > POOL_IDLE
            && let Ok(fresh) = self.setup.client()
        {
            self.client.replace(fresh);
        }
        self.client.borrow().clone()
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
            builder = builder.no_proxy();
        }
        if self.plain {
            // No TLS will be spoken: a machine without certificates, as a small container, must do for the sandbox.
            builder = builder.tls_certs_only([]);
        } else if let Some(further) = &self.certificates {
            builder = builder.tls_certs_merge(further.iter().cloned());
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
                let error = error.without_url();
                if error.is_dns() {
                    // Who asks a proxy for the way leaves the name of the service to it.
                    return match proxy(&self.endpoint) {
                        Some(host) => TransportFault::ProxyNotFound(host),
                        None => TransportFault::HostNotFound(self.endpoint.host().to_owned()),
                    };
                }
                fault(&error)
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

/// The certificates of a PEM file.
fn certificates(path: &Path) -> Result<Vec<reqwest::Certificate>> {
    let wrong = || {
        Error::usage(format!(
            "cannot use the certificates in `{}`",
            path.display()
        ))
    };
    let pem = std::fs::read(path).map_err(|e| wrong().because(e))?;
    let certificates =
        reqwest::Certificate::from_pem_bundle(&pem).map_err(|e| wrong().because(e))?;
    if certificates.is_empty() {
        return Err(wrong().detail("it holds no PEM certificate"));
    }
    Ok(certificates)
}

/// The headers of each request.
fn headers(service_id: String, key: &Secret) -> Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    headers.insert(AUTHORIZATION, authorization(key)?);
    headers.insert("x-service-id", header("service id", service_id)?);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(headers)
}

fn authorization(key: &Secret) -> Result<HeaderValue> {
    let mut value = header("API key", format!("Bearer {}", key.expose()))?;
    value.set_sensitive(true);
    Ok(value)
}

fn header(what: &str, text: String) -> Result<HeaderValue> {
    HeaderValue::try_from(text).map_err(|_| {
        Error::usage(format!(
            "the {what} has a line break or another control character in it"
        ))
    })
}

const HUNG_UP: &str = "the other side hung up";

/// What a reqwest error means. The causes are asked by type, outermost first; `is_connect` before `is_timeout`, as a
/// connection that times out is both.
fn fault(error: &reqwest::Error) -> TransportFault {
    if let Some(tls) = find::<rustls::Error>(error) {
        return match tls {
            rustls::Error::InvalidCertificate(reason) => {
                TransportFault::Certificate(trust::words(reason))
            }
            rustls::Error::InvalidMessage(_) if error.is_connect() => TransportFault::NotTls,
            other if error.is_connect() => TransportFault::Handshake(other.to_string()),
            other => TransportFault::Broken(other.to_string()),
        };
    }
    if error.is_connect() {
        // A proxy's refusal has no type that could be asked for; everything else below a connection is the system's.
        return match find::<io::Error>(error).map(unwrapped) {
            // The system's own time-out has words of its own; ours comes in the wording of a library.
            Some(cause) if cause.raw_os_error().is_some() => {
                TransportFault::Unreachable(system_words(cause))
            }
            _ if error.is_timeout() => TransportFault::Unreachable("timed out".to_owned()),
            Some(cause) if cause.kind() == io::ErrorKind::UnexpectedEof => {
                TransportFault::Handshake(HUNG_UP.to_owned())
            }
            Some(cause) => TransportFault::Unreachable(system_words(cause)),
            None => of_proxy(&innermost(error)),
        };
    }
    if error.is_timeout() {
        return TransportFault::TimedOut;
    }
    // Whoever has begun to answer has processed it, whatever is said afterwards.
    if error.is_request()
        && let Some(refused) = find::<h2::Error>(error).filter(|error| is_unprocessed(error))
    {
        return TransportFault::Unprocessed(of_h2(refused));
    }
    TransportFault::Broken(innermost(error))
}

/// Whether an HTTP/2 server says that it has not processed the request (RFC 9113, section 8.7): by refusing its stream, or
/// by going away with a last stream before it. Streams up to the last one do not end with that error.
fn is_unprocessed(error: &h2::Error) -> bool {
    let refused = error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM);
    error.is_remote() && (refused || error.is_go_away())
}

/// The host of the proxy that requests go through, without the login that its address may hold. The rules are the HTTP
/// library's own.
fn proxy(endpoint: &Endpoint) -> Option<String> {
    if endpoint.is_loopback() {
        return None;
    }
    let uri = endpoint.url().as_str().parse().ok()?;
    let proxy = Matcher::from_system().intercept(&uri)?;
    proxy.uri().host().map(str::to_owned)
}

/// What came of asking a proxy for a way to the service. The library's error has no type that could be asked for, so a
/// login that is missing is known by the library's words; were they to change, it would be tried again as the rest is.
fn of_proxy(words: &str) -> TransportFault {
    let words = words.strip_prefix("tunnel error: ").unwrap_or(words);
    if words == "proxy authorization required" {
        TransportFault::ProxyLogin
    } else {
        TransportFault::Proxy(words.to_owned())
    }
}

/// What an HTTP/2 error is, without the words that the other side may add to it: they may be anything, also what we sent.
fn of_h2(error: &h2::Error) -> String {
    match error.reason() {
        Some(reason) => reason.description().to_owned(),
        None => error.to_string(),
    }
}

fn innermost(error: &(dyn StdError + 'static)) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    if let Some(error) = error.downcast_ref::<h2::Error>() {
        return of_h2(error);
    }
    match error.downcast_ref::<io::Error>() {
        // The TLS layer has a paragraph about it, with a link.
        Some(error) if error.to_string().contains("close_notify") => HUNG_UP.to_owned(),
        Some(error) => system_words(error),
        None => error.to_string(),
    }
}

/// The error within others of its kind: the TLS layer puts one around what the system said.
fn unwrapped(error: &io::Error) -> &io::Error {
    let mut error = error;
    while let Some(inner) = error.get_ref().and_then(|inner| inner.downcast_ref()) {
        error = inner;
    }
    error
}

/// The first cause of that type. An `io::Error` does not name the error that it carries as its source, so it is opened.
fn find<'a, T: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a T> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<T>() {
            return Some(found);
        }
        if let Some(found) = error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref)
            .and_then(|inner| find::<T>(inner))
        {
            return Some(found);
        }
        next = error.source();
    }
    None
}

#[cfg(test)]
mod tests;
