//! The stand-in: it treats each request as its settings say, answers, refuses, fails and counts, over HTTP/1.1 on loopback, also
//! on a thread of its own. It must not know which requests are valid.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use std::{fmt, io};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::http::request::Parts;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde_json::json;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

use super::answer::{self, Rejection, SandboxPlan};
use crate::base::secret::Secret;
use crate::base::threads::lock;

/// What its transaction ids start with, so that they are not taken for the service's.
pub(crate) const ID_PREFIX: &str = "sandbox-";

/// A rate limit, as services have it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RateLimit {
    /// Requests per second; finite and above 0.
    pub per_second: f64,
    /// How many requests may come at the same moment.
    pub burst: NonZeroU32,
    /// The seconds in `Retry-After`; `None` sends no such header.
    pub retry_after: Option<u64>,
}

/// How the stand-in behaves.
#[derive(Debug, Clone)]
pub(crate) struct SandboxSettings {
    /// The address to listen on; loopback only.
    pub listen: SocketAddr,
    /// The plan that it simulates.
    pub plan: SandboxPlan,
    /// The keys that it accepts; if empty, any key.
    pub accepted_keys: Vec<Secret>,
    /// How long it takes to answer …
    pub latency: Duration,
    /// … and a random additional time of up to this.
    pub jitter: Duration,
    /// What goes wrong, and how often.
    pub faults: Faults,
    /// The rate limit.
    pub rate_limit: Option<RateLimit>,
    /// The seed of its random numbers: with one call at a time, a run repeats exactly.
    pub seed: u64,
}

impl Default for SandboxSettings {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            plan: SandboxPlan::Paid,
            accepted_keys: Vec::new(),
            latency: Duration::ZERO,
            jitter: Duration::ZERO,
            faults: Faults::default(),
            rate_limit: None,
            seed: 0,
        }
    }
}

/// A kind of fault: what comes instead of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FaultKind {
    /// This status: 402 for an account out of credit, 403 without a reason, 500, 503.
    Status(u16),
    /// The connection is reset before the answer.
    Reset,
    /// No answer ever comes.
    Stall,
    /// Status 200 with broken JSON: billed.
    BadJson,
    /// The connection is reset instead of the answer: billed.
    Lost,
}

/// Every kind with its name on the command line and in the report, in the order in which probabilities are added up.
const KINDS: [(&str, FaultKind); 8] = [
    ("402", FaultKind::Status(402)),
    ("403", FaultKind::Status(403)),
    ("500", FaultKind::Status(500)),
    ("503", FaultKind::Status(503)),
    ("reset", FaultKind::Reset),
    ("stall", FaultKind::Stall),
    ("bad-json", FaultKind::BadJson),
    ("lost", FaultKind::Lost),
];

/// The probability of each kind.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Faults([f64; KINDS.len()]);

impl Faults {
    /// Sets the probability of one kind.
    ///
    /// # Errors
    /// The probabilities of all kinds add up to more than 1.
    pub(crate) fn add(&mut self, kind: FaultKind, probability: f64) -> Result<(), String> {
        let slots = self.0.iter_mut().zip(KINDS);
        for (slot, _) in slots.filter(|(_, (_, other))| *other == kind) {
            *slot = probability;
        }
        // Tenths have no exact binary form: 0.7 + 0.2 + 0.1 may result in more than 1.
        if self.0.iter().sum::<f64>() > 1.0 + 1e-9 {
            return Err("the probabilities add up to more than 1".to_owned());
        }
        Ok(())
    }

    /// The fault for a random number between 0 and 1, if any.
    fn pick(&self, chance: f64) -> Option<(&'static str, FaultKind)> {
        let mut up_to = 0.0;
        let mut kinds = self.0.iter().zip(KINDS);
        let picked = kinds.find(|(probability, _)| {
            up_to += *probability;
            chance < up_to
        });
        picked.map(|(_, kind)| kind)
    }
}

