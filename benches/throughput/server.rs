//! A server that costs as little as can be: a process of its own that parses just enough of HTTP/1.1 to know where a
//! request ends, and always gives an answer.
//!
//! It listens on its standard input as well: each line there is answered with what it has seen since the last one, and
//! when the input ends, so does the server; none is ever left behind.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use memchr::memmem;

/// The argument that makes this binary a server; the next one is its latency in milliseconds.
pub(crate) const WORD: &str = "serve";

static NUMBER: AtomicU64 = AtomicU64::new(0);

/// A running server.
pub(crate) struct Server {
    process: Child,
    says: BufReader<ChildStdout>,
    /// Without a path.
    pub(crate) url: String,
}

/// What a server saw of requests.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Seen {
    /// How many.
    pub(crate) requests: u64,
    /// When the first was there, since 1970.
    pub(crate) first: Duration,
    /// When the last was there.
    pub(crate) last: Duration,
}

impl Server {
    /// Starts one; it listens when this returns.
    pub(crate) fn start(latency: Duration) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args([WORD, &latency.as_millis().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut says = BufReader::new(process.stdout.take().unwrap());
        let mut port = String::new();
        says.read_line(&mut port).unwrap();
        Self {
            process,
            says,
            url: format!("http://127.0.0.1:{}", port.trim()),
        }
    }

    /// What it saw since this was last asked.
    pub(crate) fn seen(&mut self) -> Seen {
        let mut asks = self.process.stdin.as_ref().unwrap();
        asks.write_all(b"\n").unwrap();
        let mut line = String::new();
        self.says.read_line(&mut line).unwrap();
        let mut numbers = line.split_whitespace().map(|word| word.parse().unwrap());
        let mut next = || numbers.next().unwrap();
        Seen {
            requests: next(),
            first: Duration::from_nanos(next()),
            last: Duration::from_nanos(next()),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Closes its standard input first.
        let _ = self.process.wait();
    }
}

/// Time since 1970: processes share this clock.
pub(crate) fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

/// Serves until standard input ends.
pub(crate) fn serve(latency: Duration) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    println!("{}", listener.local_addr().unwrap().port());
    let seen = Arc::new(Mutex::new(Seen::default()));
    let answers = Answers::new(latency);
    let shared = Arc::clone(&seen);
    thread::spawn(move || {
        // Answering must not be slowed by waking many threads: one looks after all connections.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()
            .unwrap();
        runtime.block_on(accept(listener, &shared, answers));
    });
    for _ in std::io::stdin().lock().lines() {
        let seen = std::mem::take(&mut *seen.lock().unwrap());
        println!(
            "{} {} {}",
            seen.requests,
            seen.first.as_nanos(),
            seen.last.as_nanos()
        );
    }
}

async fn accept(listener: TcpListener, seen: &Arc<Mutex<Seen>>, answers: Answers) {
    listener.set_nonblocking(true).unwrap();
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let stream = stream.into_std().unwrap();
        stream.set_nodelay(true).unwrap();
        drop(tokio::spawn(connection(
            stream,
            Arc::clone(seen),
            answers.clone(),
        )));
    }
}

async fn connection(stream: TcpStream, seen: Arc<Mutex<Seen>>, answers: Answers) {
    let writer = Arc::new(stream.try_clone().unwrap());
    let reader = tokio::net::TcpStream::from_std(stream).unwrap();
    let (mut bytes, mut chunk) = (Vec::new(), [0; 4096]);
    while reader.readable().await.is_ok() {
        match reader.try_read(&mut chunk) {
            Ok(0) => return,
            Ok(read) => bytes.extend_from_slice(&chunk[..read]),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => continue,
            Err(_) => return,
        }
        while let Some(length) = request_length(&bytes) {
            bytes.drain(..length);
            {
                let mut seen = seen.lock().unwrap();
                seen.last = now();
                if seen.requests == 0 {
                    seen.first = seen.last;
                }
                seen.requests += 1;
            }
            answers.give(&writer);
        }
    }
}

/// The length of the request that `bytes` begins with; `None` when it is not all there yet.
fn request_length(bytes: &[u8]) -> Option<usize> {
    const NAME: &[u8] = b"\r\ncontent-length: ";
    let head = memmem::find(bytes, b"\r\n\r\n")? + 4;
    // Both clients write names in lower case.
    let body = memmem::find(&bytes[..head], NAME).map_or(0, |at| {
        bytes[at + NAME.len()..]
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .fold(0, |length, byte| length * 10 + usize::from(byte - b'0'))
    });
    (bytes.len() >= head + body).then_some(head + body)
}

/// Who writes answers: the one who read the request, or a thread that does it later.
#[derive(Clone)]
enum Answers {
    AtOnce,
    /// It is handed when a request was there.
    Later(Sender<(Instant, Arc<TcpStream>)>),
}

impl Answers {
    fn new(latency: Duration) -> Self {
        if latency.is_zero() {
            return Self::AtOnce;
        }
        let (sender, receiver) = channel();
        thread::spawn(move || write_later(&receiver, latency));
        Self::Later(sender)
    }

    fn give(&self, to: &Arc<TcpStream>) {
        match self {
            Self::AtOnce => answer(to),
            Self::Later(sender) => sender.send((Instant::now(), Arc::clone(to))).unwrap(),
        }
    }
}

/// All wait equally long, so the first to come is the first due. A tokio timer is off by a whole millisecond, which is
/// a twentieth of the latency, and a thread's sleep by the twentieth of one that Linux takes to wake several threads
/// together; it is asked not to.
fn write_later(requests: &Receiver<(Instant, Arc<TcpStream>)>, latency: Duration) {
    #[cfg(target_os = "linux")]
    rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1)).unwrap();
    for (came, to) in requests {
        thread::sleep(latency.saturating_sub(came.elapsed()));
        answer(&to);
    }
}

/// The answer with this number: its id is a UUID like any other, and its score has two decimal places, so that a ledger
/// can make neither shorter than those of a real service.
fn with_id(number: u64) -> String {
    let (high, low) = (mixed(number * 2), mixed(number * 2 + 1));
    let id = format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xfff | 0x4000,
        low >> 48 & 0x3fff | 0x8000,
        low & 0xffff_ffff_ffff
    );
    let hundredths = high % 1_000;
    let (whole, rest) = (hundredths / 100, hundredths % 100);
    let body =
        format!(r#"{{"transaction_id":"{id}","summary":{{"risk_score":{whole}.{rest:02}}}}}"#);
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length:";
    format!("{head} {}\r\n\r\n{body}", body.len())
}

/// A number that looks like chance, and is another one for each number: the last step of `SplitMix64`.
fn mixed(number: u64) -> u64 {
    let mut bits = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

fn answer(mut to: &TcpStream) {
    // So little always fits into the socket's buffer; a client that has gone is no news.
    let _ = to.write_all(with_id(NUMBER.fetch_add(1, Ordering::Relaxed)).as_bytes());
}
