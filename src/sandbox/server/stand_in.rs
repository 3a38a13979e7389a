//! What the stand-in does with a request.

use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use bytes::Bytes;
use hyper::header::{ALLOW, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, StatusCode};
use tokio::time::sleep;

use super::super::check::{self, Rejection};
use super::super::faults::{FaultKind, KINDS};
use super::super::score;
use super::super::settings::{ID_PREFIX, SandboxSettings};
use super::hang_up::{HangUp, ResetHandle};
use super::report::Report;
use super::responses::{HttpResponse, error, json, rehearsed, too_many};
use super::token_bucket::TokenBucket;

/// The stand-in: it checks requests, scores users and counts.
pub(super) struct StandIn {
    settings: SandboxSettings,
    random: Mutex<fastrand::Rng>,
    bucket: Mutex<TokenBucket>,
    requests: AtomicU64,
    billed: AtomicU64,
    throttled: AtomicU64,
    refused: AtomicU64,
    faults: [AtomicU64; KINDS],
}

impl StandIn {
    pub(super) fn new(settings: SandboxSettings) -> Self {
        Self {
            random: Mutex::new(fastrand::Rng::with_seed(settings.seed)),
            bucket: Mutex::new(TokenBucket::new(settings.rate_limit.as_ref())),
            settings,
            requests: AtomicU64::new(0),
            billed: AtomicU64::new(0),
            throttled: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            faults: Default::default(),
        }
    }

    pub(super) fn report(&self) -> Report {
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

    pub(super) async fn answer(
        &self,
        head: &Parts,
        body: Result<Bytes, Rejection>,
        handle: &ResetHandle,
    ) -> Result<HttpResponse, HangUp> {
        if head.method == Method::GET && head.uri.path() == "/billed" {
            return Ok(self.billed_page());
        }
        self.requests.fetch_add(1, Ordering::Relaxed);
        // Calls count when they arrive, as at a gateway, and not when they are answered.
        let limit = self.settings.rate_limit.as_ref();
        let refused = limit.filter(|limit| {
            let mut bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
            !bucket.take(limit)
        });
        let SandboxSettings {
            latency, jitter, ..
        } = self.settings;
        if !(latency.is_zero() && jitter.is_zero()) {
            sleep(latency + jitter.mul_f64(self.chance())).await;
        }
        if let Some(limit) = refused {
            self.throttled.fetch_add(1, Ordering::Relaxed);
            return Ok(too_many(limit));
        }
        let fault = self.pick_fault();
        if let Some(kind) = fault
            && let Some(failure) = fail(kind, handle).await
        {
            return failure;
        }
        match self.verdict(head, body) {
            Ok(_) if fault == Some(FaultKind::BadJson) => Ok(json(
                StatusCode::OK,
                r#"{"status":true,"summary":{"risk_sc"#.to_owned(),
            )),
            Ok(_) if fault == Some(FaultKind::Lost) => {
                handle.reset_on_close();
                Err(HangUp)
            }
            Ok(answer) => Ok(answer),
            Err(rejection) => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                let mut answer = error(rejection);
                if rejection.status == StatusCode::METHOD_NOT_ALLOWED {
                    answer
                        .headers_mut()
                        .insert(ALLOW, HeaderValue::from_static("POST"));
                }
                Ok(answer)
            }
        }
    }

    /// What goes wrong with a request, if anything.
    fn pick_fault(&self) -> Option<FaultKind> {
        if self.settings.faults.is_none() {
            return None;
        }
        let kind = self.settings.faults.pick(self.chance())?;
        for (counter, other) in self.faults.iter().zip(FaultKind::ALL) {
            counter.fetch_add(u64::from(other == kind), Ordering::Relaxed);
        }
        Some(kind)
    }

    fn verdict(
        &self,
        head: &Parts,
        body: Result<Bytes, Rejection>,
    ) -> Result<HttpResponse, Rejection> {
        if head.uri.path() != "/v1/validate/user" {
            return Err(Rejection::new(
                StatusCode::NOT_FOUND,
                "not_found",
                "the only path is /v1/validate/user",
            ));
        }
        if head.method != Method::POST {
            return Err(Rejection::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "not_allowed",
                "the only method is POST",
            ));
        }
        check::headers(&head.headers, &self.settings.accepted_keys)?;
        let user = check::body(&body?, self.settings.plan)?;
        let (hundredths, patterns) = score::of(&user);
        let hash = score::hash(&user);
        let number = self.billed.fetch_add(1, Ordering::Relaxed) + 1;
        let answer = good_answer(number, hundredths, &patterns, hash);
        Ok(json(StatusCode::OK, answer))
    }

    fn billed_page(&self) -> HttpResponse {
        let report = self.report();
        let faults: serde_json::Map<_, _> = report
            .faults
            .iter()
            .zip(FaultKind::ALL)
            .map(|(count, kind)| (kind.name().to_owned(), (*count).into()))
            .collect();
        let page = serde_json::json!({
            "requests": report.requests,
            "billed": report.billed,
            "throttled": report.throttled,
            "refused": report.refused,
            "faults": faults,
        });
        json(StatusCode::OK, page.to_string())
    }
}

/// What comes instead of a verdict; `None` if the request is billed first.
async fn fail(kind: FaultKind, handle: &ResetHandle) -> Option<Result<HttpResponse, HangUp>> {
    let status = match kind {
        FaultKind::OutOfCredit => StatusCode::PAYMENT_REQUIRED,
        FaultKind::Forbidden => StatusCode::FORBIDDEN,
        FaultKind::ServerError => StatusCode::INTERNAL_SERVER_ERROR,
        FaultKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        FaultKind::Reset => {
            handle.reset_on_close();
            return Some(Err(HangUp));
        }
        FaultKind::Stall => match std::future::pending::<Infallible>().await {},
        FaultKind::BadJson | FaultKind::Lost => return None,
    };
    Some(Ok(rehearsed(status)))
}

/// The body of a good answer.
fn good_answer(number: u64, hundredths: u32, patterns: &[&str], hash: u64) -> String {
    let (level, label) = match hundredths {
        ..=200 => (0, "Legit"),
        201..=500 => (1, "Suspicious"),
        _ => (2, "Risky"),
    };
    let patterns: Vec<String> = patterns.iter().map(|name| format!("\"{name}\"")).collect();
    format!(
        concat!(
            r#"{{"status":true,"summary":{{"risk_level":{level},"verify_label":"{label}","#,
            r#""risk_score":{whole}.{rest:02},"score_confidence":"0%","#,
            r#""engine":"rescore sandbox"}},"risk_patterns":[{patterns}],"parameters":{{}},"#,
            r#""transaction_id":"{prefix}{number:08}-{hash:08x}","timestamp":"{time}"}}"#
        ),
        level = level,
        prefix = ID_PREFIX,
        label = label,
        whole = hundredths / 100,
        rest = hundredths % 100,
        patterns = patterns.join(","),
        number = number,
        hash = hash >> 32,
        time = humantime::format_rfc3339_seconds(SystemTime::now()),
    )
}
