//! Tests of when connections are reused. Everything else about the client is tested with real
//! processes.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use bytes::Bytes;

use super::client::{Client, ClientSettings};
use super::connections::POOL_IDLE;
use super::endpoint::{Endpoint, ServiceId};
use super::exchange::Service;
use crate::base::secret::Secret;

/// A server that answers every request and counts its connections.
fn server() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    thread::spawn(move || {
        for stream in listener.incoming() {
            counted.fetch_add(1, Ordering::Relaxed);
            thread::spawn(move || {
                let (mut stream, mut request) = (stream.unwrap(), [0; 4096]);
                while stream.read(&mut request).unwrap_or(0) > 0 {
                    stream
                        .write_all(b"HTTP/1.1 204 No Content\r\n\r\n")
                        .unwrap();
                }
            });
        }
    });
    (url, connections)
}

#[tokio::test]
async fn after_a_pause_by_the_wall_clock_new_connections_are_made() {
    let (url, connections) = server();
    let client = Client::new(ClientSettings {
        endpoint: Endpoint::new(&url, false).unwrap(),
        api_key: Secret::new("key"),
        key_file: None,
        service_id: ServiceId::new("test").unwrap(),
        timeout: Duration::from_secs(30),
        ca_file: None,
    })
    .unwrap();
    let ask = || async { client.ask(Bytes::from_static(b"{}")).await.unwrap().status };
    let seen = || connections.load(Ordering::Relaxed);
    assert_eq!((ask().await, ask().await, seen()), (204, 204, 1));
    // A laptop that slept: its monotonic clock has not moved.
    client
        .connections
        .used
        .set(SystemTime::now() - POOL_IDLE * 2);
    assert_eq!((ask().await, ask().await, seen()), (204, 204, 2));
    // A clock that is set back must not cause a connection per call.
    client
        .connections
        .used
        .set(SystemTime::now() + POOL_IDLE * 2);
    assert_eq!((ask().await, ask().await, seen()), (204, 204, 2));
}
