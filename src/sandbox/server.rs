//! The stand-in on the network: HTTP/1.1 on loopback, faults and limits for rehearsals, and the count of what it billed.

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::http::request::Parts;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

use super::check::{self, Refusal};
use super::deadline::{Deadline, Timed};
use super::faults::KINDS;
use super::{FaultKind, RateLimit, Settings, score};

/// The largest body that is read; ours are below 2 KiB.
const MAX_BODY: usize = 1024 * 1024;

/// Begins to listen.
///
/// # Errors
/// The address is not on loopback, or it is taken.
pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    if !address.ip().is_loopback() {
        // A stand-in that answers to a network would sooner or later be taken for the service.
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the stand-in listens on this machine only",
        ));
    }
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Serves until `stop`; what it has seen and billed.
///
/// # Errors
/// The listener cannot be used.
pub(crate) async fn serve(
    listener: TcpListener,
    settings: Settings,
    stop: impl Future<Output = ()>,
) -> io::Result<Report> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let state = Arc::new(State::new(settings));
    let mut stop = std::pin::pin!(stop);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut stop => return Ok(state.report()),
        };
        match accepted {
            Ok((stream, _)) => drop(tokio::spawn(connection(stream, Arc::clone(&state)))),
            // Out of file descriptors, most likely: the next one may do.
            Err(_) => sleep(std::time::Duration::from_millis(10)).await,
        }
    }
}

/// What a stand-in has seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Requests in all, but for those that asked for this count.
    pub(crate) requests: u64,
    /// Answers with success: what the service would have charged.
    pub(crate) billed: u64,
    /// Requests above the rate limit.
    pub(crate) throttled: u64,
    /// Requests against the interface.
    pub(crate) refused: u64,
    /// Faults, in the order of [`FaultKind::ALL`].
    pub(crate) faults: [u64; KINDS],
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "requests {}, billed {}, throttled {}, refused {}",
            self.requests, self.billed, self.throttled, self.refused
        )?;
        let mut before = "; faults: ";
        for (count, kind) in self.faults.iter().zip(FaultKind::ALL) {
            if *count > 0 {
                write!(f, "{before}{count} × {}", kind.name())?;
                before = ", ";
            }
        }
        Ok(())
    }
}

struct State {
    settings: Settings,
    random: Mutex<fastrand::Rng>,
    bucket: Mutex<Bucket>,
    requests: AtomicU64,
    billed: AtomicU64,
    throttled: AtomicU64,
    refused: AtomicU64,
    faults: [AtomicU64; KINDS],
}

/// A token bucket.
struct Bucket {
    tokens: f64,
    filled: Instant,
}

impl Bucket {
    fn take(&mut self, limit: &RateLimit) -> bool {
        let now = Instant::now();
        let grown = (now - self.filled).as_secs_f64() * limit.per_second;
        self.tokens = (self.tokens + grown).min(f64::from(limit.burst.get()));
        self.filled = now;
        let allowed = self.tokens >= 1.0;
        if allowed {
            self.tokens -= 1.0;
        }
        allowed
    }
}

type Answer = Response<Full<Bytes>>;

/// The connection is to end without an answer.
#[derive(Debug)]
struct HangUp;

impl fmt::Display for HangUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the stand-in hangs up")
    }
}

impl std::error::Error for HangUp {}

async fn connection(stream: TcpStream, state: Arc<State>) {
    // Answers are single small writes; waiting to fill a packet would only add latency.
    let _ = stream.set_nodelay(true);
    let handle = ResetHandle::of(&stream);
    let deadline = Deadline::default();
    let serve = service_fn(async |request: Request<Incoming>| {
        let (head, body) = request.into_parts();
        let body = whole(body).await?;
        deadline.met();
        state.answer(&head, body, &handle).await
    });
    // A client that goes away is no news.
    let _ = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(Timed::new(stream, deadline.clone())), serve)
        .await;
}

