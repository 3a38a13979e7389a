//! What an error of the HTTP library means: did anything go out, and who is at fault?
//!
//! Errors are asked by their types; where a type cannot be named, by the library's words, with a meaning that does no harm
//! should the words change.

use std::error::Error as StdError;
use std::io;

use super::super::{Endpoint, ProxyName, TransportFault, trust};
use crate::base::error::system_words;

const HUNG_UP: &str = "the other side hung up";

/// What a reqwest error means. The causes are asked by type, outermost first; `is_connect` before `is_timeout`, as a
/// connection that times out is both.
pub(super) fn fault(
    error: &reqwest::Error,
    endpoint: &Endpoint,
    proxy: Option<&ProxyName>,
) -> TransportFault {
    if error.is_dns() {
        // With a proxy it is the proxy that looks up the service's name.
        return match proxy {
            Some(proxy) => TransportFault::ProxyNotFound(proxy.clone()),
            None => TransportFault::HostNotFound(endpoint.host().to_owned()),
        };
    }
    if error.is_connect()
        && let Some(proxy) = proxy
        // For plain HTTP every connection is one to the proxy.
        && (endpoint.is_plain() || tunnel_error(error).is_some())
    {
        return of_proxy(error, proxy.clone());
    }
    if let Some(tls) = find::<rustls::Error>(error) {
        return match tls {
            rustls::Error::InvalidCertificate(reason) => {
                TransportFault::Certificate(trust::distrust(reason))
            }
            rustls::Error::InvalidMessage(_) if error.is_connect() => TransportFault::NotTls,
            other if error.is_connect() => TransportFault::Handshake(other.to_string()),
            other => TransportFault::Broken(other.to_string()),
        };
    }
    if error.is_connect() {
        return match find::<io::Error>(error).map(unwrapped) {
            // The system's own time-out has words of its own; ours comes in the wording of a library.
            Some(cause) if cause.raw_os_error().is_some() => {
                TransportFault::Unreachable(system_words(cause))
            }
            _ if error.is_timeout() => match proxy {
                // Nobody knows which part of the way took too long.
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
    // Whoever has begun to answer has processed it, whatever is said afterwards.
    if error.is_request()
        && let Some(refused) = find::<h2::Error>(error).filter(|error| is_unprocessed(error))
    {
        return TransportFault::Unprocessed(of_h2(refused));
    }
    TransportFault::Broken(innermost(error))
}

/// Whether an HTTP/2 server says that it has not processed the request (RFC 9113, section 8.7): by refusing its stream, or
/// by going away with a last stream before it. Streams up to the last one do not end with that error.
fn is_unprocessed(error: &h2::Error) -> bool {
    let refused = error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM);
    error.is_remote() && (refused || error.is_go_away())
}

/// What the library says of asking a proxy for a way to the service. Its error has no type that could be named.
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

/// Why a proxy did not connect. A login that is missing is known by the library's words; were they to change, it would be
/// tried again as the rest is.
fn of_proxy(error: &reqwest::Error, proxy: ProxyName) -> TransportFault {
    let words = match find::<rustls::Error>(error) {
        Some(rustls::Error::InvalidCertificate(reason)) => {
            format!(
                "its certificate is not trusted: {}",
                trust::distrust(reason).why
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

/// What an HTTP/2 error is, without the words that the other side may add to it: they may be anything, also what we sent.
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
        // The TLS layer has a paragraph about it, with a link.
        Some(error) if error.to_string().contains("close_notify") => HUNG_UP.to_owned(),
        Some(error) => system_words(error),
        None => error.to_string(),
    }
}

/// The error within others of its kind: the TLS layer puts one around what the system said.
fn unwrapped(error: &io::Error) -> &io::Error {
    let mut error = error;
    while let Some(inner) = error.get_ref().and_then(|inner| inner.downcast_ref()) {
        error = inner;
    }
    error
}

/// The first cause of that type. An `io::Error` does not name the error that it carries as its source, so it is opened.
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
