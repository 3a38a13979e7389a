//! HTTP/2: only a server that says that it did not process a request is believed.
//!
//! It speaks over TLS, as everywhere, in frames made by hand: just enough of RFC 9113 for a client that asks one thing at a
//! time, or that asks as many as a connection takes.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::Value;

use crate::support::process::{KEY, Place};
use crate::support::server::good_body;
use crate::support::{tls, users};

type Stream = StreamOwned<ServerConnection, TcpStream>;

/// Types of frames.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
/// Flags of frames.
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const ACK: u8 = 1;
/// A setting.
const MAX_CONCURRENT_STREAMS: u16 = 3;
/// Error codes.
const NO_ERROR: u32 = 0;
const INTERNAL_ERROR: u32 = 2;
const REFUSED_STREAM: u32 = 7;
/// What a client sends first.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// What the server does instead of answering the third request, or beside answering all.
#[derive(Debug, Clone, Copy)]
enum Fault {
    /// The stream is reset, for this reason.
    Reset(u32),
    /// The connection ends with a last stream so far from the request's, for this reason.
    GoAway(i64, u32),
    /// Each connection ends in order after so many answers: later requests on it are not processed.
    EndsAfter(usize),
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let head = [length[1], length[2], length[3], kind, flags];
    [&head, &stream.to_be_bytes()[..], payload].concat()
}

/// The next frame: its type, flags, stream and payload.
fn read_frame(stream: &mut Stream) -> io::Result<(u8, u8, u32, Vec<u8>)> {
    let mut head = [0; 9];
    stream.read_exact(&mut head)?;
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    let mut payload = vec![0; usize::try_from(length).unwrap()];
    stream.read_exact(&mut payload)?;
    let id = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
    Ok((head[3], head[4], id, payload))
}

/// A server with this fault; the count is of requests that were processed.
fn start(fault: Fault) -> (SocketAddr, Arc<AtomicUsize>) {
    let mut config = tls::config("good.pem");
    config.alpn_protocols = vec![b"h2".to_vec()];
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, requests) = (
        listener.local_addr().unwrap(),
        Arc::new(AtomicUsize::new(0)),
    );
    let count = Arc::clone(&requests);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (config, count) = (Arc::clone(&config), Arc::clone(&count));
            // An error here is the client's end of the connection.
            thread::spawn(move || serve(stream.unwrap(), config, fault, &count));
        }
    });
    (address, requests)
}

fn serve(
    stream: TcpStream,
    config: Arc<ServerConfig>,
    fault: Fault,
    count: &AtomicUsize,
) -> io::Result<()> {
    let mut stream = StreamOwned::new(ServerConnection::new(config).unwrap(), stream);
    let mut preface = [0; PREFACE.len()];
    stream.read_exact(&mut preface)?;
    assert_eq!(preface, PREFACE);
    stream.write_all(&frame(SETTINGS, 0, 0, &[]))?;
    let (mut body, mut answered) = (Vec::new(), 0);
    loop {
        let (kind, flags, id, payload) = read_frame(&mut stream)?;
        match kind {
            SETTINGS if flags & ACK == 0 => stream.write_all(&frame(SETTINGS, ACK, 0, &[]))?,
            DATA => {
                let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
                stream.write_all(&frame(WINDOW_UPDATE, 0, 0, &length))?;
                body.extend(payload);
            }
            _ => {}
        }
        let is_over = matches!(fault, Fault::EndsAfter(most) if answered == most);
        if kind != DATA || flags & END_STREAM == 0 || is_over {
            continue;
        }
        answered += 1;
        let request: Value = serde_json::from_slice(&std::mem::take(&mut body)).unwrap();
        let frames = match (count.fetch_add(1, Ordering::SeqCst), fault) {
            (2, Fault::Reset(reason)) => frame(RST_STREAM, 0, id, &reason.to_be_bytes()),
            (2, Fault::GoAway(from, reason)) => {
                let last = u32::try_from(i64::from(id) + from).unwrap();
                let mut payload = [last.to_be_bytes(), reason.to_be_bytes()].concat();
                // Debug data: it may repeat what we sent.
                payload.extend(format!("rejected: {request} Bearer {KEY}").bytes());
                stream.write_all(&frame(GOAWAY, 0, 0, &payload))?;
                return stream.sock.shutdown(std::net::Shutdown::Write);
            }
            _ => {
                // Entry 8 of HPACK's static table: status 200.
                let answer = good_body(request["name"].as_str().unwrap());
                let head = frame(HEADERS, END_HEADERS, id, &[0x88]);
                [head, frame(DATA, END_STREAM, id, answer.as_bytes())].concat()
            }
        };
        stream.write_all(&frames)?;
        if matches!(fault, Fault::EndsAfter(most) if answered == most) {
            let payload = [id.to_be_bytes(), NO_ERROR.to_be_bytes()].concat();
            stream.write_all(&frame(GOAWAY, 0, 0, &payload))?;
        }
    }
}