/// Parses `KIND=PROBABILITY`.
///
/// # Errors
/// What is wrong with it, and what is allowed.
pub(crate) fn parse_fault(text: &str) -> Result<(FaultKind, f64), String> {
    const ALLOWED: &str = "allowed are 402, 403, 500, 503, reset, stall, bad-json and lost with a probability, such as `500=0.01`";
    let (name, probability) = text.split_once('=').ok_or(ALLOWED)?;
    let (_, kind) = KINDS
        .into_iter()
        .find(|(kind, _)| *kind == name)
        .ok_or(ALLOWED)?;
    let probability: f64 = probability.parse().map_err(|_| ALLOWED)?;
    if (0.0..=1.0).contains(&probability) {
        Ok((kind, probability))
    } else {
        Err("a probability must be between 0 and 1".to_owned())
    }
}

/// The counts of a stand-in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Report {
    /// All requests, except those for these counts.
    pub(crate) requests: u64,
    /// Successful answers: what the service would have charged.
    pub(crate) billed: u64,
    /// Requests above the rate limit.
    pub(crate) throttled: u64,
    /// Requests that violate the interface.
    pub(crate) refused: u64,
    /// Faults by name.
    pub(crate) faults: BTreeMap<&'static str, u64>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "requests {}, billed {}, throttled {}, refused {}",
            self.requests, self.billed, self.throttled, self.refused
        )?;
        let mut before = "; faults: ";
        for (name, count) in self.faults.iter().filter(|(_, count)| **count > 0) {
            write!(f, "{before}{count} × {name}")?;
            before = ", ";
        }
        Ok(())
    }
}

/// A complete response.
type HttpResponse = Response<Full<Bytes>>;

/// The connection is reset without an answer.
#[derive(Debug, PartialEq, Eq)]
struct HangUp;

/// The stand-in.
struct StandIn {
    settings: SandboxSettings,
    state: Mutex<State>,
}

/// What changes with each request.
struct State {
    random: fastrand::Rng,
    report: Report,
    /// Requests that may come now under the rate limit, as of this moment.
    tokens: (f64, Instant),
}

impl StandIn {
    fn new(settings: SandboxSettings) -> Self {
        let burst = settings
            .rate_limit
            .map_or(0.0, |limit| limit.burst.get().into());
        let faults = KINDS.into_iter().map(|(name, _)| (name, 0)).collect();
        Self {
            state: Mutex::new(State {
                random: fastrand::Rng::with_seed(settings.seed),
                report: Report {
                    faults,
                    ..Report::default()
                },
                tokens: (burst, Instant::now()),
            }),
            settings,
        }
    }

    fn report(&self) -> Report {
        lock(&self.state).report.clone()
    }

    async fn answer(
        &self,
        head: &Parts,
        body: Result<Bytes, Rejection>,
    ) -> Result<HttpResponse, HangUp> {
        if head.method == Method::GET && head.uri.path() == "/billed" {
            return Ok(with_json(StatusCode::OK, json!(self.report()).to_string()));
        }
        // Calls count when they arrive, as at a gateway, and not when they are answered.
        let (above, wait) = self.arrived();
        if !wait.is_zero() {
            sleep(wait).await;
        }
        if let Some(limit) = above {
            lock(&self.state).report.throttled += 1;
            return Ok(too_many(&limit));
        }
        let fault = self.pick_fault();
        match fault {
            Some(FaultKind::Status(status)) => {
                let status = StatusCode::from_u16(status).unwrap_or_default();
                return Ok(error(Rejection(status, "a rehearsed failure")));
            }
            Some(FaultKind::Reset) => return Err(HangUp),
            Some(FaultKind::Stall) => std::future::pending().await,
            None | Some(FaultKind::BadJson | FaultKind::Lost) => {}
        }
        match (self.verdict(head, body), fault) {
            (Ok(_), Some(FaultKind::BadJson)) => {
                let cut = r#"{"status":true,"summary":{"risk_sc"#;
                Ok(with_json(StatusCode::OK, cut.to_owned()))
            }
            (Ok(_), Some(FaultKind::Lost)) => Err(HangUp),
            (Ok(answer), _) => Ok(with_json(StatusCode::OK, answer)),
            (Err(rejection), _) => {
                lock(&self.state).report.refused += 1;
                Ok(error(rejection))
            }
        }
    }

