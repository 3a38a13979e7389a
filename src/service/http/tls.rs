//! TLS to the service: what is trusted. It trusts what this machine trusts, and further authorities from a file.

use std::path::Path;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls_platform_verifier::Verifier;

use crate::base::error::{Error, Result};

/// The TLS configuration for the service, with the certificates of this PEM file. One for all clients: connections that
/// are made again then take less.
///
/// # Errors
/// Exit code 2: the file cannot be read, or has no certificate.
pub(super) fn client_config(ca_file: Option<&Path>) -> Result<ClientConfig> {
    let further = ca_file.map(certificates).transpose()?.unwrap_or_default();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let cannot = || Error::usage("cannot set up TLS");
    let verifier = Verifier::new_with_extra_roots(further, Arc::clone(&provider))
        .map_err(|e| cannot().because(e))?;
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
    let pem = std::fs::read(path).map_err(|e| wrong().because(e))?;
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<_, _>>()
        .map_err(|e| wrong().because(e))?;
    if certificates.is_empty() {
        return Err(wrong().detail("it has no PEM certificate"));
    }
    Ok(certificates)
}
