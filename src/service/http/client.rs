//! The client: builds requests with headers and key, and renews the key.

use std::cell::RefCell;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures::FutureExt;
use reqwest::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderValue, USER_AGENT,
};
use reqwest::{Method, Request};

use super::super::api_key_file::KeyFile;
use super::super::endpoint::Endpoint;
use super::super::exchange::{Exchange, KeyRenewal, Reply, Service};
use super::super::pinned;
use super::super::proxy::{Proxy, ProxyName};
use super::super::redact::{ApiKeys, SentRequest};
use super::super::service_id::ServiceId;
use super::body::Body;
use super::connections::{self, ClientOptions, Connections};
use super::fault;
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
    /// The proxy that an environment variable names for the endpoint.
    pub proxy: Option<Proxy>,
    /// The time limit from the start of the request to the last byte of the answer.
    pub timeout: Duration,
    /// The time limit for connecting.
    pub connect_timeout: Duration,
    /// A PEM file with a further certificate authority or the service's own certificate.
    pub ca_file: Option<PathBuf>,
}

/// A client for one endpoint.
pub(crate) struct Client {
    pub(super) connections: Connections,
    endpoint: Endpoint,
    proxy: Option<ProxyName>,
    key: RefCell<KeyInUse>,
    key_file: Option<KeyFile>,
}

/// The key in use.
struct KeyInUse {
    secret: Secret,
    /// The headers of every request, this key included.
    headers: HeaderMap,
    /// This key and those before it.
    used: ApiKeys,
}

impl Client {
    /// Builds the client; sends nothing.
    ///
    /// # Errors
    /// Exit code 2: a key that cannot be in a header, a proxy address that the library
    /// does not accept, or certificates that cannot be read.
    pub(crate) fn new(settings: ClientSettings) -> Result<Self> {
        // If another part of the process has installed a provider, that one is used.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let named = settings.proxy.as_ref().map(Proxy::name).cloned();
        Ok(Self {
            connections: Connections::new(ClientOptions {
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
            key: RefCell::new(KeyInUse {
                headers: headers(&settings)?,
                used: ApiKeys::new(settings.api_key.clone()),
                secret: settings.api_key,
            }),
            endpoint: settings.endpoint,
            key_file: settings.key_file,
        })
    }

    #[expect(
        clippy::manual_async_fn,
        reason = "an `async fn` stores its arguments twice, and this future is allocated for each row"
    )]
    fn exchange(
        &self,
        sent: Bytes,
    ) -> impl Future<Output = std::result::Result<Reply, reqwest::Error>> {
        async move {
            let mut request = Request::new(Method::POST, self.endpoint.url().clone());
            request.headers_mut().clone_from(&self.key.borrow().headers);
            *request.body_mut() = Some(sent.clone().into());
            // Held until the answer is complete: the calls of a client are counted by its
            // references.
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
                    // A success that breaks off may have been billed. For anything else the status
                    // is enough.
                    Err(error) if (200..300).contains(&status) => return Err(error),
                    Ok(None) | Err(_) => break,
                }
            }
            Ok(Reply {
                status,
                headers: std::mem::take(response.headers_mut()),
                body: body.into_bytes(),
                cut,
                sent: SentRequest {
                    // The keys as of now: the key may have been renewed since the request was sent.
                    api_keys: self.key.borrow().used.clone(),
                    body: sent,
                },
            })
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

    fn renew_key(&self) -> KeyRenewal {
        let Some(file) = &self.key_file else {
            return KeyRenewal::Fixed;
        };
        let mut key = self.key.borrow_mut();
        let secret = match file.read_again(&key.secret) {
            Ok(secret) => secret,
            Err(why) => return KeyRenewal::Kept(why),
        };
        match authorization(&secret) {
            Ok(authorization) => {
                key.headers.insert(AUTHORIZATION, authorization);
                key.used = key.used.and(&secret);
                key.secret = secret;
                KeyRenewal::Renewed
            }
            Err(error) => KeyRenewal::Kept(error.to_string()),
        }
    }

    fn leave_connections(&self) -> bool {
        self.connections.leave()
    }

    fn longest_call(&self) -> Duration {
        self.connections.options.timeout
    }
}

/// The proxy in the library's form. It is then used for every request.
fn proxy(proxy: &Proxy) -> Result<reqwest::Proxy> {
    // Without the cause: it may contain the address, and so a password.
    reqwest::Proxy::all(proxy.url())
        .map_err(|_| Error::usage(format!("{} cannot be used", proxy.name())))
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
