//! One exchange with the service: the request (interface, section 2.1), the answer or the reason why there is none, and the HTTP
//! client between them, which builds headers with the key, renews the key, and decides which connections are reused and which
//! certificates are trusted.
//!
//! It sends a body and returns the reply, or why there is none, as plain data. It sends nothing twice that may have been
//! processed, never follows a redirect, and never puts a key or a URL into a message.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io::Read as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::{BufMut, Bytes, BytesMut};
use flate2::read::MultiGzDecoder;
use hyper_util::client::legacy::connect::HttpInfo;
use reqwest::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderValue, USER_AGENT,
};
use reqwest::{Method, Request, Version};
use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls_platform_verifier::Verifier;

use super::api_key::{ApiKeys, KeySource};
use super::endpoint::{Endpoint, LOCALHOST, Plan, ServiceId, proxy_for};
use super::network_fault::{self, TransportFault};
use crate::base::error::{Error, Result};
use crate::base::private_file::read_small;
use crate::base::secret::Secret;
use crate::fields::UserRequest;
use crate::raw_json;

/// The service: the HTTP client, or a script in tests.
pub(crate) trait Service {
    /// Sends one request and waits for the complete answer.
    fn ask(&self, body: Bytes) -> impl Future<Output = Exchange>;

    /// Reads the API key again from where it came from. A new key is used for all requests that start afterwards.
    ///
    /// # Errors
    /// Why the key stays the same, in one sentence.
    fn renew_key(&self) -> Result<(), String>;

    /// The time limit for a call: after this it has ended, one way or the other.
    fn longest_call(&self) -> Duration;

    /// Calls that start from now on get new connections: one may be an answer ahead of its requests.
    fn renew_connections(&self);
}

/// The result of sending a request.
pub(crate) type Exchange = Result<Reply, TransportFault>;

/// An answer as it was received, not yet classified.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The HTTP status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body, cut at [`Reply::MAX_BODY`] bytes.
    pub body: Bytes,
    /// Whether the body was longer and was cut.
    pub cut: bool,
    /// The request that it answers, so that no message repeats its content.
    pub sent: SentRequest,
}

impl Reply {
    /// A hundred times the largest answer seen. A longer one is an attack or comes from a wrong
    /// address, and memory use must stay flat.
    pub(crate) const MAX_BODY: usize = 1024 * 1024;

    /// The body as text, and whether it is cut: some services send gzip without being asked. Damaged gzip stays as it is.
    pub(super) fn unpacked(body: Bytes, cut: bool) -> (Bytes, bool) {
        if !body.starts_with(GZIP) {
            return (body, cut);
        }
        let mut text = Vec::new();
        let most = Self::MAX_BODY as u64;
        let mut packed = MultiGzDecoder::new(&*body).take(most + 1);
        match packed.read_to_end(&mut text) {
            Ok(length) => (text.into(), cut || length > Self::MAX_BODY),
            Err(_) => (body, cut),
        }
    }

    /// A success with this body, for tests.
    #[cfg(test)]
    pub(crate) fn ok(body: &str) -> Self {
        Self {
            status: 200,
            headers: HeaderMap::new(),
            body: Bytes::copy_from_slice(body.as_bytes()),
            cut: false,
            sent: SentRequest::nothing(),
        }
    }
}

/// The first bytes of data in gzip, with which no text starts.
const GZIP: &[u8] = &[0x1f, 0x8b];

/// The content of a request.
#[derive(Debug, Clone)]
pub struct SentRequest {
    /// Its key, and all other keys that the run had used when the answer came.
    pub api_keys: ApiKeys,
    /// Its body: personal data.
    pub body: Bytes,
}

impl SentRequest {
    /// A request without content, for tests.
    #[cfg(test)]
    pub(crate) fn nothing() -> Self {
        Self {
            api_keys: ApiKeys::new(crate::base::secret::Secret::new("test-key-0123")),
            body: Bytes::new(),
        }
    }
}