    /// Counts a request. Returns the limit that it is above, and how long its answer takes.
    fn arrived(&self) -> (Option<RateLimit>, Duration) {
        let mut state = lock(&self.state);
        state.report.requests += 1;
        let above = self.settings.rate_limit.filter(|limit| {
            let (tokens, filled) = state.tokens;
            let now = Instant::now();
            let grown = (now - filled).as_secs_f64() * limit.per_second;
            let tokens = (tokens + grown).min(limit.burst.get().into());
            let allowed = tokens >= 1.0;
            state.tokens = (if allowed { tokens - 1.0 } else { tokens }, now);
            !allowed
        });
        let jitter = self.settings.jitter;
        let more = if jitter.is_zero() {
            0.0
        } else {
            state.random.f64()
        };
        (above, self.settings.latency + jitter.mul_f64(more))
    }

    /// The fault that a request meets, if any.
    fn pick_fault(&self) -> Option<FaultKind> {
        if self.settings.faults == Faults::default() {
            return None;
        }
        let mut state = lock(&self.state);
        let (name, kind) = self.settings.faults.pick(state.random.f64())?;
        *state.report.faults.entry(name).or_default() += 1;
        Some(kind)
    }

    /// The body of a good answer.
    fn verdict(&self, head: &Parts, body: Result<Bytes, Rejection>) -> Result<String, Rejection> {
        if head.uri.path() != "/v1/validate/user" {
            let message = "the only path is /v1/validate/user";
            return Err(Rejection(StatusCode::NOT_FOUND, message));
        }
        if head.method != Method::POST {
            let (status, message) = (StatusCode::METHOD_NOT_ALLOWED, "the only method is POST");
            return Err(Rejection(status, message));
        }
        answer::headers(&head.headers, &self.settings.accepted_keys)?;
        let user = answer::body(&body?, self.settings.plan)?;
        let (hundredths, patterns) = answer::score(&user);
        let number = {
            let mut state = lock(&self.state);
            state.report.billed += 1;
            state.report.billed
        };
        let (level, label) = match hundredths {
            ..=200 => (0, "Legit"),
            201..=500 => (1, "Suspicious"),
            _ => (2, "Risky"),
        };
        Ok(format!(
            concat!(
                r#"{{"status":true,"summary":{{"risk_level":{level},"verify_label":"{label}","#,
                r#""risk_score":{whole}.{rest:02},"score_confidence":"0%","#,
                r#""engine":"rescore sandbox"}},"risk_patterns":{patterns},"parameters":{{}},"#,
                r#""transaction_id":"{prefix}{number:08}-{hash:08x}","timestamp":"{time}"}}"#
            ),
            level = level,
            label = label,
            whole = hundredths / 100,
            rest = hundredths % 100,
            patterns = json!(patterns),
            prefix = ID_PREFIX,
            number = number,
            hash = answer::hash(&user) >> 32,
            time = jiff::Timestamp::now().strftime("%FT%TZ"),
        ))
    }
}

fn too_many(limit: &RateLimit) -> HttpResponse {
    let status = StatusCode::TOO_MANY_REQUESTS;
    let mut answer = error(Rejection(status, "too many requests"));
    if let Some(seconds) = limit.retry_after {
        answer.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    answer
}

fn error(Rejection(status, message): Rejection) -> HttpResponse {
    let body = json!({ "error": { "message": message } });
    let mut answer = with_json(status, body.to_string());
    if status == StatusCode::METHOD_NOT_ALLOWED {
        answer
            .headers_mut()
            .insert(ALLOW, HeaderValue::from_static("POST"));
    }
    answer
}

fn with_json(status: StatusCode, body: String) -> HttpResponse {
    let mut answer = Response::new(Full::new(Bytes::from(body)));
    *answer.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    answer.headers_mut().insert(CONTENT_TYPE, json);
    answer
}

/// The largest body that is read. The client's bodies are smaller than 2 KiB.
const MAX_BODY: usize = 1024 * 1024;

/// Starts to listen.
///
/// # Errors
/// The address is not on loopback, or it is taken.
pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    if !address.ip().is_loopback() {
        // If it answered a network, it would sooner or later be mistaken for the service.
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the stand-in listens on this machine only",
        ));
    }
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Serves until `stop`, and returns the counts.
///
/// # Errors
/// The listener cannot be used.
pub(crate) async fn serve(
    listener: TcpListener,
    settings: SandboxSettings,
    stop: impl Future<Output = ()>,
) -> io::Result<Report> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let stand_in = Arc::new(StandIn::new(settings));
    let mut stop = std::pin::pin!(stop);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut stop => return Ok(stand_in.report()),
        };
        match accepted {
            Ok((stream, _)) => drop(tokio::spawn(connection(stream, Arc::clone(&stand_in)))),
            // Probably out of file descriptors. The next attempt may succeed.
            Err(_) => sleep(Duration::from_millis(10)).await,
        }
    }
}

