//! The baseline of all calls: the least that can be done with the same HTTP library. Bodies are made before, and answers
//! are read and forgotten.

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::stream::{FuturesUnordered, StreamExt};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};

use crate::process::cpu_seconds;

/// As in the runs.
const CONCURRENCY: usize = 64;
/// The argument that makes this binary the smallest client; the next one is the URL.
pub(crate) const WORD: &str = "first-request";

/// Makes so many calls, and returns rows a second and CPU time a row in microseconds.
pub(crate) fn timed(url: &str, rows: u32) -> (f64, f64) {
    let bodies: Vec<_> = (0..rows).map(body).collect();
    let (began, cpu) = (Instant::now(), cpu_seconds("self"));
    bare_loop(url, &bodies);
    let rows = f64::from(rows);
    let speed = rows / began.elapsed().as_secs_f64();
    (speed, (cpu_seconds("self") - cpu) / rows * 1e6)
}

/// A body as the program sends it.
fn body(number: u32) -> Bytes {
    let text = format!(
        r#"{{"name":"Jane Doe","email":"user.{number}@mail7.example","phone":"+15551234567","ip":"198.51.100.7","user_agent":"Mozilla/5.0 (X11; Linux x86_64; rv:127.0) Gecko/20100101 Firefox/127.0","vpn_check":true}}"#
    );
    text.into()
}

fn bare_loop(url: &str, bodies: &[Bytes]) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let client = bare_client();
    let url: reqwest::Url = format!("{url}/v1/validate/user").parse().unwrap();
    let send = |body: &Bytes| {
        let request = client.post(url.clone()).body(body.clone()).send();
        async { request.await.unwrap().bytes().await.unwrap().len() }
    };
    runtime.block_on(async {
        let mut waiting = bodies.iter();
        let mut running: FuturesUnordered<_> =
            waiting.by_ref().take(CONCURRENCY).map(send).collect();
        while running.next().await.is_some() {
            running.extend(waiting.next().map(send));
        }
    });
}

/// A client with the program's settings, set up and used as anybody would.
fn bare_client() -> reqwest::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut authorization = HeaderValue::from_static("Bearer bench");
    authorization.set_sensitive(true);
    let mut headers = HeaderMap::new();
    headers.insert(AUTHORIZATION, authorization);
    headers.insert("x-service-id", HeaderValue::from_static("bench"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    reqwest::Client::builder()
        .user_agent("rescore/bench")
        .default_headers(headers)
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .pool_idle_timeout(Duration::from_secs(4))
        .connect_timeout(Duration::from_secs(10))
        .timeout(Duration::from_secs(30))
        .no_proxy()
        .tls_certs_only([])
        .build()
        .unwrap()
}

/// The least that a program can do that sends one request with this HTTP library.
pub(crate) fn first_request(url: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let request = bare_client().post(url).body("{}");
    runtime.block_on(async { request.send().await.unwrap().bytes().await.unwrap() });
}