/// A request's body, or that it is too large.
async fn whole(body: Incoming) -> Result<Result<Bytes, Refusal>, HangUp> {
    match Limited::new(body, MAX_BODY).collect().await {
        Ok(body) => Ok(Ok(body.to_bytes())),
        Err(error) if error.is::<LengthLimitError>() => Ok(Err((
            StatusCode::PAYLOAD_TOO_LARGE,
            "too_large",
            "the body is larger than 1 MiB",
        ))),
        // There is nobody left to answer to.
        Err(_) => Err(HangUp),
    }
}

impl State {
    fn new(settings: Settings) -> Self {
        let tokens = settings
            .rate_limit
            .map_or(0.0, |limit| f64::from(limit.burst.get()));
        Self {
            random: Mutex::new(fastrand::Rng::with_seed(settings.seed)),
            bucket: Mutex::new(Bucket {
                tokens,
                filled: Instant::now(),
            }),
            settings,
            requests: AtomicU64::new(0),
            billed: AtomicU64::new(0),
            throttled: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            faults: Default::default(),
        }
    }

    fn report(&self) -> Report {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut faults = [0; KINDS];
        for (count, counter) in faults.iter_mut().zip(&self.faults) {
            *count = read(counter);
        }
        Report {
            requests: read(&self.requests),
            billed: read(&self.billed),
            throttled: read(&self.throttled),
            refused: read(&self.refused),
            faults,
        }
    }

    fn chance(&self) -> f64 {
        self.random
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .f64()
    }

    async fn answer(
        &self,
        head: &Parts,
        body: Result<Bytes, Refusal>,
        handle: &ResetHandle,
    ) -> Result<Answer, HangUp> {
        if head.method == Method::GET && head.uri.path() == "/billed" {
            return Ok(self.billed_page());
        }
        self.requests.fetch_add(1, Ordering::Relaxed);
        // Calls count when they come, as they do at a gateway, and not when their work is done.
        let limit = self.settings.rate_limit.as_ref();
        let refused = limit.filter(|limit| {
            let mut bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
            !bucket.take(limit)
        });
        let Settings {
            latency, jitter, ..
        } = self.settings;
        if !(latency.is_zero() && jitter.is_zero()) {
            sleep(latency + jitter.mul_f64(self.chance())).await;
        }
        if let Some(limit) = refused {
            self.throttled.fetch_add(1, Ordering::Relaxed);
            return Ok(too_many(limit));
        }
        let fault = if self.settings.faults.is_none() {
            None
        } else {
            self.settings.faults.pick(self.chance())
        };
        if let Some(kind) = fault {
            for (counter, other) in self.faults.iter().zip(FaultKind::ALL) {
                counter.fetch_add(u64::from(other == kind), Ordering::Relaxed);
            }
            match kind {
                FaultKind::OutOfCredit => return Ok(rehearsed(StatusCode::PAYMENT_REQUIRED)),
                FaultKind::Forbidden => return Ok(rehearsed(StatusCode::FORBIDDEN)),
                FaultKind::ServerError => return Ok(rehearsed(StatusCode::INTERNAL_SERVER_ERROR)),
                FaultKind::Unavailable => return Ok(rehearsed(StatusCode::SERVICE_UNAVAILABLE)),
                FaultKind::Reset => {
                    handle.reset_on_close();
                    return Err(HangUp);
                }
                FaultKind::Stall => match std::future::pending::<Infallible>().await {},
                FaultKind::BadJson => {}
            }
        }
        match self.verdict(head, body) {
            Ok(_) if fault == Some(FaultKind::BadJson) => Ok(json(
                StatusCode::OK,
                r#"{"status":true,"summary":{"risk_sc"#.to_owned(),
            )),
            Ok(answer) => Ok(answer),
            Err(refusal) => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                let mut answer = error(refusal);
                if refusal.0 == StatusCode::METHOD_NOT_ALLOWED {
                    answer
                        .headers_mut()
                        .insert(ALLOW, HeaderValue::from_static("POST"));
                }
                Ok(answer)
            }
        }
    }

    fn verdict(&self, head: &Parts, body: Result<Bytes, Refusal>) -> Result<Answer, Refusal> {
        if head.uri.path() != "/v1/validate/user" {
            return Err((
                StatusCode::NOT_FOUND,
                "not_found",
                "the only path is /v1/validate/user",
            ));
        }
        if head.method != Method::POST {
            return Err((
                StatusCode::METHOD_NOT_ALLOWED,
                "not_allowed",
                "the only method is POST",
            ));
        }
        check::headers(&head.headers, &self.settings.accepted_keys)?;
        let user = check::body(&body?, self.settings.plan)?;
        let (hundredths, patterns) = score::of(&user);
        let number = self.billed.fetch_add(1, Ordering::Relaxed) + 1;
        let level = match hundredths {
            ..=200 => 0,
            201..=500 => 1,
            _ => 2,
        };
        let patterns: Vec<String> = patterns
            .into_iter()
            .map(|name| format!("\"{name}\""))
            .collect();
        Ok(json(
            StatusCode::OK,
            format!(
                concat!(
                    r#"{{"status":true,"summary":{{"risk_level":{level},"verify_label":"{label}","risk_score":{whole}.{rest:02},"#,
                    r#""score_confidence":"0%","engine":"rescore sandbox"}},"risk_patterns":[{patterns}],"parameters":{{}},"#,
                    r#""transaction_id":"sandbox-{number:08}-{hash:08x}","timestamp":"{time}"}}"#
                ),
                level = level,
                label = ["Legit", "Suspicious", "Risky"]
                    .get(level)
                    .copied()
                    .unwrap_or_default(),
                whole = hundredths / 100,
                rest = hundredths % 100,
                patterns = patterns.join(","),
                number = number,
                hash = score::hash(&user) >> 32,
                time = humantime::format_rfc3339_seconds(SystemTime::now()),
            ),
        ))
    }

    fn billed_page(&self) -> Answer {
        let report = self.report();
        let faults: serde_json::Map<_, _> = report
            .faults
            .iter()
            .zip(FaultKind::ALL)
            .map(|(count, kind)| (kind.name().to_owned(), (*count).into()))
            .collect();
        let page = json!({
            "requests": report.requests,
            "billed": report.billed,
            "throttled": report.throttled,
            "refused": report.refused,
            "faults": faults,
        });
        json(StatusCode::OK, page.to_string())
    }
}

