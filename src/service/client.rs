//! The HTTP client: builds requests with headers and key, renews the key, and decides which connections are reused and which
//! certificates are trusted.
//!
//! It sends a body and returns what came back, or why nothing did, as plain data. It sends nothing twice that may have been
//! processed, never follows a redirect, and never puts a key or a URL into a message.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::{Bytes, BytesMut};
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
use super::endpoint::{Endpoint, LOCALHOST, ServiceId, proxy_for};
use super::exchange::{Exchange, KeyRenewal, Reply, SentRequest, Service, TransportFault};
use super::network_fault;
use crate::base::error::{Error, Result};
use crate::base::own_file::read_small;
use crate::base::secret::Secret;

/// What the program calls itself.
const OUR_NAME: &str = concat!("rescore/", env!("CARGO_PKG_VERSION"));

/// Connections that were idle for longer are not reused: with the usual 90 s, 9 of 40 requests met
/// a server that was just closing the connection.
const POOL_IDLE: Duration = Duration::from_secs(4);

/// Concurrent calls per pool. Over HTTP/2 they share one connection. If there are more calls than
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

/// The settings of a client.
#[derive(Debug, Clone)]
pub(crate) struct ClientSettings {
    /// Where requests go.
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

/// A client of the library with its connections, and what is known of them.
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
            // A file that makes no sense is refused also where it is not needed.
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

    #[expect(
        clippy::manual_async_fn,
        reason = "an `async fn` stores its arguments twice, and this future is allocated for each row"
    )]
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
    /// of those that it was given: more would be sent for nothing.
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
        // The call that goes again gets a connection that nothing came over yet.
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
    #[expect(clippy::manual_async_fn, reason = "as above")]
    fn ask(&self, body: Bytes) -> impl Future<Output = Exchange> {
        async move {
            let exchange = self.exchange(body).await;
            self.used.set(SystemTime::now());
            exchange
        }
    }

    fn renew_key(&self) -> KeyRenewal {
        let KeySource::File(file) = &self.settings.key else {
            return KeyRenewal::Fixed;
        };
        let mut key = self.key.borrow_mut();
        let renewed = file.read_again(&key.used).and_then(|secret| {
            let authorization = authorization(&secret).map_err(|e| e.to_string())?;
            key.headers.insert(AUTHORIZATION, authorization);
            key.used = key.used.and(&secret);
            Ok(())
        });
        renewed.map_or_else(KeyRenewal::Kept, |()| KeyRenewal::Renewed)
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

/// The headers of every request, also those that the libraries would otherwise make for each call.
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
