//! What an error of the HTTP library means: was anything sent, and who is at fault?
//!
//! Errors are recognised by type. Where a type cannot be named, they are recognised by the
//! library's words, in a way that does no harm if the words change.

use std::error::Error as StdError;
use std::io;

use super::super::certificate;
use super::super::endpoint::Endpoint;
use super::super::exchange::TransportFault;
use super::super::proxy::ProxyName;
use crate::base::error::system_words;

const HUNG_UP: &str = "the other side closed the connection";

/// What a reqwest error means. Causes are checked by type, outermost first; `is_connect` before
/// `is_timeout`, as a connection that times out is both.
pub(super) fn fault(
    error: &reqwest::Error,
    endpoint: &Endpoint,
    proxy: Option<&ProxyName>,
) -> TransportFault {
    if error.is_dns() {
        let words = innermost(error);
        // The resolver itself does not answer, such as on a machine whose network is not up yet.
        if words.contains("Temporary failure") {
            return TransportFault::Unreachable(words);
        }
        // With a proxy, the proxy resolves the service's name.
        return match proxy {
            Some(proxy) => TransportFault::ProxyNotFound(proxy.clone()),
            None => TransportFault::HostNotFound(endpoint.domain().to_owned()),
        };
    }
    if error.is_connect()
        && let Some(proxy) = proxy
        // With plain HTTP, every connection is to the proxy.
        && (endpoint.is_plain() || tunnel_error(error).is_some())
    {
        return of_proxy(error, proxy.clone());
    }
    if let Some(tls) = find::<rustls::Error>(error) {
        return match tls {
            rustls::Error::InvalidCertificate(reason) => {
                TransportFault::Certificate(certificate::distrust(reason))
            }
            rustls::Error::InvalidMessage(_) if error.is_connect() => TransportFault::NotTls,
            other if error.is_connect() => TransportFault::Handshake(other.to_string()),
            other => TransportFault::Broken(other.to_string()),
        };
    }
    if error.is_connect() {
        return match find::<io::Error>(error).map(unwrapped) {
            // The system's own timeout has words of its own; ours is worded by a library.
            Some(cause) if cause.raw_os_error().is_some() => {
                TransportFault::Unreachable(system_words(cause))
            }
            _ if error.is_timeout() => match proxy {
                // It is unknown which part of the way took too long.
                Some(proxy) => TransportFault::Proxy(proxy.clone(), "timed out".to_owned()),
                None => TransportFault::Unreachable("timed out".to_owned()),
            },
            Some(cause) if cause.kind() == io::ErrorKind::UnexpectedEof => {
                TransportFault::Handshake(HUNG_UP.to_owned())
            }
            Some(cause) => TransportFault::Unreachable(system_words(cause)),
            None => TransportFault::Unreachable(innermost(error)),
        };
    }
    if error.is_timeout() {
        return TransportFault::TimedOut;
    }
    // A server that has started to answer has processed the request, whatever it says afterwards.
    if error.is_request()
        && let Some(refused) = find::<h2::Error>(error).filter(|error| is_unprocessed(error))
    {
        return TransportFault::Unprocessed(of_h2(refused));
    }
    TransportFault::Broken(innermost(error))
}

/// Whether an HTTP/2 server says that it did not process the request (RFC 9113, section 8.7): by
/// refusing its stream, or by a GOAWAY with a last stream before it. Streams up to the last one do
/// not end with this error.
fn is_unprocessed(error: &h2::Error) -> bool {
    let refused = error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM);
    error.is_remote() && (refused || error.is_go_away())
}

/// The library's words about a proxy tunnel to the service. Its error has no public type.
fn tunnel_error(error: &reqwest::Error) -> Option<String> {
    let mut next = error.source();
    while let Some(error) = next {
        if let Some(words) = error.to_string().strip_prefix("tunnel error: ") {
            return Some(words.to_owned());
        }
        next = error.source();
    }
    None
}

/// Why a proxy did not connect. A missing login is recognised by the library's words. If these
/// changed, the call would be retried like the others.
fn of_proxy(error: &reqwest::Error, proxy: ProxyName) -> TransportFault {
    let words = match find::<rustls::Error>(error) {
        Some(rustls::Error::InvalidCertificate(reason)) => {
            format!(
                "its certificate is not trusted: {}",
                certificate::distrust(reason).why
            )
        }
        Some(rustls::Error::InvalidMessage(_)) => "it does not speak TLS".to_owned(),
        Some(other) => format!("the TLS handshake failed: {other}"),
        None => match find::<io::Error>(error).map(unwrapped) {
            Some(cause) if cause.raw_os_error().is_some() => system_words(cause),
            _ if error.is_timeout() => "timed out".to_owned(),
            Some(cause) if cause.kind() == io::ErrorKind::UnexpectedEof => HUNG_UP.to_owned(),
            Some(cause) => system_words(cause),
            None => match tunnel_error(error).as_deref() {
                Some("proxy authorization required") => return TransportFault::ProxyLogin(proxy),
                Some("unsuccessful") => "it refuses to connect to the service".to_owned(),
                Some("unexpected end of file") => HUNG_UP.to_owned(),
                Some(words) => words.to_owned(),
                None => innermost(error),
            },
        },
    };
    TransportFault::Proxy(proxy, words)
}

/// The kind of an HTTP/2 error, without the words that the server may add: they may be anything,
/// even what we sent.
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
