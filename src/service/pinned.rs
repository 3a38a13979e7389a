//! The certificates of `--ca-file`: those of authorities, and those of servers.
//!
//! `openssl req -x509` creates a server certificate that claims to be an authority's. The library
//! rejects this as a server's certificate, curl accepts it. Here, a certificate from the file is
//! trusted for the service's host if its bytes are equal.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, SignatureScheme};

use super::endpoint::Endpoint;
use crate::base::error::{Error, Result};

/// The TLS configuration for the service: it trusts what this machine trusts, and the certificates
/// of this PEM file.
///
/// # Errors
/// Exit code 2: the file cannot be read, or has no certificate.
pub(super) fn client_config(path: &Path, endpoint: &Endpoint) -> Result<ClientConfig> {
    let wrong = || {
        Error::usage(format!(
            "cannot use the certificates in `{}`",
            path.display()
        ))
    };
    let pem = std::fs::read(path).map_err(|e| wrong().because(e))?;
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<_, _>>()
        .map_err(|e| wrong().because(e))?;
    if certificates.is_empty() {
        return Err(wrong().detail("it has no PEM certificate"));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = Verifier::new(certificates, endpoint.domain(), &provider)
        .map_err(|e| wrong().because(e))?;
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| Error::internal("cannot set up TLS").because(e))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    // As the HTTP library sets them when it configures TLS itself.
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// Trusts what the system and the extra roots accept, and otherwise a pinned certificate by its
/// bytes.
#[derive(Debug)]
struct Verifier {
    by_authority: rustls_platform_verifier::Verifier,
    pinned: Vec<CertificateDer<'static>>,
    /// The host for which they are trusted by their bytes: a proxy has a certificate of its own.
    host: Option<ServerName<'static>>,
}

impl Verifier {
    fn new(
        certificates: Vec<CertificateDer<'static>>,
        host: &str,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Self, rustls::Error> {
        // In a URL, an IPv6 address is in brackets.
        let host = host.trim_start_matches('[').trim_end_matches(']');
        Ok(Self {
            by_authority: rustls_platform_verifier::Verifier::new_with_extra_roots(
                certificates.iter().cloned(),
                Arc::clone(provider),
            )?,
            pinned: certificates,
            host: ServerName::try_from(host.to_owned()).ok(),
        })
    }

    /// Whether a certificate that was rejected for this reason is trusted nevertheless.
    fn is_pinned(
        &self,
        certificate: &CertificateDer<'_>,
        host: &ServerName<'_>,
        refused: &CertificateError,
    ) -> bool {
        use CertificateError as Wrong;
        let is_dated = matches!(
            refused,
            Wrong::Expired
                | Wrong::ExpiredContext { .. }
                | Wrong::NotValidYet
                | Wrong::NotValidYetContext { .. }
                | Wrong::Revoked
        );
        !is_dated && self.host.as_ref() == Some(host) && self.pinned.contains(certificate)
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verified = self.by_authority.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        match &verified {
            Err(rustls::Error::InvalidCertificate(refused))
                if self.is_pinned(end_entity, server_name, refused) =>
            {
                is_for(end_entity, server_name).map(|()| ServerCertVerified::assertion())
            }
            _ => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.by_authority
            .verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.by_authority
            .verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.by_authority.supported_verify_schemes()
    }
}

/// Fails if a certificate is for other hosts. One without names in the extension for them (made
/// without `-addext subjectAltName=…`) is accepted for the host that it was given for.
fn is_for(certificate: &CertificateDer<'_>, host: &ServerName<'_>) -> Result<(), rustls::Error> {
    use CertificateError::NotValidForNameContext;
    match verify_server_name(&ParsedCertificate::try_from(certificate)?, host) {
        Err(rustls::Error::InvalidCertificate(NotValidForNameContext { presented, .. }))
            if presented.is_empty() =>
        {
            Ok(())
        }
        result => result,
    }
}
