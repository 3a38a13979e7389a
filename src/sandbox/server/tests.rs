//! Tests of the stand-in on a paused clock: when calls count, and whose connection is closed.

#![allow(clippy::unwrap_used)]

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use bytes::Bytes;
use hyper::{Request, StatusCode};
use tokio::net::TcpStream;
use tokio::time::sleep;

use super::super::settings::{RateLimit, SandboxSettings};
use super::connection::{listen, serve};
use super::hang_up::ResetHandle;
use super::stand_in::StandIn;

#[tokio::test(start_paused = true)]
async fn calls_count_against_the_limit_when_they_arrive_and_not_when_they_are_answered() {
    let settings = SandboxSettings {
        jitter: Duration::from_millis(40),
        rate_limit: Some(RateLimit {
            per_second: 100.0,
            burst: std::num::NonZeroU32::MIN,
            retry_after: None,
        }),
        ..SandboxSettings::default()
    };
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
    let address = listener.as_ref().unwrap().local_addr().unwrap();
    let handle = ResetHandle::of(&TcpStream::connect(address).await.unwrap());
    let (stand_in, (head, ())) = (StandIn::new(settings), Request::new(()).into_parts());
    // At 40 % of the limit, although many are answered within 10 ms of each other.
    let calls = (0..100).map(async |nth| {
        sleep(Duration::from_millis(25) * nth).await;
        let answer = stand_in.answer(&head, Ok(Bytes::new()), &handle).await;
        answer.unwrap().status()
    });
    let answers = futures::future::join_all(calls).await;
    assert_eq!(answers, [StatusCode::NOT_FOUND; 100]);
    assert_eq!(
        (stand_in.report().requests, stand_in.report().throttled),
        (100, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn the_connection_of_a_client_that_does_not_finish_its_request_is_closed() {
    let listener = listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
    let address = listener.local_addr().unwrap();
    let forever = std::future::pending();
    tokio::spawn(serve(listener, SandboxSettings::default(), forever));
    let head = "POST /v1/validate/user HTTP/1.1\r\nHost: x\r\n";
    for half in [head, &format!("{head}Content-Length: 9\r\n\r\n{{")] {
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(half.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let minute = Duration::from_secs(60);
        let hung_up = tokio::time::timeout(minute, client.read_to_end(&mut answer)).await;
        assert_eq!(hung_up.unwrap().unwrap(), 0);
    }
}
