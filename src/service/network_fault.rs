//! What an error of the HTTP library means: whether anything was sent, and who is at fault.
//!
//! Types tell whether the request may have been processed. The library's words only choose ours, and whether a call to which
//! no connection was made is made again, so that it does no harm if they change.

use std::error::Error as StdError;
use std::io;
use std::iter::successors;

use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpInfo;
use rustls::AlertDescription;

use super::endpoint::Endpoint;
use crate::base::error::system_words;
use crate::base::text::quoted;

/// Why no answer came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransportFault {
    /// The service's host name, or that "of the proxy …", cannot be resolved.
    HostNotFound(String),
    /// No connection, or no TLS handshake, for this reason: nothing was sent.
    Unreachable(String),
    /// Nothing listens at the service's address, or the resolver does not answer, such as before the service is up.
    NotConnected(String),
    /// Nothing was sent, and no further call would get through: why, and a hint for the user.
    Refused(String, &'static str),
    /// The request was still queued when its connection ended.
    Unprocessed(String),
    /// The request was sent, and its HTTP/2 connection ended in order before the server took it.
    ConnectionEnded(String),
    /// The server refused the request's HTTP/2 stream, as there are too many.
    StreamRefused,
    /// The server refused HTTP/2 itself, so that further calls are made by HTTP/1.1.
    WantsHttp1,
    /// The request was sent, and the complete answer did not come in time.
    TimedOut,
    /// The connection broke as the request was sent, probably because it had been used before.
    Stale(String),
    /// The connection broke after the request was sent: reset, end of file, or a short body.
    Broken(String),
    /// What came back is not HTTP, or has headers that HTTP does not allow.
    NotHttp(String),
}

/// The library's words, ours for them, and a hint if no further call would get through. The first row that fits
/// counts. After a colon the library's words follow.
const WORDS: [(&str, &str, &str); 15] = [
    (
        "alert: CertificateRequired",
        "the service wants a certificate of the client",
        "this is not supported: ask for access with the API key alone, or through a proxy that has the certificate",
    ),
    (
        "UnknownIssuer",
        "the service's certificate is not trusted: the authority that signed it is not known here",
        AUTHORITY,
    ),
    ("certificate expired", NOT_TRUSTED, CLOCK),
    ("certificate not valid yet", NOT_TRUSTED, CLOCK),
    ("not valid for name", NOT_TRUSTED, "check the base address"),
    ("invalid peer certificate", NOT_TRUSTED, AUTHORITY),
    (
        "corrupt message",
        "the service does not speak TLS at this address",
        "check scheme and port of the base address",
    ),
    ("proxy authorization", "requires a login (407)", LOGIN),
    ("unsuccessful", "it refuses to connect to the service", ""),
    ("unexpected end of file", HUNG_UP, ""),
    (
        "alert: HandshakeFailure",
        "the service refuses it, perhaps as it wants a certificate of the client, which is not supported",
        "",
    ),
    ("operation timed out", "timed out", ""),
    // The TLS layer has a whole paragraph about it, with a link.
    ("close_notify", HUNG_UP, ""),
    ("tls handshake eof", HUNG_UP, ""),
    ("stream closed because of a broken pipe", HUNG_UP, ""),
];

/// How the words of an error begin that has no public type: a proxy does not open a tunnel to the service.
const TUNNEL: &str = "tunnel error: ";
const NOT_TRUSTED: &str = "the service's certificate is not trusted:";
const AUTHORITY: &str = "give `--ca-file` a file with the authority that signed it, such as a company's own, and with any intermediate certificate that the service leaves out";
const CLOCK: &str = "check this machine's clock with `date`; if it is right, the service has to renew the certificate";
const LOGIN: &str =
    "give it in the variable that names the proxy, such as `http://user:password@proxy:3128`";
const HUNG_UP: &str = "the other side closed the connection";

