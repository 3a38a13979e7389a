//! A service on a thread of its own, which counts what it accepts and refuses.

use std::convert::Infallible;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use memchr::memmem;
use tokio::sync::oneshot;

/// The text before the number of a row in its user's email address.
pub(crate) const BEFORE_NUMBER: &str = "\"user.";

/// What is refused whatever the pace.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Refuses {
    Nobody,
    /// This share of calls.
    Share(f64),
    /// This row.
    Row(u32),
}

/// Calls in their order: seconds since the first one, and whether they were accepted.
#[derive(Debug, Clone, Default)]
pub(crate) struct Calls(pub(crate) Vec<(f64, bool)>);

impl Calls {
    pub(crate) fn refused(&self) -> usize {
        self.0.iter().filter(|(_, accepted)| !accepted).count()
    }

    /// Calls accepted a second from one second to another.
    pub(crate) fn rate(&self, from: f64, to: f64) -> f64 {
        let is_in = |(at, accepted): &&(f64, bool)| *accepted && *at >= from && *at < to;
        self.0.iter().filter(is_in).count() as f64 / (to - from)
    }
}

/// A running service; it ends when this is dropped.
pub(crate) struct Service {
    /// Without a path.
    pub(crate) url: String,
    state: Arc<State>,
    /// Dropping it ends the service.
    _stop: oneshot::Sender<Infallible>,
}

struct State {
    latency: Duration,
    refuses: Refuses,
    seen: Mutex<(Option<Instant>, Calls)>,
}

impl Service {
    /// Starts one whose answers take so long, refusals as well; it listens when this returns.
    pub(crate) fn start(latency: Duration, refuses: Refuses) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen = Mutex::default();
        let state = Arc::new(State {
            latency,
            refuses,
            seen,
        });
        let (stop, stopped) = oneshot::channel();
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                tokio::select! {
                    () = accept(listener, shared) => (),
                    _ = stopped => (),
                }
            });
        });
        Self {
            url,
            state,
            _stop: stop,
        }
    }

    /// What it has seen so far.
    pub(crate) fn calls(&self) -> Calls {
        self.state.seen.lock().unwrap().1.clone()
    }
}

async fn accept(listener: TcpListener, state: Arc<State>) {
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        let state = Arc::clone(&state);
        drop(tokio::spawn(async move {
            let answer = service_fn(|request| state.answer(request));
            // A client that goes away is not an error.
            let http = hyper::server::conn::http1::Builder::new();
            let _ = http.serve_connection(TokioIo::new(stream), answer).await;
        }));
    }
}

impl State {
    async fn answer(
        &self,
        request: Request<Incoming>,
    ) -> Result<Response<Full<Bytes>>, hyper::Error> {
        let body = request.into_body().collect().await?.to_bytes();
        let (number, accepted) = self.judge(&body);
        if !self.latency.is_zero() {
            tokio::time::sleep(self.latency).await;
        }
        // Each answer has a transaction id of its own: one id for all would cause a warning.
        let (status, body) = if accepted {
            (
                200,
                format!(r#"{{"transaction_id":"t-{number}","summary":{{"risk_score":1.68}}}}"#),
            )
        } else {
            (429, r#"{"error":"not now"}"#.to_owned())
        };
        let answer = Response::builder()
            .status(status)
            .header("content-type", "application/json");
        Ok(answer.body(Full::from(body)).unwrap())
    }

    /// The number of the call, and whether it is accepted.
    fn judge(&self, body: &[u8]) -> (usize, bool) {
        let now = Instant::now();
        let accepted = match self.refuses {
            Refuses::Nobody => true,
            Refuses::Share(share) => fastrand::f64() >= share,
            Refuses::Row(row) => row_of(body) != Some(row),
        };
        let (first, calls) = &mut *self.seen.lock().unwrap();
        let at = now - *first.get_or_insert(now);
        calls.0.push((at.as_secs_f64(), accepted));
        (calls.0.len(), accepted)
    }
}

/// The row that this body asks about.
fn row_of(body: &[u8]) -> Option<u32> {
    let at = memmem::find(body, BEFORE_NUMBER.as_bytes())? + BEFORE_NUMBER.len();
    let digits = body[at..].iter().take_while(|byte| byte.is_ascii_digit());
    Some(digits.fold(0, |number, digit| number * 10 + u32::from(digit - b'0')))
}
