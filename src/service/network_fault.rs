//! What an error of the HTTP library means: whether anything was sent, and who is at fault.
//!
//! Errors are recognised by type. Where a type cannot be named, they are recognised by the
//! library's words, in a way that does no harm if the words change.

use std::error::Error as StdError;
use std::io;
use std::iter::successors;

use hyper_util::client::legacy::connect::HttpInfo;
use rustls::{AlertDescription, CertificateError};

use super::endpoint::Endpoint;
use super::exchange::TransportFault;
use crate::base::error::system_words;
use crate::base::text::quoted;

const HUNG_UP: &str = "the other side closed the connection";
const HANDSHAKE: &str = "the TLS handshake failed";

/// What a reqwest error means. `is_connect` is checked before `is_timeout`, as a connection that
/// times out is both. `proxy` is the host that calls go through, if they go through one.
pub(super) fn fault(
    error: &reqwest::Error,
    endpoint: &Endpoint,
    proxy: Option<&str>,
    has_ca_file: bool,
) -> TransportFault {
    // With TLS 1.3 it comes when the request is on its way, and nothing was read of that.
    if let Some(rustls::Error::AlertReceived(AlertDescription::CertificateRequired)) = find(error) {
        return TransportFault::Refused(
            "the service wants a certificate of the client".to_owned(),
            "this is not supported: ask for access with the API key alone, or through a proxy that has the certificate",
        );
    }
    if error.is_dns() {
        let words = innermost(error);
        // The resolver itself does not answer, such as on a machine whose network is not up yet.
        if words.contains("Temporary failure") {
            return TransportFault::NotConnected(words);
        }
        // With a proxy, the proxy resolves the service's name.
        return TransportFault::HostNotFound(match proxy {
            Some(proxy) => format!("of the proxy {}", quoted(proxy)),
            None => quoted(endpoint.domain()),
        });
    }
    if error.is_connect() {
        return not_connected(error, endpoint, proxy, has_ca_file);
    }
    if error.is_timeout() {
        return TransportFault::TimedOut;
    }
    // A server that has started to answer has processed the request, whatever it says afterwards.
    if error.is_request()
        && let Some(fault) = unprocessed(error)
    {
        return fault;
    }
    match find::<hyper::Error>(error) {
        Some(parsed) if parsed.is_parse() && !parsed.is_parse_too_large() => {
            TransportFault::NotHttp(innermost(error))
        }
        _ => TransportFault::Broken(innermost(error)),
    }
}

/// The fault of a request that was certainly not processed: it was still queued when its connection ended, or an HTTP/2
/// server says so (RFC 9113, section 8.7), by refusing its stream or by a GOAWAY with a last stream before it. Streams up to
/// the last one do not end with this error.
fn unprocessed(error: &reqwest::Error) -> Option<TransportFault> {
    if find::<hyper::Error>(error).is_some_and(hyper::Error::is_canceled) {
        return Some(TransportFault::Unprocessed(innermost(error)));
    }
    let said = find::<h2::Error>(error).filter(|error| error.is_remote())?;
    match (said.reason()?, said.is_go_away()) {
        (h2::Reason::HTTP_1_1_REQUIRED, _) => Some(TransportFault::WantsHttp1),
        (h2::Reason::REFUSED_STREAM, _) | (h2::Reason::ENHANCE_YOUR_CALM, true) => {
            Some(TransportFault::StreamRefused)
        }
        (_, true) => Some(TransportFault::ConnectionEnded(innermost(error))),
        (_, false) => None,
    }
}

/// If the connection ended after the request was sent, and before anything was answered: the port of our end.
pub(super) fn unanswered_on(error: &reqwest::Error) -> Option<u16> {
    use io::ErrorKind::{BrokenPipe, ConnectionReset};
    let ended = find::<hyper::Error>(error).is_some_and(hyper::Error::is_incomplete_message);
    let reset = || find::<io::Error>(error).map(|error| unwrapped(error).kind());
    if !ended && !reset().is_some_and(|kind| [BrokenPipe, ConnectionReset].contains(&kind)) {
        return None;
    }
    let mut way = hyper::http::Extensions::new();
    let error = find::<hyper_util::client::legacy::Error>(error)?;
    error.connect_info()?.get_extras(&mut way);
    Some(way.get::<HttpInfo>()?.local_addr().port())
}