/// Appends the body of a request to `to`. The same user and plan always give the same bytes: a
/// ledger identifies requests by them.
pub fn write_body(request: &UserRequest<'_>, plan: Plan, to: &mut BytesMut) {
    write_member(br#"{"name":"#, &request.name, to);
    if let Some(email) = &request.email {
        write_member(br#","email":"#, email, to);
    }
    if let Some(phone) = &request.phone {
        write_member(br#","phone":"#, phone, to);
    }
    write_member(br#","ip":"#, &request.ip, to);
    write_member(br#","user_agent":"#, &request.user_agent, to);
    // The default of `vpn_check` is documented inconsistently, so both flags are always sent on the
    // paid plan.
    if let Plan::Paid {
        vpn_check,
        advanced,
    } = plan
    {
        to.put_slice(match (vpn_check, advanced) {
            (false, false) => br#","vpn_check":false,"advanced":false"#,
            (false, true) => br#","vpn_check":false,"advanced":true"#,
            (true, false) => br#","vpn_check":true,"advanced":false"#,
            (true, true) => br#","vpn_check":true,"advanced":true"#,
        });
    }
    to.put_u8(b'}');
}

fn write_member(key: &[u8], value: &str, to: &mut BytesMut) {
    to.put_slice(key);
    raw_json::put_string(value, to);
}

/// The program's name for itself.
const OUR_NAME: &str = concat!("rescore/", env!("CARGO_PKG_VERSION"));

/// Connections that were idle for longer are not reused: with the usual 90 s, the server was just closing the connection in 9 of
/// 40 requests.
const POOL_IDLE: Duration = Duration::from_secs(4);

/// Concurrent calls per pool. Over HTTP/2 they share one connection. If there are more calls than
/// the server allows on it, the library holds them back unsent while their time runs: they would
/// look slow, or as if they had been sent and not answered. RFC 9113 (6.5.2) recommends that
/// servers allow at least this many.
const STREAMS: usize = 100;

/// Answers on one HTTP/1.1 connection after which the connections are replaced. HTTP/1.1 has no numbers that match answers to
/// requests: if another user's answer comes in between, each later one on that connection belongs to the call before. An answer
/// that comes twice shows by its id, and the connections are replaced immediately. Otherwise this many rows can be wrong, and
/// not all until the end of the run.
const ANSWERS_PER_CONNECTION: usize = 10_000;

/// After this number of breaks, connections are no longer reused.
const MOST_BREAKS: u32 = 3;

/// The time limit for one connection attempt. A host that is there answers far sooner.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The settings of a client.
#[derive(Debug, Clone)]
pub(crate) struct ClientSettings {
    /// The address of the requests.
    pub endpoint: Endpoint,
    /// Where the API key is.
    pub key: KeySource,
    /// The calling application's identifier.
    pub service_id: ServiceId,
    /// The time limit from the start of the request to the last byte of the answer.
    pub timeout: Duration,
    /// A PEM file with further certificate authorities.
    pub ca_file: Option<PathBuf>,
}

/// A client for one endpoint.
///
/// The library does not reuse connections that were idle for long. But it uses a clock that stops
/// while a laptop sleeps, and afterwards the first calls would be sent on connections that the
/// server has long forgotten. So after a pause by the wall clock, all connections are made again.
pub(crate) struct Client {
    settings: ClientSettings,
    /// The TLS configuration; `None` for plain HTTP.
    tls: Option<ClientConfig>,
    proxy: Option<String>,
    key: RefCell<KeyInUse>,
    /// Its connections. Pools are added as the calls need them.
    pools: RefCell<Vec<Rc<Pool>>>,
    /// When a call last began or ended.
    used: Cell<SystemTime>,
    /// Pools with a connection that broke when it was used again, since a connection brought a second answer.
    breaks: Cell<u32>,
    /// How many calls an HTTP/2 connection takes before the server ends it, if that was seen.
    calls_taken: Cell<usize>,
    /// The service refuses HTTP/2.
    http1: Cell<bool>,
}

/// The key in use.
struct KeyInUse {
    /// The headers of every request, this key included.
    headers: HeaderMap,
    /// This key, which is the last one, and those before it.
    used: ApiKeys,
}

/// A client of the library with its connections, and counts of their calls.
struct Pool {
    client: reqwest::Client,
    /// How many answers each connection brought, by the port of our end.
    answers: RefCell<HashMap<u16, usize>>,
    /// How many calls it was given.
    calls: Cell<usize>,
    /// How many of them its HTTP/2 connection did not take, as it had ended.
    left_out: Cell<usize>,
}

impl Client {
    /// Builds the client, which starts with this key; sends nothing.
    ///
    /// # Errors
    /// Exit code 2: a key that cannot be in a header, or certificates that cannot be read.
    pub(crate) fn new(settings: ClientSettings, key: Secret) -> Result<Self> {
        // If another part of the process has installed a provider, that one is used.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let is_plain = settings.endpoint.is_plain();
        let tls = match settings.ca_file.as_deref() {
            None if is_plain => None,
            // An unusable file is refused even if it is not needed.
            ca_file => Some(client_config(ca_file)?),
        };
        let mut client = Self {
            tls: tls.filter(|_| !is_plain),
            proxy: proxy_for(&settings.endpoint),
            key: RefCell::new(KeyInUse {
                headers: headers(&settings, &key)?,
                used: ApiKeys::new(key),
            }),
            settings,
            pools: RefCell::default(),
            used: Cell::new(SystemTime::now()),
            breaks: Cell::new(0),
            calls_taken: Cell::new(usize::MAX),
            http1: Cell::new(false),
        };
        let pool = client.new_pool();
        let pool = pool.map_err(|e| Error::usage("cannot set up the HTTP client").because(e))?;
        client.pools.get_mut().push(pool);
        Ok(client)
    }

    /// Where requests go.
    pub(crate) const fn endpoint(&self) -> &Endpoint {
        &self.settings.endpoint
    }

    /// The API keys that it has used.
    pub(crate) fn keys(&self) -> ApiKeys {
        self.key.borrow().used.clone()
    }

    fn exchange(&self, sent: Bytes) -> impl Future<Output = Exchange> {
        async move {
            let mut request = Request::new(Method::POST, self.settings.endpoint.url().clone());
            request.headers_mut().clone_from(&self.key.borrow().headers);
            *request.body_mut() = Some(sent.clone().into());
            // The first pool could be built, so each further one can be, too.
            let pool = self.pool();
            let pool = pool.map_err(|e| TransportFault::Unreachable(e.to_string()))?;
            let mut response = match pool.client.execute(request).await {
                Ok(response) => response,
                Err(error) => return Err(self.failed(&pool, error)),
            };
            self.answered(&pool, &response);
            let status = response.status().as_u16();
            let (mut body, mut cut) = (BytesMut::new(), false);
            loop {
                match response.chunk().await {
                    Ok(Some(chunk)) if body.len() + chunk.len() > Reply::MAX_BODY => {
                        cut = true;
                        break;
                    }
                    Ok(Some(chunk)) => body.extend_from_slice(&chunk),
                    // A success that breaks off may have been billed. For anything else the status
                    // is enough.
                    Err(error) if (200..300).contains(&status) => return Err(self.fault(error)),
                    Ok(None) | Err(_) => break,
                }
            }
            let (body, cut) = Reply::unpacked(body.freeze(), cut);
            Ok(Reply {
                status,
                headers: std::mem::take(response.headers_mut()),
                body,
                cut,
                sent: SentRequest {
                    // The keys as of now: the key may have been renewed since the request was sent.
                    api_keys: self.key.borrow().used.clone(),
                    body: sent,
                },
            })
        }
    }

    /// Why no answer came to a call of this pool, which may show how further calls have to be made.
    fn failed(&self, pool: &Rc<Pool>, error: reqwest::Error) -> TransportFault {
        let port = network_fault::unanswered_on(&error);
        let fault = self.fault(error);
        match (&fault, port) {
            (TransportFault::Broken(words), Some(port)) if self.broke(pool, port) => {
                return TransportFault::Stale(words.clone());
            }
            (TransportFault::ConnectionEnded(_), _) => self.left_out_call(pool),
            (TransportFault::WantsHttp1, _) if !self.http1.replace(true) => {
                self.renew_connections();
            }
            _ => {}
        }
        fault
    }

    fn fault(&self, error: reqwest::Error) -> TransportFault {
        network_fault::fault(
            &error.without_url(),
            &self.settings.endpoint,
            self.proxy.as_deref(),
        )
    }

    /// The pool for a call that starts now: the first one with a free stream. The caller drops it
    /// when the call is over, as the calls of a pool are counted by its references. Pools that
    /// are no longer needed get no calls, and close their connections.
    fn pool(&self) -> reqwest::Result<Rc<Pool>> {
        let now = SystemTime::now();
        // A clock that was set back says nothing.
        let idle = now.duration_since(self.used.replace(now));
        if idle.unwrap_or_default() > POOL_IDLE {
            self.renew_connections();
        }
        let mut pools = self.pools.borrow_mut();
        pools.retain(|pool| pool.left_out.get() == 0 && pool.calls.get() < self.calls_taken.get());
        let free = pools.iter().find(|pool| Rc::strong_count(pool) <= STREAMS);
        let pool = if let Some(pool) = free {
            Rc::clone(pool)
        } else {
            let pool = self.new_pool()?;
            pools.push(Rc::clone(&pool));
            pool
        };
        pool.calls.set(pool.calls.get() + 1);
        Ok(pool)
    }

    /// No further call gets a connection of this pool. Returns whether calls did until now.
    fn replace(&self, pool: &Rc<Pool>) -> bool {
        let mut pools = self.pools.borrow_mut();
        let found = pools.iter().position(|other| Rc::ptr_eq(other, pool));
        found.map(|at| pools.remove(at)).is_some()
    }

    /// The server ended this pool's HTTP/2 connection before it took a call. Further connections get as many calls as it took
    /// of the calls that it was given: more would be sent for nothing.
    fn left_out_call(&self, pool: &Pool) {
        pool.left_out.set(pool.left_out.get() + 1);
        let taken = pool.calls.get().saturating_sub(pool.left_out.get());
        self.calls_taken.set(taken.max(1));
    }

    /// An answer came on a connection of this pool.
    fn answered(&self, pool: &Rc<Pool>, answer: &reqwest::Response) {
        let Some(way) = answer.extensions().get::<HttpInfo>() else {
            return;
        };
        let mut answers = pool.answers.borrow_mut();
        let count = answers.entry(way.local_addr().port()).or_default();
        *count += 1;
        if *count > 1 && self.breaks.get() < MOST_BREAKS {
            self.breaks.set(0);
        }
        if *count >= ANSWERS_PER_CONNECTION && answer.version() < Version::HTTP_2 {
            self.replace(pool);
        }
    }

    /// The connection at this port broke before a byte of an answer. If it had brought one answer, that is how it looks if a
    /// server closes a connection after each answer without saying so, just when the next call is sent on it. Connections that
    /// break together count once, as a server that restarts breaks them all. If no connection brings a second answer in
    /// between, no call loses anything when they are no longer reused. Returns whether it was probably the reuse, and so says
    /// nothing about the service.
    fn broke(&self, pool: &Rc<Pool>, port: u16) -> bool {
        let was_reused = pool.answers.borrow().get(&port) == Some(&1);
        // The retry gets a fresh connection.
        if was_reused && self.breaks.get() < MOST_BREAKS && self.replace(pool) {
            self.breaks.set(self.breaks.get() + 1);
        }
        was_reused
    }

    fn new_pool(&self) -> reqwest::Result<Rc<Pool>> {
        let reuses = self.breaks.get() < MOST_BREAKS;
        let mut builder = reqwest::Client::builder()
            // For proxies, when they are asked for a connection. Calls have headers of their own.
            .user_agent(OUR_NAME)
            .redirect(reqwest::redirect::Policy::none())
            // Without the limit, a copy of each request would be kept for a retry that never comes.
            .retry(reqwest::retry::never().max_retries_per_request(0))
            .referer(false)
            .pool_idle_timeout(POOL_IDLE)
            .pool_max_idle_per_host(if reuses { usize::MAX } else { 0 })
            // If the total time ended first, a call that was never sent would count as possibly
            // billed.
            .connect_timeout(CONNECT_TIMEOUT.min(self.settings.timeout.mul_f64(0.8)))
            .timeout(self.settings.timeout);
        if self.settings.endpoint.is_loopback() {
            // Whatever the resolver or the hosts file says, key and data must not leave this
            // machine unencrypted. An address where nothing listens is skipped.
            let here: [IpAddr; 2] = [Ipv6Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.into()];
            let here = here.map(|address| SocketAddr::new(address, 0));
            builder = builder.no_proxy().resolve_to_addrs(LOCALHOST, &here);
        }
        builder = match &self.tls {
            Some(tls) if self.http1.get() => {
                let mut tls = tls.clone();
                tls.alpn_protocols = vec![b"http/1.1".to_vec()];
                builder.tls_backend_preconfigured(tls)
            }
            Some(tls) => builder.tls_backend_preconfigured(tls.clone()),
            // A machine without certificates, such as a small container, is enough for the sandbox.
            None => builder.tls_certs_only([]),
        };
        Ok(Rc::new(Pool {
            client: builder.build()?,
            answers: RefCell::default(),
            calls: Cell::new(0),
            left_out: Cell::new(0),
        }))
    }
}

impl Service for Client {
    fn ask(&self, body: Bytes) -> impl Future<Output = Exchange> {
        async move {
            let exchange = self.exchange(body).await;
            self.used.set(SystemTime::now());
            exchange
        }
    }

    fn renew_key(&self) -> Result<(), String> {
        let KeySource::File(file) = &self.settings.key else {
            return Err("it came from a variable, which cannot change during a run".to_owned());
        };
        let mut key = self.key.borrow_mut();
        let secret = file.read_again(&key.used)?;
        let authorization = authorization(&secret).map_err(|e| e.to_string())?;
        key.headers.insert(AUTHORIZATION, authorization);
        key.used = key.used.and(&secret);
        Ok(())
    }

    fn longest_call(&self) -> Duration {
        self.settings.timeout
    }

    fn renew_connections(&self) {
        self.pools.borrow_mut().clear();
    }
}

/// Room for these headers and `content-length`, so that the map of a copy need not grow.
const MOST_HEADERS: usize = 8;

/// The headers of every request, with those that the libraries would otherwise make for each call.
fn headers(settings: &ClientSettings, key: &Secret) -> Result<HeaderMap> {
    let mut headers = HeaderMap::with_capacity(MOST_HEADERS);
    // Over TLS it may be HTTP/2, which has another way to name the host.
    if settings.endpoint.is_plain() {
        headers.insert(HOST, header("host", settings.endpoint.host())?);
    }
    headers.insert(AUTHORIZATION, authorization(key)?);
    let service_id = header("service id", settings.service_id.as_str())?;
    headers.insert("x-service-id", service_id);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
    headers.insert(USER_AGENT, HeaderValue::from_static(OUR_NAME));
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
            "the {what} contains a line break or another control character"
        ))
    })
}

/// The TLS configuration for the service, with the certificates of this PEM file. One for all clients: connections that
/// are made again then take less.
///
/// # Errors
/// Exit code 2: the file cannot be read, or has no certificate.
fn client_config(ca_file: Option<&Path>) -> Result<ClientConfig> {
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
    // HTTP/2 if the service offers it: there, every answer names its request.
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;

    /// A server that answers every request and counts its connections.
    fn server() -> (String, Arc<AtomicUsize>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&connections);
        thread::spawn(move || {
            for stream in listener.incoming() {
                counted.fetch_add(1, Ordering::Relaxed);
                thread::spawn(move || {
                    let (mut stream, mut request) = (stream.unwrap(), [0; 4096]);
                    while stream.read(&mut request).unwrap_or(0) > 0 {
                        stream
                            .write_all(b"HTTP/1.1 204 No Content\r\n\r\n")
                            .unwrap();
                    }
                });
            }
        });
        (url, connections)
    }

    #[tokio::test]
    async fn after_a_pause_by_the_wall_clock_new_connections_are_made() {
        let (url, connections) = server();
        let key = Secret::new("key");
        let settings = ClientSettings {
            endpoint: Endpoint::new(&url, false).unwrap(),
            key: KeySource::Variable(key.clone()),
            service_id: ServiceId::new("test").unwrap(),
            timeout: Duration::from_secs(30),
            ca_file: None,
        };
        let client = Client::new(settings, key).unwrap();
        let ask = || async { client.ask(Bytes::from_static(b"{}")).await.unwrap().status };
        let seen = || connections.load(Ordering::Relaxed);
        assert_eq!((ask().await, ask().await, seen()), (204, 204, 1));
        // A laptop that slept: its monotonic clock has not moved.
        client.used.set(SystemTime::now() - POOL_IDLE * 2);
        assert_eq!((ask().await, ask().await, seen()), (204, 204, 2));
        // A clock that is set back must not cause a connection per call.
        client.used.set(SystemTime::now() + POOL_IDLE * 2);
        assert_eq!((ask().await, ask().await, seen()), (204, 204, 2));
    }
}
