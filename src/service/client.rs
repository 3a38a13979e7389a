//! The HTTP client: builds requests with headers and key, and renews the key.
//!
//! It sends a body and returns what came back, or why nothing did, as plain data. It sends nothing twice that may have been
//! processed, never follows a redirect, and never puts a key or a URL into a message.

use std::cell::RefCell;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use bytes::{Bytes, BytesMut};
use reqwest::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderValue, USER_AGENT,
};
use reqwest::{Method, Request};

use super::api_key::{ApiKeys, KeyFile};
use super::connections::{self, ClientOptions, Connections};
use super::endpoint::{Endpoint, ServiceId, proxy_for};
use super::exchange::{Exchange, KeyRenewal, Reply, SentRequest, Service, TransportFault};
use super::network_fault;
use crate::base::error::{Error, Result};
use crate::base::secret::Secret;

/// The settings of a client.
#[derive(Debug, Clone)]
pub(crate) struct ClientSettings {
    /// Where requests go.
    pub endpoint: Endpoint,
    /// The bearer token.
    pub api_key: Secret,
    /// The file that the key came from; `None` if it came from a source that cannot change, such as
    /// a variable.
    pub key_file: Option<KeyFile>,
    /// The calling application's identifier.
    pub service_id: ServiceId,
    /// The time limit from the start of the request to the last byte of the answer.
    pub timeout: Duration,
    /// A PEM file with further certificate authorities.
    pub ca_file: Option<PathBuf>,
}

/// A client for one endpoint.
pub(crate) struct Client {
    pub(super) connections: Connections,
    endpoint: Endpoint,
    timeout: Duration,
    proxy: Option<String>,
    key: RefCell<KeyInUse>,
    key_file: Option<KeyFile>,
}

/// The key in use.
struct KeyInUse {
    /// The headers of every request, this key included.
    headers: HeaderMap,
    /// This key, which is the last one, and those before it.
    used: ApiKeys,
}

impl Client {
    /// Builds the client; sends nothing.
    ///
    /// # Errors
    /// Exit code 2: a key that cannot be in a header, or certificates that cannot be read.
    pub(crate) fn new(settings: ClientSettings) -> Result<Self> {
        // If another part of the process has installed a provider, that one is used.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let (ca_file, plain) = (settings.ca_file.as_deref(), settings.endpoint.is_plain());
        // A file that makes no sense is refused also where it is not needed.
        let is_needed = ca_file.is_some() || !plain;
        let tls = is_needed
            .then(|| connections::client_config(ca_file))
            .transpose()?;
        Ok(Self {
            connections: Connections::new(ClientOptions {
                timeout: settings.timeout,
                loopback: settings.endpoint.is_loopback(),
                tls: tls.filter(|_| !plain),
            })?,
            timeout: settings.timeout,
            proxy: proxy_for(&settings.endpoint),
            key: RefCell::new(KeyInUse {
                headers: headers(&settings)?,
                used: ApiKeys::new(settings.api_key),
            }),
            endpoint: settings.endpoint,
            key_file: settings.key_file,
        })
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
            let mut request = Request::new(Method::POST, self.endpoint.url().clone());
            request.headers_mut().clone_from(&self.key.borrow().headers);
            *request.body_mut() = Some(sent.clone().into());
            // The first pool could be built, so each further one can be, too.
            let pool = { self.connections.pool() }
                .map_err(|error| TransportFault::Unreachable(error.to_string()))?;
            let mut response = match pool.client.execute(request).await {
                Ok(response) => response,
                Err(error) => {
                    let port = network_fault::unanswered_on(&error);
                    let fault = match (self.fault(error), port) {
                        (TransportFault::Broken(words), Some(port))
                            if self.connections.broke(&pool, port) =>
                        {
                            TransportFault::Stale(words)
                        }
                        (fault, _) => fault,
                    };
                    match fault {
                        TransportFault::ConnectionEnded(_) => self.connections.left_out_call(&pool),
                        TransportFault::WantsHttp1 => self.connections.use_http1(),
                        _ => {}
                    }
                    return Err(fault);
                }
            };
            self.connections.answered(&pool, &response);
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

    fn fault(&self, error: reqwest::Error) -> TransportFault {
        network_fault::fault(&error.without_url(), &self.endpoint, self.proxy.as_deref())
    }
}

impl Service for Client {
    #[expect(clippy::manual_async_fn, reason = "as above")]
    fn ask(&self, body: Bytes) -> impl Future<Output = Exchange> {
        async move {
            let exchange = self.exchange(body).await;
            self.connections.used.set(SystemTime::now());
            exchange
        }
    }

    fn renew_key(&self) -> KeyRenewal {
        let Some(file) = &self.key_file else {
            return KeyRenewal::Fixed;
        };
        let mut key = self.key.borrow_mut();
        let secret = match file.read_again(&key.used) {
            Ok(secret) => secret,
            Err(why) => return KeyRenewal::Kept(why),
        };
        match authorization(&secret) {
            Ok(authorization) => {
                key.headers.insert(AUTHORIZATION, authorization);
                key.used = key.used.and(&secret);
                KeyRenewal::Renewed
            }
            Err(error) => KeyRenewal::Kept(error.to_string()),
        }
    }

    fn longest_call(&self) -> Duration {
        self.timeout
    }

    fn renew_connections(&self) {
        self.connections.replace_all();
    }
}

/// Room for these headers and the length of the body, so that the table of a copy need not grow.
const MOST_HEADERS: usize = 8;

/// The headers of every request, also those that the libraries would otherwise make for each call.
fn headers(settings: &ClientSettings) -> Result<HeaderMap> {
    let mut headers = HeaderMap::with_capacity(MOST_HEADERS);
    // Over TLS it may be HTTP/2, which has another way to name the host.
    if settings.endpoint.is_plain() {
        headers.insert(HOST, header("host", settings.endpoint.host())?);
    }
    headers.insert(AUTHORIZATION, authorization(&settings.api_key)?);
    let service_id = header("service id", settings.service_id.as_str())?;
    headers.insert("x-service-id", service_id);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
    let user_agent = HeaderValue::from_static(connections::USER_AGENT);
    headers.insert(USER_AGENT, user_agent);
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
