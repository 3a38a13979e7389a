//! An encrypted connection to a server whose certificate and name were checked: PostgreSQL's `verify-full`, and nothing less.

use std::fs;
use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::ConfigVerifierExt;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;

use crate::base::error::{Error, Result, shown};

/// Encrypts a connection to one server.
#[derive(Clone)]
pub(super) struct Encryption {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Encryption {
    /// For the server of this name or IP address. It is trusted by the authorities of this PEM file, or by those of the
    /// system.
    ///
    /// # Errors
    /// Exit code 2: the file cannot be read or has no certificate, or the name cannot be in one.
    pub(super) fn new(host: &str, roots: Option<&Path>) -> Result<Self> {
        let name = ServerName::try_from(host.to_owned()).map_err(|e| {
            Error::usage("the address of the ledger has a host that no certificate can name")
                .because(e)
        })?;
        let mut config = match roots {
            Some(file) => trusting(file)?,
            None => trusting_system()?,
        };
        // As PostgreSQL 17 asks for; older servers ignore it.
        config.alpn_protocols = vec![b"postgresql".to_vec()];
        Ok(Self {
            config: Arc::new(config),
            name,
        })
    }
}

fn trusting(file: &Path) -> Result<ClientConfig> {
    let wrong = || Error::usage(format!("cannot use the certificates in `{}`", shown(file)));
    let pem = fs::read(file).map_err(|e| wrong().because(e))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|e| wrong().because(e))?;
        roots.add(certificate).map_err(|e| wrong().because(e))?;
    }
    if roots.is_empty() {
        return Err(wrong().detail("it has no PEM certificate"));
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|e| Error::internal("cannot set up TLS").because(e))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

fn trusting_system() -> Result<ClientConfig> {
    // It fails if a provider is installed already, which is then the same one.
    let _ = ring::default_provider().install_default();
    ClientConfig::with_platform_verifier()
        .map_err(|e| Error::internal("cannot set up TLS").because(e))
}

impl<S> TlsConnect<S> for Encryption
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    type Stream = EncryptedStream<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<EncryptedStream<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        let Self { config, name } = self;
        Box::pin(async move {
            let stream = TlsConnector::from(config).connect(name, stream).await?;
            Ok(EncryptedStream(stream))
        })
    }
}

/// A connection that is encrypted.
pub(super) struct EncryptedStream<S>(tokio_rustls::client::TlsStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for EncryptedStream<S> {
    fn channel_binding(&self) -> ChannelBinding {
        // The certificate is checked against the name: nobody is in between who could be told apart by this.
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for EncryptedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for EncryptedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