fn too_many(limit: &RateLimit) -> Answer {
    let mut answer = error((
        StatusCode::TOO_MANY_REQUESTS,
        "rate_limited",
        "too many requests",
    ));
    if let Some(seconds) = limit.retry_after {
        answer.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    answer
}

fn rehearsed(status: StatusCode) -> Answer {
    error((status, "rehearsed", "a rehearsed failure"))
}

fn error((status, code, message): Refusal) -> Answer {
    json(
        status,
        json!({ "error": { "code": code, "message": message } }).to_string(),
    )
}

fn json(status: StatusCode, body: String) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(body)));
    *answer.status_mut() = status;
    answer
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}

/// A second handle to a connection's socket, to make its end a reset: hyper owns the first.
struct ResetHandle(#[cfg(unix)] Option<std::os::fd::OwnedFd>);

#[cfg(unix)]
impl ResetHandle {
    fn of(stream: &TcpStream) -> Self {
        use std::os::fd::AsFd;
        Self(stream.as_fd().try_clone_to_owned().ok())
    }

    fn reset_on_close(&self) {
        if let Some(socket) = &self.0 {
            // If it fails the client sees an orderly end instead: a fault all the same.
            let _ = socket2::SockRef::from(socket).set_linger(Some(std::time::Duration::ZERO));
        }
    }
}

#[cfg(not(unix))]
impl ResetHandle {
    fn of(_: &TcpStream) -> Self {
        Self()
    }

    fn reset_on_close(&self) {}
}

#[cfg(test)]
mod tests;
