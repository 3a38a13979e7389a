//! HTTP/2: only a server that says that it did not process a request is believed, and no call waits unsent.
//!
//! The server speaks over TLS, as everywhere, in frames made by hand: just enough of RFC 9113 for this client.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::Value;

use crate::support::process::{Done, KEY, Place};
use crate::support::server::good_body;
use crate::support::{tls, users};

/// Types of frames.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
/// Flags of frames.
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const ACK: u8 = 1;
/// A setting, and its value: what many servers allow.
const MAX_CONCURRENT_STREAMS: u16 = 3;
const STREAMS: usize = 100;
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
    /// After the first answer there is none until so many calls are in flight together.
    Together(usize),
}

struct Server {
    fault: Fault,
    /// How many requests were processed.
    requests: AtomicUsize,
    /// The most streams that were open on one connection.
    most_streams: AtomicUsize,
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let head = [length[1], length[2], length[3], kind, flags];
    [&head, &stream.to_be_bytes()[..], payload].concat()
}

/// Takes a whole frame from what was read: its type, flags, stream and payload.
fn take_frame(bytes: &mut Vec<u8>) -> Option<(u8, u8, u32, Vec<u8>)> {
    let head: [u8; 9] = bytes.get(..9)?.try_into().unwrap();
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    let end = 9 + usize::try_from(length).unwrap();
    let payload = bytes.get(9..end)?.to_vec();
    bytes.drain(..end);
    let id = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
    Some((head[3], head[4], id, payload))
}

impl Server {
    fn start(fault: Fault) -> (SocketAddr, Arc<Self>) {
        let mut config = tls::config("good.pem");
        config.alpn_protocols = vec![b"h2".to_vec()];
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = Arc::new(Self {
            fault,
            requests: AtomicUsize::new(0),
            most_streams: AtomicUsize::new(0),
        });
        let this = Arc::clone(&server);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (config, this) = (Arc::clone(&config), Arc::clone(&this));
                // An error here is the client's end of the connection.
                thread::spawn(move || this.serve(stream.unwrap(), config));
            }
        });
        (address, server)
    }

    fn serve(&self, stream: TcpStream, config: Arc<ServerConfig>) -> io::Result<()> {
        // It must not block on reading, as the calls that it may wait for come on other connections.
        stream.set_read_timeout(Some(Duration::from_millis(5)))?;
        let mut stream = StreamOwned::new(ServerConnection::new(config).unwrap(), stream);
        let (mut bytes, mut bodies, mut waiting) = (Vec::new(), HashMap::new(), Vec::new());
        let (mut begun, mut answered) = (false, 0);
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
                let streams = u32::try_from(STREAMS).unwrap().to_be_bytes();
                let most = [&MAX_CONCURRENT_STREAMS.to_be_bytes()[..], &streams].concat();
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
                let is_over = matches!(self.fault, Fault::EndsAfter(most) if answered == most);
                if kind != DATA || flags & END_STREAM == 0 || is_over {
                    continue;
                }
                answered += 1;
                let nth = self.requests.fetch_add(1, Ordering::SeqCst) + 1;
                match self.fault {
                    Fault::Reset(reason) if nth == 3 => {
                        stream.write_all(&frame(RST_STREAM, 0, id, &reason.to_be_bytes()))?;
                    }
                    Fault::GoAway(from, reason) if nth == 3 => {
                        let last = u32::try_from(i64::from(id) + from).unwrap();
                        let mut payload = [last.to_be_bytes(), reason.to_be_bytes()].concat();
                        // Debug data: it may repeat what we sent.
                        payload.extend(b"rejected: Bearer ");
                        payload.extend([KEY.as_bytes(), body.as_slice()].concat());
                        stream.write_all(&frame(GOAWAY, 0, 0, &payload))?;
                        return stream.sock.shutdown(std::net::Shutdown::Write);
                    }
                    _ => {
                        let request: Value = serde_json::from_slice(body).unwrap();
                        waiting.push((id, good_body(request["name"].as_str().unwrap())));
                    }
                }
                self.most_streams.fetch_max(waiting.len(), Ordering::SeqCst);
                if matches!(self.fault, Fault::EndsAfter(most) if answered == most) {
                    let payload = [id.to_be_bytes(), NO_ERROR.to_be_bytes()].concat();
                    stream.write_all(&frame(GOAWAY, 0, 0, &payload))?;
                }
            }
            let requests = self.requests.load(Ordering::SeqCst);
            if matches!(self.fault, Fault::Together(n) if (2..=n).contains(&requests)) {
                continue;
            }
            for (id, answer) in waiting.drain(..) {
                // Entry 8 of HPACK's static table: status 200.
                let head = frame(HEADERS, END_HEADERS, id, &[0x88]);
                let whole = [head, frame(DATA, END_STREAM, id, answer.as_bytes())];
                stream.write_all(&whole.concat())?;
            }
        }
    }
}

/// Scores so many users against a server with this fault.
fn score(fault: Fault, rows: usize, args: &str) -> (Done, Place, Arc<Server>) {
    let (address, server) = Server::start(fault);
    let place = Place::with("users.csv", users::csv(rows));
    let base = format!("https://{address}");
    let program = tls::program(&place, &base, Some("authority.pem"));
    let done = program.args(args).done();
    (done, place, server)
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
        let (done, place, server) = score(fault, 5, "");
        done.exits(0);
        if unprocessed {
            // It is not even a call.
            done.says("5 calls").silent_about("retr");
            done.silent_about("billed");
        } else {
            done.says("6 calls, 1 of them a retry");
            done.says("1 row may have been billed twice: sent again because no answer came");
        }
        let scored = users::scored(&users::csv(5));
        assert_eq!(place.text("scored.csv"), scored, "{fault:?}");
        assert_eq!(server.requests.load(Ordering::SeqCst), 6, "{fault:?}");
    }
    // What a server says as it goes away is in no message and no reject.
    let fault = Fault::GoAway(0, INTERNAL_ERROR);
    let (done, place, _) = score(fault, 5, "--retries 0 --resend-unknown 0");
    done.exits(1).silent_about("rejected").silent_about(KEY);
    let rejects = place.text("scored.rejects.csv");
    assert!(rejects.contains("User 3"), "{rejects}");
    assert!(!rejects.contains("rejected") && !rejects.contains(KEY));
}

#[test]
fn connections_that_end_in_order_are_not_failures() {
    const ROWS: usize = 1_500;
    let args = "--rate unlimited -c 64 --max-calls 1500";
    let (done, place, server) = score(Fault::EndsAfter(50), ROWS, args);
    done.exits(0).says("1,500 calls");
    for word in ["retr", "down", "pause"] {
        done.silent_about(word);
    }
    assert_eq!(place.text("scored.csv"), users::scored(&users::csv(ROWS)));
    assert_eq!(server.requests.load(Ordering::SeqCst), ROWS);
}

#[test]
fn more_calls_than_a_connection_takes_go_out_on_further_ones() {
    const ROWS: usize = 1 + 230 + 50;
    let (done, place, server) = score(Fault::Together(230), ROWS, "--rate unlimited -c 230");
    done.exits(0).silent_about("retries").silent_about("billed");
    assert_eq!(place.text("scored.csv"), users::scored(&users::csv(ROWS)));
    assert_eq!(server.requests.load(Ordering::SeqCst), ROWS);
    assert!(server.most_streams.load(Ordering::SeqCst) <= STREAMS);
}
