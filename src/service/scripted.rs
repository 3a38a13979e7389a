//! A scripted service for tests: what each call of a row brings and when, on tokio's clock.
//!
//! A request's body is the row's number in digits; the answer's transaction id is `t-` and that
//! number, so that a test notices a row with another row's verdict.

#![allow(clippy::unwrap_used)]

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::pending;
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::HeaderMap;
use reqwest::header::{HeaderName, HeaderValue, RETRY_AFTER};
use tokio::time::{Instant, sleep};

use super::client::{Exchange, Reply, SentRequest, Service};
use super::network_fault::TransportFault;

/// What a call brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScriptedResult {
    /// A success with a verdict.
    Verdict,
    /// A success with this row's verdict, whichever row was sent.
    VerdictOf(u64),
    /// A success without one.
    Useless,
    /// A success that does not come from the service but, for instance, from a proxy.
    Page,
    /// This status and an empty body.
    Status(u16),
    /// This status and this `Retry-After`.
    RetryAfter(u16, &'static str),
    /// The call's HTTP/2 stream is refused.
    StreamRefused,
    /// No answer in time.
    TimedOut,
    /// The host name cannot be resolved.
    HostNotFound,
    /// Nothing listens.
    NotConnected,
    /// Neither an answer nor an end of the connection.
    Stall,
}

/// The script of one call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    /// What the call brings.
    pub(crate) brings: ScriptedResult,
    /// How long it takes.
    pub(crate) latency: Duration,
}

impl ScriptedResult {
    /// It comes after this many milliseconds.
    pub(crate) const fn after(self, milliseconds: u64) -> Step {
        Step {
            brings: self,
            latency: Duration::from_millis(milliseconds),
        }
    }

    /// It comes immediately, in the same instant.
    pub(crate) const fn immediately(self) -> Step {
        self.after(0)
    }
}

/// A call that was made; times are measured from the service's creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MadeCall {
    /// For which row.
    pub(crate) row: u64,
    /// When it started.
    pub(crate) began: Duration,
    /// When it ended; `None` if it was abandoned or is still in flight.
    pub(crate) ended: Option<Duration>,
    /// How often the key had been renewed when it started.
    pub(crate) key: usize,
}

/// The service.
pub(crate) struct Scripted {
    scripts: RefCell<HashMap<u64, std::vec::IntoIter<Step>>>,
    otherwise: Step,
    headers: HeaderMap,
    made: RefCell<Vec<MadeCall>>,
    renewals: RefCell<std::vec::IntoIter<Result<(), String>>>,
    looks: Cell<usize>,
    key: Cell<usize>,
    created: Instant,
}

impl Scripted {
    /// The default of `--timeout`. Scripts ignore it.
    pub(crate) const LONGEST_CALL: Duration = Duration::from_secs(30);

    /// A service that does this for every call without a script.
    pub(crate) fn new(otherwise: Step) -> Self {
        Self {
            scripts: RefCell::default(),
            otherwise,
            headers: HeaderMap::new(),
            made: RefCell::default(),
            renewals: RefCell::default(),
            looks: Cell::new(0),
            key: Cell::new(0),
            created: Instant::now(),
        }
    }

    /// The first calls of this row bring these.
    pub(crate) fn row(self, row: u64, script: impl IntoIterator<Item = Step>) -> Self {
        let script: Vec<_> = script.into_iter().collect();
        self.scripts.borrow_mut().insert(row, script.into_iter());
        self
    }

    /// Adds this header to every answer.
    pub(crate) fn with_header(mut self, name: &'static str, value: &'static str) -> Self {
        let value = HeaderValue::from_static(value);
        self.headers.insert(HeaderName::from_static(name), value);
        self
    }

    /// Looking for a new key has these results, and afterwards none.
    pub(crate) fn renewals(self, renewals: impl IntoIterator<Item = Result<(), String>>) -> Self {
        let renewals: Vec<_> = renewals.into_iter().collect();
        self.renewals.replace(renewals.into_iter());
        self
    }

    /// The request's body for this row.
    pub(crate) fn body(row: u64) -> Bytes {
        row.to_string().into()
    }

    /// The calls, in the order in which they started.
    pub(crate) fn made(&self) -> Vec<MadeCall> {
        self.made.borrow().clone()
    }

    /// The rows that were called, in the order of the calls.
    pub(crate) fn rows(&self) -> Vec<u64> {
        self.made.borrow().iter().map(|made| made.row).collect()
    }

    /// How often a new key was looked for.
    pub(crate) fn looks(&self) -> usize {
        self.looks.get()
    }
}

impl Service for Scripted {
    async fn ask(&self, body: Bytes) -> Exchange {
        let row = std::str::from_utf8(&body).unwrap().parse().unwrap();
        let call = self.made.borrow().len();
        self.made.borrow_mut().push(MadeCall {
            row,
            began: self.created.elapsed(),
            ended: None,
            key: self.key.get(),
        });
        let script = |row| self.scripts.borrow_mut().get_mut(row)?.next();
        let scripted = script(&row);
        let Step { brings, latency } = scripted.unwrap_or(self.otherwise);
        // A sleep of zero would still wait for the timer's next tick.
        if !latency.is_zero() {
            sleep(latency).await;
        }
        let exchange = match brings {
            ScriptedResult::Verdict => Ok(verdict(row)),
            ScriptedResult::VerdictOf(other) => Ok(verdict(other)),
            ScriptedResult::Useless => Ok(reply(200, "{}".to_owned())),
            ScriptedResult::Page => Ok(reply(200, "<html>log in".to_owned())),
            ScriptedResult::Status(status) => Ok(reply(status, String::new())),
            ScriptedResult::RetryAfter(status, wait) => {
                let mut reply = reply(status, String::new());
                reply.headers.insert(RETRY_AFTER, wait.parse().unwrap());
                Ok(reply)
            }
            ScriptedResult::StreamRefused => Err(TransportFault::StreamRefused),
            ScriptedResult::TimedOut => Err(TransportFault::TimedOut),
            ScriptedResult::NotConnected => Err(TransportFault::NotConnected("refused".to_owned())),
            ScriptedResult::HostNotFound => {
                Err(TransportFault::HostNotFound("`scripted.test`".to_owned()))
            }
            ScriptedResult::Stall => pending().await,
        };
        let ended = self.created.elapsed();
        self.made.borrow_mut().get_mut(call).unwrap().ended = Some(ended);
        exchange.map(|mut reply| {
            reply.headers.extend(self.headers.clone());
            reply
        })
    }

    fn renew_key(&self) -> Result<(), String> {
        self.looks.set(self.looks.get() + 1);
        let renewal = self.renewals.borrow_mut().next();
        let renewal = renewal.unwrap_or(Err("it cannot change".to_owned()));
        let is_new = renewal.is_ok();
        self.key.set(self.key.get() + usize::from(is_new));
        renewal
    }

    fn longest_call(&self) -> Duration {
        Self::LONGEST_CALL
    }

    fn renew_connections(&self) {}
}

fn verdict(row: u64) -> Reply {
    let body = format!(r#"{{"transaction_id":"t-{row}","summary":{{"risk_score":1}}}}"#);
    reply(200, body)
}

fn reply(status: u16, body: String) -> Reply {
    Reply {
        status,
        headers: HeaderMap::new(),
        body: body.into(),
        cut: false,
        sent: SentRequest::nothing(),
    }
}