#[test]
fn what_the_server_has_not_processed_is_sent_again_and_nothing_is_billed_twice() {
    for (fault, unprocessed) in [
        (Fault::Reset(REFUSED_STREAM), true),
        (Fault::Reset(INTERNAL_ERROR), false),
        (Fault::GoAway(-2, NO_ERROR), true),
        (Fault::GoAway(-2, INTERNAL_ERROR), true),
        (Fault::GoAway(0, NO_ERROR), false),
        (Fault::GoAway(0, INTERNAL_ERROR), false),
    ] {
        let csv = users::csv(5);
        let (place, (address, requests)) = (Place::with("users.csv", &csv), start(fault));
        let done = tls::score(&place, address, Some("authority.pem"));
        done.exits(0);
        if unprocessed {
            // It is not even a call.
            done.says("5 calls").silent_about("retr");
            done.silent_about("billed");
        } else {
            done.says("6 calls, 1 of them a retry");
            done.says("1 row may have been billed twice: sent again because no answer came");
        }
        assert_eq!(place.text("scored.csv"), users::scored(&csv), "{fault:?}");
        assert_eq!(requests.load(Ordering::SeqCst), 6, "{fault:?}");
    }
}

#[test]
fn connections_that_end_in_order_are_not_failures() {
    let csv = users::csv(3_000);
    let (place, (address, requests)) =
        (Place::with("users.csv", &csv), start(Fault::EndsAfter(100)));
    let done = tls::program(&place, address, Some("authority.pem"))
        .args("--rate unlimited -c 64 --max-calls 3000")
        .done();
    done.exits(0)
        .says("3,000 calls")
        .silent_about("retr")
        .silent_about("down")
        .silent_about("pause");
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
    assert_eq!(requests.load(Ordering::SeqCst), 3_000);
}

#[test]
fn what_a_server_says_as_it_goes_away_is_in_no_message_and_no_reject() {
    let place = Place::with("users.csv", users::csv(5));
    let (address, _) = start(Fault::GoAway(0, INTERNAL_ERROR));
    let done = tls::program(&place, address, Some("authority.pem"))
        .args("--retries 0 --resend-unknown 0")
        .done();
    done.exits(1).silent_about("rejected").silent_about(KEY);
    let rejects = place.text("scored.rejects.csv");
    assert!(rejects.contains("User 3"), "{rejects}");
    assert!(!rejects.contains("rejected"), "{rejects}");
    assert!(!rejects.contains(KEY), "{rejects}");
}

/// How many concurrent streams a connection may have: what many servers allow.
const STREAMS: usize = 100;

/// A server that allows this many streams on a connection, and answers only the first call until enough calls are in flight
/// together. It records the most streams that were open on one connection.
struct Crowded {
    together: usize,
    requests: AtomicUsize,
    most_streams: AtomicUsize,
}

