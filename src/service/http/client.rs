//! The client: requests with headers and key, and the key's renewal.

use std::cell::RefCell;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures::FutureExt;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Method, Request};

use super::super::api_key_file::KeyFile;
use super::super::endpoint::Endpoint;
use super::super::exchange::{Exchange, Renewal, Reply, Service};
use super::super::pinned;
use super::super::proxy::{Proxy, ProxyName};
use super::super::redact::{ApiKeys, Sent};
use super::super::service_id::ServiceId;
use super::body::Body;
use super::connections::{Connections, Setup};
use super::fault;
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
    /// What each request has at its head, this key with it.
    headers: HeaderMap,
    /// It and those before it.
    used: ApiKeys,
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
            key: RefCell::new(KeyInUse {
                headers: headers(&settings.service_id, &settings.api_key)?,
                used: ApiKeys::new(settings.api_key.clone()),
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