async fn connection(stream: TcpStream, stand_in: Arc<StandIn>) {
    use std::os::fd::AsFd;
    // Answers are single small writes. Waiting to fill a packet would only add latency.
    let _ = stream.set_nodelay(true);
    // A second handle to the socket, to close it with a reset: hyper owns the first one.
    let handle = stream.as_fd().try_clone_to_owned().ok();
    let serve = service_fn(async |request: Request<Incoming>| {
        let (head, body) = request.into_parts();
        let body = match Limited::new(body, MAX_BODY).collect().await {
            Ok(body) => Ok(body.to_bytes()),
            Err(error) if error.is::<LengthLimitError>() => Err(too_large()),
            Err(_) => return Err(io::Error::other("the client has gone away")),
        };
        stand_in.answer(&head, body).await.map_err(|HangUp| {
            if let Some(socket) = &handle {
                // If this fails, the client sees an orderly end instead, which is a fault as well.
                let _ = rustix::net::sockopt::set_socket_linger(socket, Some(Duration::ZERO));
            }
            io::Error::other("the stand-in hangs up")
        })
    });
    // A client that goes away is not worth reporting.
    let _ = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(stream), serve)
        .await;
}

const fn too_large() -> Rejection {
    let status = StatusCode::PAYLOAD_TOO_LARGE;
    Rejection(status, "the body is larger than 1 MiB")
}

/// A stand-in on its own thread.
pub(crate) struct Sandbox {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<io::Result<Report>>,
}

impl Sandbox {
    /// Starts a stand-in. It is listening when this returns.
    ///
    /// # Errors
    /// The address is not on loopback, or cannot be used.
    pub(crate) fn start(settings: SandboxSettings) -> io::Result<Self> {
        let listener = listen(settings.listen)?;
        let address = listener.local_addr()?;
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name("sandbox".to_owned());
        let thread = thread.spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(serve(listener, settings, async {
                // A dropped sender means the same.
                let _ = stopped.await;
            }))
        })?;
        Ok(Self {
            address,
            stop,
            thread,
        })
    }

    /// Its address.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops it, and returns its counts.
    pub(crate) fn stop(self) -> Report {
        // It may have ended already.
        let _ = self.stop.send(());
        let ended = self.thread.join().ok().and_then(Result::ok);
        ended.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_add_up() {
        let mut faults = Faults::default();
        for text in ["500=0.1", "stall=0.2"] {
            let (kind, probability) = parse_fault(text).unwrap();
            faults.add(kind, probability).unwrap();
        }
        assert_eq!(faults.pick(0.05), Some(("500", FaultKind::Status(500))));
        assert_eq!(faults.pick(0.15), Some(("stall", FaultKind::Stall)));
        assert_eq!(faults.pick(0.31), None);
        assert!(faults.add(FaultKind::Reset, 0.9).is_err());
        for bad in ["404=1", "500", "500=2", "500=x"] {
            assert!(parse_fault(bad).is_err(), "{bad}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn calls_count_against_the_limit_when_they_arrive_and_not_when_they_are_answered() {
        let stand_in = StandIn::new(SandboxSettings {
            jitter: Duration::from_millis(40),
            rate_limit: Some(RateLimit {
                per_second: 100.0,
                burst: NonZeroU32::MIN,
                retry_after: None,
            }),
            ..SandboxSettings::default()
        });
        let (head, ()) = hyper::Request::new(()).into_parts();
        // At 40 % of the limit, although many are answered within 10 ms of each other.
        let calls = (0..100).map(async |nth| {
            sleep(Duration::from_millis(25) * nth).await;
            let answer = stand_in.answer(&head, Ok(Bytes::new())).await;
            answer.unwrap().status()
        });
        let answers = futures::future::join_all(calls).await;
        assert_eq!(answers, [StatusCode::NOT_FOUND; 100]);
        let report = stand_in.report();
        assert_eq!((report.requests, report.throttled), (100, 0));
    }
}
