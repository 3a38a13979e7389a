//! HTTP/2: only a server that says that it did not process a request is believed, no call waits unsent, and each that is
//! sent again takes a permit and a call of the budget.
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
const ENHANCE_YOUR_CALM: u32 = 11;
const HTTP_1_1_REQUIRED: u32 = 13;
/// What a client sends first.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// What the server does instead of answering the third request, or beside answering.
#[derive(Debug, Clone, Copy)]
enum Fault {
    /// The stream is reset, for this reason.
    Reset(u32),
    /// Every second stream is.
    ResetHalf(u32),
    /// The connection ends with a last stream so far from the request's, for this reason.
    GoAway(i64, u32),
    /// The connection ends, and nothing says so.
    HangUp,
    /// Each connection ends in order after so many answers: later requests on it are not processed.
    EndsAfter(usize),
    /// After the first answer there is none until so many calls are in flight together.
    Together(usize),
}

struct Server {
    fault: Fault,
    /// How many requests were processed, or refused by themselves.
    requests: AtomicUsize,
    /// How many came on a connection that had ended.
    unprocessed: AtomicUsize,
    /// How many were answered over HTTP/1.1.
    http1: AtomicUsize,
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
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = Arc::new(Self {
            fault,
            requests: AtomicUsize::new(0),
            unprocessed: AtomicUsize::new(0),
            http1: AtomicUsize::new(0),
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
        let mut stream = StreamOwned::new(ServerConnection::new(config).unwrap(), stream);
        stream.conn.complete_io(&mut stream.sock)?;
        if stream.conn.alpn_protocol() != Some(b"h2") {
            return tls::answer_all(stream, &self.http1);
        }
        // It must not block on reading, as the calls that it may wait for come on other connections.
        stream
            .sock
            .set_read_timeout(Some(Duration::from_millis(5)))?;
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
                if kind != DATA || flags & END_STREAM == 0 {
                    continue;
                }
                if matches!(self.fault, Fault::EndsAfter(most) if answered == most) {
                    self.unprocessed.fetch_add(1, Ordering::SeqCst);
                    if answered == 0 {
                        stream.write_all(&frame(GOAWAY, 0, 0, &[0; 8]))?;
                    }
                    continue;
                }
                answered += 1;
                let nth = self.requests.fetch_add(1, Ordering::SeqCst) + 1;
                match self.fault {
                    Fault::Reset(reason) if nth == 3 => {
                        stream.write_all(&frame(RST_STREAM, 0, id, &reason.to_be_bytes()))?;
                    }
                    Fault::ResetHalf(reason) if nth.is_multiple_of(2) => {
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
                    Fault::HangUp if nth == 3 => return Ok(()),
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
    let throttled = "the service throttled 1 call";
    let twice = "1 row may have been billed twice: sent again because no answer came";
    for (fault, words) in [
        (Fault::Reset(REFUSED_STREAM), throttled),
        (Fault::Reset(INTERNAL_ERROR), twice),
        (Fault::Reset(ENHANCE_YOUR_CALM), twice),
        (Fault::GoAway(-2, NO_ERROR), "6 calls"),
        (Fault::GoAway(-2, INTERNAL_ERROR), "6 calls"),
        (Fault::GoAway(-2, ENHANCE_YOUR_CALM), throttled),
        (Fault::GoAway(0, NO_ERROR), twice),
        (Fault::GoAway(0, INTERNAL_ERROR), twice),
    ] {
        // What a connection left out, or was too much, uses up no attempt.
        let retries = if words == twice { "" } else { "--retries 0" };
        let (done, place, server) = score(fault, 5, retries);
        done.exits(0).says("6 calls").says(words);
        if words == twice {
            done.says("1 of them a retry");
        } else {
            done.silent_about("retr").silent_about("billed");
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
    let (_, place, _) = score(Fault::HangUp, 5, "--retries 0 --resend-unknown 0");
    let rejects = place.text("scored.rejects.csv");
    assert!(
        rejects.contains(",the connection broke: the other side closed the connection,"),
        "{rejects}"
    );
}

#[test]
fn connections_that_end_in_order_are_not_failures() {
    const ROWS: usize = 400;
    // How many calls a connection takes is learnt from the first ones that end, and no call uses up an attempt.
    for each in [1, 2, 3, 50] {
        let args = "--rate unlimited -c 64 --retries 0 --summary summary.json";
        let (done, place, server) = score(Fault::EndsAfter(each), ROWS, args);
        done.exits(0);
        for word in ["retr", "down", "pause", "throttle"] {
            done.silent_about(word);
        }
        assert_eq!(place.text("scored.csv"), users::scored(&users::csv(ROWS)));
        assert_eq!(server.requests.load(Ordering::SeqCst), ROWS);
        let unprocessed = server.unprocessed.load(Ordering::SeqCst);
        assert!(unprocessed < 3 * 64, "{each}: {unprocessed}");
        // Each that was sent is a call, also for the budget.
        let sent = &place.json("summary.json")["calls"]["sent"];
        assert!(
            sent.as_u64().unwrap() >= (ROWS + unprocessed) as u64,
            "{sent}"
        );
    }
}

#[test]
fn a_refused_stream_is_sent_again_only_with_a_permit_and_a_call_of_the_budget() {
    let fault = Fault::ResetHalf(REFUSED_STREAM);
    let args = "-c 8 --rate 100/s --max-calls 12 --summary summary.json";
    let (done, place, server) = score(fault, 40, args);
    done.exits(5).says("the service throttled 6 calls");
    assert_eq!(server.requests.load(Ordering::SeqCst), 12);
    assert_eq!(place.json("summary.json")["calls"]["sent"], 12);
}

#[test]
fn a_service_that_takes_no_call_of_a_connection_is_not_called_for_ever() {
    let args = "-c 4 --rate unlimited --retries 1 --max-wait 1s";
    let (done, _, server) = score(Fault::EndsAfter(0), 20, args);
    done.exits(3).silent_about("billed");
    assert_eq!(server.requests.load(Ordering::SeqCst), 0);
}

#[test]
fn a_service_that_refuses_http_2_is_called_by_http_1() {
    let (done, place, server) = score(Fault::Reset(HTTP_1_1_REQUIRED), 9, "-c 2 --retries 0");
    done.exits(0).silent_about("retr").silent_about("billed");
    assert_eq!(place.text("scored.csv"), users::scored(&users::csv(9)));
    assert!(server.http1.load(Ordering::SeqCst) >= 5);
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
