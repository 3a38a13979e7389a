//! A service on a thread of its own, which counts what it accepts and refuses.

use std::convert::Infallible;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, RETRY_AFTER};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::sync::oneshot;

use crate::behaviour::{Behaviour, Judge};
use crate::counts::Counts;
use crate::users;

/// A running service; it ends when this is dropped.
pub(crate) struct Server {
    /// Without a path.
    pub(crate) url: String,
    service: Arc<Service>,
    /// Dropping it ends the service.
    _stop: oneshot::Sender<Infallible>,
}

struct Service {
    behaviour: Behaviour,
    judge: Mutex<Judge>,
    counts: Mutex<(Option<Instant>, Counts)>,
    in_flight: AtomicUsize,
    most_in_flight: AtomicUsize,
    answers: AtomicU64,
}

impl Server {
    /// Starts one; it listens when this returns.
    pub(crate) fn start(behaviour: Behaviour) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let service = Arc::new(Service {
            behaviour,
            judge: Mutex::new(Judge::new(behaviour)),
            counts: Mutex::default(),
            in_flight: AtomicUsize::new(0),
            most_in_flight: AtomicUsize::new(0),
            answers: AtomicU64::new(0),
        });
        let (stop, stopped) = oneshot::channel();
        let shared = Arc::clone(&service);
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
            service,
            _stop: stop,
        }
    }

    /// What it has seen so far.
    pub(crate) fn counts(&self) -> Counts {
        self.service.counts.lock().unwrap().1.clone()
    }

    /// The most calls that it had at a time.
    pub(crate) fn most_in_flight(&self) -> usize {
        self.service.most_in_flight.load(Ordering::Relaxed)
    }
}

async fn accept(listener: TcpListener, service: Arc<Service>) {
    listener.set_nonblocking(true).unwrap();
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        let service = Arc::clone(&service);
        drop(tokio::spawn(async move {
            let answer = service_fn(|request| service.answer(request));
            // A client that goes away is not an error.
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), answer)
                .await;
        }));
    }
}

impl Service {
    async fn answer(
        &self,
        request: Request<Incoming>,
    ) -> Result<Response<Full<Bytes>>, hyper::Error> {
        let body = request.into_body().collect().await?.to_bytes();
        let row = users::number(&body).unwrap_or_default();
        let accepted = self.judge.lock().unwrap().accepts(row);
        self.count(accepted);
        let in_flight = self.in_flight.fetch_add(1, Ordering::Relaxed) + 1;
        self.most_in_flight.fetch_max(in_flight, Ordering::Relaxed);
        if !self.behaviour.latency.is_zero() {
            tokio::time::sleep(self.behaviour.latency).await;
        }
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
        Ok(if accepted {
            self.verdict()
        } else {
            self.refusal()
        })
    }

    fn count(&self, accepted: bool) {
        let now = Instant::now();
        let (first, counts) = &mut *self.counts.lock().unwrap();
        counts.add(now - *first.get_or_insert(now), accepted);
    }

    /// Each has a transaction id of its own: one id for all would cause a warning.
    fn verdict(&self) -> Response<Full<Bytes>> {
        let number = self.answers.fetch_add(1, Ordering::Relaxed);
        let body = format!(r#"{{"transaction_id":"t-{number}","summary":{{"risk_score":1.68}}}}"#);
        Response::builder()
            .header(CONTENT_TYPE, "application/json")
            .body(Full::from(body))
            .unwrap()
    }

    fn refusal(&self) -> Response<Full<Bytes>> {
        let refusal = self.behaviour.refusal;
        let mut response = Response::builder().status(refusal.status);
        if let Some(seconds) = refusal.retry_after {
            response = response.header(RETRY_AFTER, seconds);
        }
        response.body(Full::from(r#"{"error":"not now"}"#)).unwrap()
    }
}