/// What a reqwest error means. `is_connect` is checked before `is_timeout`, as a connection that
/// times out is both. `proxy` is the host that calls go through, if they go through one.
pub(super) fn fault(
    error: &reqwest::Error,
    endpoint: &Endpoint,
    proxy: Option<&str>,
) -> TransportFault {
    let said = innermost(error);
    let (words, hint) = worded(&said);
    // With TLS 1.3 it comes after the request was sent, and the server has read nothing of that.
    if let Some(rustls::Error::AlertReceived(AlertDescription::CertificateRequired)) = find(error) {
        return TransportFault::Refused(words, hint);
    }
    if error.is_dns() {
        // The resolver itself does not answer, such as on a machine whose network is not up yet.
        if said.contains("Temporary failure") {
            return TransportFault::NotConnected(words);
        }
        // With a proxy, the proxy resolves the service's name.
        return TransportFault::HostNotFound(match proxy {
            Some(proxy) => format!("of the proxy {}", quoted(proxy)),
            None => quoted(endpoint.domain()),
        });
    }
    if error.is_connect() {
        let is_tunnel = causes(error).any(|it| it.to_string().starts_with(TUNNEL));
        // With plain HTTP, every connection is to the proxy; and it is unknown which part of the way takes too long.
        let is_of_proxy = is_tunnel || endpoint.is_plain() || error.is_timeout();
        let proxy = proxy.filter(|_| is_of_proxy).map(quoted);
        let is_tls = find::<rustls::Error>(error).is_some() || said == "tls handshake eof";
        let failed = if is_tls {
            "the TLS handshake failed: "
        } else {
            ""
        };
        return match proxy {
            Some(proxy) if hint == LOGIN => {
                TransportFault::Refused(format!("the proxy {proxy} {words}"), hint)
            }
            Some(proxy) => TransportFault::Unreachable(format!(
                "cannot connect through the proxy {proxy}: {failed}{words}"
            )),
            None if !hint.is_empty() => TransportFault::Refused(words, hint),
            None if is_tls => {
                TransportFault::Unreachable(format!("cannot connect: {failed}{words}"))
            }
            None => TransportFault::NotConnected(format!("cannot connect: {words}")),
        };
    }
    if error.is_timeout() {
        return TransportFault::TimedOut;
    }
    // A server that has started to answer has processed the request, whatever it says afterwards.
    if error.is_request()
        && let Some(fault) = unprocessed(error, &words)
    {
        return fault;
    }
    match find::<hyper::Error>(error) {
        Some(parsed) if parsed.is_parse() && !parsed.is_parse_too_large() => {
            TransportFault::NotHttp(words)
        }
        _ => TransportFault::Broken(words),
    }
}

/// The fault of a request that was certainly not processed: it was still queued when its connection ended, or an HTTP/2
/// server says so (RFC 9113, section 8.7), by refusing its stream or by a GOAWAY with a last stream before it. Streams up to
/// the last one do not end with this error.
fn unprocessed(error: &reqwest::Error, words: &str) -> Option<TransportFault> {
    if find::<hyper::Error>(error).is_some_and(hyper::Error::is_canceled) {
        return Some(TransportFault::Unprocessed(words.to_owned()));
    }
    let said = find::<h2::Error>(error).filter(|error| error.is_remote())?;
    match (said.reason()?, said.is_go_away()) {
        (h2::Reason::HTTP_1_1_REQUIRED, _) => Some(TransportFault::WantsHttp1),
        (h2::Reason::REFUSED_STREAM, _) | (h2::Reason::ENHANCE_YOUR_CALM, true) => {
            Some(TransportFault::StreamRefused)
        }
        (_, true) => Some(TransportFault::ConnectionEnded(words.to_owned())),
        (_, false) => None,
    }
}

/// If the connection ended after the request was sent, and before anything was answered: the port of our end.
pub(super) fn unanswered_on(error: &reqwest::Error) -> Option<u16> {
    use io::ErrorKind::{BrokenPipe, ConnectionReset};
    let ended = find::<hyper::Error>(error).is_some_and(hyper::Error::is_incomplete_message);
    let broken = |error: &io::Error| [BrokenPipe, ConnectionReset].contains(&error.kind());
    if !ended && !find(error).is_some_and(broken) {
        return None;
    }
    let mut way = hyper::http::Extensions::new();
    let connection = find::<legacy::Error>(error)?.connect_info()?;
    connection.get_extras(&mut way);
    Some(way.get::<HttpInfo>()?.local_addr().port())
}

/// Our words for those of the library, and a hint, which may be empty.
fn worded(said: &str) -> (String, &'static str) {
    for (has, words, hint) in WORDS {
        if let Some((_, rest)) = said.split_once(has) {
            let theirs = words.ends_with(':').then(|| format!(" {has}{rest}"));
            return (words.to_owned() + &theirs.unwrap_or_default(), hint);
        }
    }
    (said.trim_start_matches(TUNNEL).to_owned(), "")
}

type Cause<'a> = &'a (dyn StdError + 'static);

/// An error and its causes, the outermost first.
fn causes(error: Cause<'_>) -> impl Iterator<Item = Cause<'_>> {
    successors(Some(error), |&error| error.source())
}

/// The words of the innermost cause. An HTTP/2 error has only its kind, without the words that the
/// server may add: they may be anything, even what we sent.
fn innermost(error: &reqwest::Error) -> String {
    if let Some(error) = find::<h2::Error>(error) {
        let kind = error.reason().map(|reason| reason.description().to_owned());
        let system = || error.get_io().map(system_words);
        return kind.or_else(system).unwrap_or_else(|| error.to_string());
    }
    let error = causes(error).last().unwrap_or(error);
    let system = error.downcast_ref().map(system_words);
    system.unwrap_or_else(|| error.to_string())
}

/// The first cause of this type. An `io::Error` does not return its inner error as its source, so
/// it is opened.
fn find<T: StdError + 'static>(error: Cause<'_>) -> Option<&T> {
    causes(error).find_map(|error| {
        let io = || error.downcast_ref::<io::Error>();
        let inner = || io().and_then(io::Error::get_ref);
        error.downcast_ref().or_else(|| find(inner()?))
    })
}