impl Crowded {
    fn start(together: usize) -> (SocketAddr, Arc<Self>) {
        let mut config = tls::config("good.pem");
        config.alpn_protocols = vec![b"h2".to_vec()];
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = Arc::new(Self {
            together,
            requests: AtomicUsize::new(0),
            most_streams: AtomicUsize::new(0),
        });
        let this = Arc::clone(&server);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (config, this) = (Arc::clone(&config), Arc::clone(&this));
                thread::spawn(move || this.serve(stream.unwrap(), config));
            }
        });
        (address, server)
    }

    fn serve(&self, stream: TcpStream, config: Arc<ServerConfig>) -> io::Result<()> {
        // It must not block on reading, as the calls that it waits for come on other connections.
        stream.set_read_timeout(Some(Duration::from_millis(5)))?;
        let mut stream = StreamOwned::new(ServerConnection::new(config).unwrap(), stream);
        let streams = u32::try_from(STREAMS).unwrap().to_be_bytes();
        let most = [&MAX_CONCURRENT_STREAMS.to_be_bytes()[..], &streams].concat();
        let (mut bytes, mut bodies, mut waiting) = (Vec::new(), HashMap::new(), Vec::new());
        let mut begun = false;
        loop {
            let mut some = [0; 16 * 1024];
            match stream.read(&mut some) {
                Ok(0) => return Ok(()),
                Ok(read) => bytes.extend(&some[..read]),
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(error) => return Err(error),
            }
            if !begun && bytes.len() >= PREFACE.len() {
                begun = true;
                bytes.drain(..PREFACE.len());
                stream.write_all(&frame(SETTINGS, 0, 0, &most))?;
            }
            while begun && let Some((kind, flags, id, payload)) = take_frame(&mut bytes) {
                let body: &mut Vec<u8> = bodies.entry(id).or_default();
                match kind {
                    SETTINGS if flags & ACK == 0 => {
                        stream.write_all(&frame(SETTINGS, ACK, 0, &[]))?;
                    }
                    DATA => body.extend(payload),
                    _ => {}
                }
                if kind == DATA && flags & END_STREAM > 0 {
                    let request: Value = serde_json::from_slice(body).unwrap();
                    waiting.push((id, good_body(request["name"].as_str().unwrap())));
                    self.requests.fetch_add(1, Ordering::SeqCst);
                    self.most_streams.fetch_max(waiting.len(), Ordering::SeqCst);
                }
            }
            let requests = self.requests.load(Ordering::SeqCst);
            if requests == 1 || requests > self.together {
                for (id, answer) in waiting.drain(..) {
                    let head = frame(HEADERS, END_HEADERS, id, &[0x88]);
                    let whole = [head, frame(DATA, END_STREAM, id, answer.as_bytes())];
                    stream.write_all(&whole.concat())?;
                }
            }
        }
    }
}

/// Takes a whole frame from what was read.
fn take_frame(bytes: &mut Vec<u8>) -> Option<(u8, u8, u32, Vec<u8>)> {
    let head: [u8; 9] = bytes.get(..9)?.try_into().unwrap();
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    let end = 9 + usize::try_from(length).unwrap();
    let payload = bytes.get(9..end)?.to_vec();
    bytes.drain(..end);
    let id = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
    Some((head[3], head[4], id, payload))
}

#[test]
fn more_calls_than_a_connection_takes_go_out_on_further_ones() {
    const TOGETHER: usize = 230;
    let csv = users::csv(1 + TOGETHER + 50);
    let (place, (address, server)) = (Place::with("users.csv", &csv), Crowded::start(TOGETHER));
    let done = tls::program(&place, address, Some("authority.pem"))
        .args(["--rate", "unlimited", "-c", &TOGETHER.to_string()])
        .done();
    done.exits(0).silent_about("retries").silent_about("billed");
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
    assert_eq!(server.requests.load(Ordering::SeqCst), 1 + TOGETHER + 50);
    assert!(server.most_streams.load(Ordering::SeqCst) <= STREAMS);
}