/// Nothing was sent.
fn not_connected(
    error: &reqwest::Error,
    endpoint: &Endpoint,
    proxy: Option<&str>,
    has_ca_file: bool,
) -> TransportFault {
    let tunnel = tunnel_error(error);
    // With plain HTTP, every connection is to the proxy; and it is unknown which part of the way
    // takes too long.
    let is_of_proxy = tunnel.is_some() || endpoint.is_plain() || error.is_timeout();
    let proxy = proxy.filter(|_| is_of_proxy).map(quoted);
    let tls = find::<rustls::Error>(error);
    match (tls, tunnel.as_deref()) {
        (Some(rustls::Error::InvalidCertificate(wrong)), _) if proxy.is_none() => {
            return TransportFault::Refused(
                match wrong {
                    CertificateError::UnknownIssuer => {
                        "the service's certificate is not trusted: the authority that signed it is not known here"
                            .to_owned()
                    }
                    wrong => format!("the service's certificate is not trusted: {wrong}"),
                },
                certificate_hint(wrong, has_ca_file),
            );
        }
        (Some(rustls::Error::InvalidMessage(_)), _) if proxy.is_none() => {
            return TransportFault::Refused(
                "the service does not speak TLS at this address".to_owned(),
                "check scheme and port of the base address",
            );
        }
        // If these words changed, the call would be retried like the others.
        (None, Some("proxy authorization required")) => {
            return TransportFault::Refused(
                format!("the proxy {} requires a login", proxy.unwrap_or_default()),
                "give it in the variable that names the proxy, such as `http://user:password@proxy:3128`",
            );
        }
        _ => {}
    }
    let cause = find::<io::Error>(error).map(unwrapped);
    let words = match (tls, cause) {
        (Some(rustls::Error::AlertReceived(AlertDescription::HandshakeFailure)), _) => {
            format!(
                "{HANDSHAKE}: the service refuses it, perhaps as it wants a certificate of the client, which is not supported"
            )
        }
        (Some(tls), _) => format!("{HANDSHAKE}: {tls}"),
        // The system's own timeout has words of its own; ours is worded by a library.
        (None, Some(cause)) if cause.raw_os_error().is_some() => system_words(cause),
        _ if error.is_timeout() => "timed out".to_owned(),
        (None, Some(cause)) if cause.kind() == io::ErrorKind::UnexpectedEof => {
            format!("{HANDSHAKE}: {HUNG_UP}")
        }
        (None, Some(cause)) => system_words(cause),
        (None, None) if tunnel.as_deref() == Some("unsuccessful") => {
            "it refuses to connect to the service".to_owned()
        }
        (None, None) => tunnel.unwrap_or_else(|| innermost(error)),
    };
    match proxy {
        Some(proxy) => TransportFault::Unreachable(format!(
            "cannot connect through the proxy {proxy}: {words}"
        )),
        None if words.starts_with(HANDSHAKE) => {
            TransportFault::Unreachable(format!("cannot connect: {words}"))
        }
        None => TransportFault::NotConnected(format!("cannot connect: {words}")),
    }
}

/// What helps against a certificate that is not accepted for this reason.
const fn certificate_hint(wrong: &CertificateError, has_ca_file: bool) -> &'static str {
    use CertificateError as Wrong;
    match wrong {
        Wrong::Expired
        | Wrong::ExpiredContext { .. }
        | Wrong::NotValidYet
        | Wrong::NotValidYetContext { .. } => {
            "check this machine's clock with `date`; if it is right, the service has to renew the certificate"
        }
        Wrong::NotValidForName | Wrong::NotValidForNameContext { .. } => "check the base address",
        _ if has_ca_file => {
            "the file of `--ca-file` lacks the authority that signed it, or the service leaves out an intermediate certificate: add it to the file"
        }
        _ => {
            "`--ca-file FILE` accepts the certificate of the authority that signed it, such as a company's own; a service may also leave out an intermediate certificate"
        }
    }
}

/// The library's words about a proxy tunnel to the service. Its error has no public type.
fn tunnel_error(error: &reqwest::Error) -> Option<String> {
    causes(error)
        .find_map(|error| Some(error.to_string().strip_prefix("tunnel error: ")?.to_owned()))
}

/// An error and its causes, the outermost first.
fn causes<'a>(
    error: &'a (dyn StdError + 'static),
) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    successors(Some(error), |&error| error.source())
}

/// The words of the innermost cause. An HTTP/2 error has only its kind, without the words that the
/// server may add: they may be anything, even what we sent.
fn innermost(error: &reqwest::Error) -> String {
    if let Some(error) = find::<h2::Error>(error) {
        let kind = error.reason().map(|reason| reason.description().to_owned());
        return kind.unwrap_or_else(|| error.to_string());
    }
    let error = causes(error).last().unwrap_or(error);
    match error.downcast_ref::<io::Error>() {
        // The TLS layer has a whole paragraph about it, with a link.
        Some(error) if error.to_string().contains("close_notify") => HUNG_UP.to_owned(),
        Some(error) => system_words(error),
        None => error.to_string(),
    }
}

/// The innermost of nested I/O errors: the TLS layer wraps the system's error.
fn unwrapped(error: &io::Error) -> &io::Error {
    let mut error = error;
    while let Some(inner) = error.get_ref().and_then(|inner| inner.downcast_ref()) {
        error = inner;
    }
    error
}

/// The first cause of this type. An `io::Error` does not return its inner error as its source, so
/// it is opened.
fn find<'a, T: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a T> {
    causes(error).find_map(|error| {
        let io = || error.downcast_ref::<io::Error>();
        let inner = || io().and_then(io::Error::get_ref);
        error.downcast_ref().or_else(|| find(inner()?))
    })
}
