//! The stand-in's responses.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{Response, StatusCode};
use serde_json::json;

use super::super::check::Rejection;
use super::super::settings::RateLimit;

/// A complete response.
pub(super) type HttpResponse = Response<Full<Bytes>>;

pub(super) fn too_many(limit: &RateLimit) -> HttpResponse {
    let mut answer = error(Rejection::new(
        StatusCode::TOO_MANY_REQUESTS,
        "rate_limited",
        "too many requests",
    ));
    if let Some(seconds) = limit.retry_after {
        answer.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    answer
}

pub(super) fn rehearsed(status: StatusCode) -> HttpResponse {
    error(Rejection::new(status, "rehearsed", "a rehearsed failure"))
}

pub(super) fn error(rejection: Rejection) -> HttpResponse {
    let Rejection {
        status,
        code,
        message,
    } = rejection;
    json(
        status,
        json!({ "error": { "code": code, "message": message } }).to_string(),
    )
}

pub(super) fn json(status: StatusCode, body: String) -> HttpResponse {
    let mut answer = Response::new(Full::new(Bytes::from(body)));
    *answer.status_mut() = status;
    answer
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}
