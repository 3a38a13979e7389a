//! A scripted HTTP server on plain threads and sockets: it answers or misbehaves exactly as a test tells it.
//!
//! It knows just enough HTTP/1.1 to read a request. Its threads live as long as the test binary: nothing needs them to
//! end sooner.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::users::Verdict;

/// One request as it came.
#[derive(Clone)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Which connection it came on, from 1.
    pub(crate) connection: usize,
    /// Which request to this server it is, from 1.
    pub(crate) nth: usize,
    /// How often this very body has come, from 1.
    pub(crate) attempt: usize,
    pub(crate) at: Instant,
}

impl Request {
    /// The value of a header that is there exactly once.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut found = self
            .headers
            .iter()
            .filter(|(key, _)| key.eq_ignore_ascii_case(name));
        let (_, value) = found.next()?;
        assert!(found.next().is_none(), "`{name}` stands twice in {self:?}");
        Some(value)
    }

    /// The body as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("a request's body is JSON")
    }

    /// The user's name.
    pub(crate) fn name(&self) -> String {
        self.json()["name"].as_str().unwrap_or_default().to_owned()
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            method,
            path,
            connection,
            nth,
            attempt,
            body,
            ..
        } = self;
        let body = String::from_utf8_lossy(body);
        write!(
            f,
            "#{nth} on connection {connection}, attempt {attempt}: {method} {path} {body}"
        )
    }
}

/// What the server does with a request, step by step. Afterwards it waits for the next one on the connection.
#[derive(Debug, Clone)]
pub(crate) struct Action(Vec<Step>);

#[derive(Debug, Clone)]
enum Step {
    Send(Vec<u8>),
    Wait(Duration),
    /// Send one byte at a time, so far apart.
    Dribble(Vec<u8>, Duration),
    /// Send this piece so many times, or until the other side has enough.
    Flood(Vec<u8>, usize),
    /// Wait until the other side gives up.
    Stall,
    Close,
    Reset,
}

impl Action {
    fn then(mut self, step: Step) -> Self {
        self.0.push(step);
        self
    }

    /// Does something else afterwards.
    pub(crate) fn and(mut self, next: Self) -> Self {
        self.0.extend(next.0);
        self
    }

    /// Waits before everything else.
    pub(crate) fn after(mut self, wait: Duration) -> Self {
        self.0.insert(0, Step::Wait(wait));
        self
    }

    pub(crate) fn then_wait(self, wait: Duration) -> Self {
        self.then(Step::Wait(wait))
    }

    pub(crate) fn then_dribble(self, bytes: impl Into<Vec<u8>>, interval: Duration) -> Self {
        self.then(Step::Dribble(bytes.into(), interval))
    }

    pub(crate) fn then_flood(self, piece: impl Into<Vec<u8>>, times: usize) -> Self {
        self.then(Step::Flood(piece.into(), times))
    }

    pub(crate) fn then_stall(self) -> Self {
        self.then(Step::Stall)
    }

    pub(crate) fn then_close(self) -> Self {
        self.then(Step::Close)
    }

    pub(crate) fn then_reset(self) -> Self {
        self.then(Step::Reset)
    }

    /// Does it; `false` when the connection is over.
    fn play(self, mut stream: &TcpStream, nth: usize, log: &Log) -> io::Result<bool> {
        for step in self.0 {
            match step {
                Step::Send(bytes) => stream.write_all(&bytes)?,
                Step::Wait(time) => thread::sleep(time),
                Step::Dribble(bytes, interval) => {
                    for byte in bytes {
                        stream.write_all(&[byte])?;
                        thread::sleep(interval);
                    }
                }
                Step::Flood(piece, times) => {
                    for _ in 0..times {
                        stream.write_all(&piece)?;
                        *log.flooded.lock().unwrap().entry(nth).or_default() += piece.len();
                    }
                }
                Step::Stall => {
                    io::copy(&mut stream, &mut io::sink())?;
                    return Ok(false);
                }
                Step::Close => return Ok(false),
                Step::Reset => {
                    socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO))?;
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}

/// These bytes, whatever they are.
pub(crate) fn raw(bytes: impl Into<Vec<u8>>) -> Action {
    Action(vec![Step::Send(bytes.into())])
}

/// Nothing at all: to be followed by something.
pub(crate) fn silence() -> Action {
    Action(Vec::new())
}

/// A whole answer.
pub(crate) fn answer(status: u16, headers: &[(&str, &str)], body: &str) -> Action {
    let lines: String = headers
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    // These have no body, so a length would be wrong.
    let bodiless = matches!(status, 100..=199 | 204 | 304);
    let length = if bodiless {
        String::new()
    } else {
        format!("content-length: {}\r\n", body.len())
    };
    let body = if bodiless { "" } else { body };
    raw(format!(
        "HTTP/1.1 {status} Whatever\r\n{lines}{length}\r\n{body}"
    ))
}

/// A status, with nothing but an error message.
pub(crate) fn status(status: u16) -> Action {
    answer(
        status,
        &[],
        r#"{"error":{"message":"the server's own words"}}"#,
    )
}

/// A status of 200 with this body.
pub(crate) fn ok(body: &str) -> Action {
    answer(200, &[("content-type", "application/json")], body)
}

/// The body of a good answer about `name`, in the shape that the interface notes describe.
pub(crate) fn good_body(name: &str) -> String {
    let Verdict { id, score, .. } = Verdict::of(name);
    let summary = format!(r#"{{"risk_level":0,"verify_label":"Legit","risk_score":{score}}}"#);
    format!(r#"{{"status":true,"summary":{summary},"risk_patterns":[],"transaction_id":"{id}"}}"#)
}

/// The right answer to this request.
pub(crate) fn good(request: &Request) -> Action {
    ok(&good_body(&request.name()))
}

/// The number of the user that a request is about.
pub(crate) fn user(request: &Request) -> usize {
    let name = request.name();
    name.strip_prefix("User ").unwrap().parse().unwrap()
}

/// The server. It listens from `start` on.
pub(crate) struct Server {
    address: SocketAddr,
    log: Arc<Log>,
}

#[derive(Default)]
struct Log {
    requests: Mutex<Vec<Request>>,
    connections: Mutex<usize>,
    arrived: Condvar,
    flooded: Mutex<HashMap<usize, usize>>,
    is_over: AtomicBool,
}

/// Longer than anything here can take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

impl Server {
    /// Answers each request as `script` says. A script may block: each connection has a thread of its own.
    pub(crate) fn start(script: impl Fn(&Request) -> Action + Send + Sync + 'static) -> Self {
        Self::start_on(TcpListener::bind("127.0.0.1:0").unwrap(), script)
    }

    /// As [`Self::start`], at this address.
    pub(crate) fn start_on(
        listener: TcpListener,
        script: impl Fn(&Request) -> Action + Send + Sync + 'static,
    ) -> Self {
        let address = listener.local_addr().unwrap();
        let log = Arc::new(Log::default());
        let (script, shared) = (Arc::new(script), Arc::clone(&log));
        thread::spawn(move || {
            for stream in listener.incoming() {
                if shared.is_over.load(Ordering::Relaxed) {
                    break;
                }
                let (script, log) = (Arc::clone(&script), Arc::clone(&shared));
                // An error here means that the client closed the connection: the test sees that from the other side.
                thread::spawn(move || stream.and_then(|stream| serve(&stream, &*script, &log)));
            }
        });
        Self { address, log }
    }

    /// Accepts no connection any more, for tests with thousands of servers.
    pub(crate) fn end(&self) {
        self.log.is_over.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
    }

    /// Gives every user the right verdict.
    pub(crate) fn good() -> Self {
        Self::start(good)
    }

    /// Gives every user the right verdict. Calls for which `held` is true wait until the sender is dropped.
    pub(crate) fn holding_if(
        held: impl Fn(&Request) -> bool + Send + Sync + 'static,
    ) -> (Self, Sender<()>) {
        Self::start_holding_if(held, good)
    }

    /// Answers as `script` says. Calls for which `held` is true wait until the sender is dropped.
    pub(crate) fn start_holding_if(
        held: impl Fn(&Request) -> bool + Send + Sync + 'static,
        script: impl Fn(&Request) -> Action + Send + Sync + 'static,
    ) -> (Self, Sender<()>) {
        let (release, released) = channel();
        let released = Mutex::new(released);
        let server = Self::start(move |request| {
            if held(request) {
                // Ends with an error once the sender is gone.
                let _ = released.lock().unwrap().recv();
            }
            script(request)
        });
        (server, release)
    }

    /// Answers the first `free` users immediately, and all others when the sender is dropped.
    pub(crate) fn holding(free: usize) -> (Self, Sender<()>) {
        Self::holding_if(move |request| user(request) > free)
    }

    pub(crate) const fn port(&self) -> u16 {
        self.address.port()
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Every request so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.log.requests.lock().unwrap().clone()
    }

    /// The one request so far.
    pub(crate) fn only_request(&self) -> Request {
        let mut requests = self.requests();
        assert_eq!(requests.len(), 1, "{requests:#?}");
        requests.remove(0)
    }

    /// How many requests came so far.
    pub(crate) fn calls(&self) -> usize {
        self.log.requests.lock().unwrap().len()
    }

    /// How many connections were made so far.
    pub(crate) fn connections(&self) -> usize {
        *self.log.connections.lock().unwrap()
    }

    /// How many bytes of a flood were sent so far, by the number of its request.
    pub(crate) fn flooded(&self) -> HashMap<usize, usize> {
        self.log.flooded.lock().unwrap().clone()
    }

    /// Waits until this many requests have come.
    pub(crate) fn wait_for_calls(&self, calls: usize) {
        let requests = self.log.requests.lock().unwrap();
        let few = |requests: &mut Vec<Request>| requests.len() < calls;
        let (requests, waited) = self
            .log
            .arrived
            .wait_timeout_while(requests, PATIENCE, few)
            .unwrap();
        let came = requests.len();
        drop(requests);
        assert!(!waited.timed_out(), "only {came} of {calls} calls came");
    }
}

fn serve(stream: &TcpStream, script: &dyn Fn(&Request) -> Action, log: &Log) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let connection = {
        let mut connections = log.connections.lock().unwrap();
        *connections += 1;
        *connections
    };
    let mut reader = BufReader::new(stream);
    while let Some(mut request) = read_request(&mut reader, connection)? {
        {
            let mut requests = log.requests.lock().unwrap();
            request.nth = requests.len() + 1;
            request.attempt = 1 + requests.iter().filter(|r| r.body == request.body).count();
            requests.push(request.clone());
        }
        log.arrived.notify_all();
        if !script(&request).play(stream, request.nth, log)? {
            break;
        }
    }
    Ok(())
}

pub(crate) fn read_request(
    reader: &mut impl BufRead,
    connection: usize,
) -> io::Result<Option<Request>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, path) = (
        words.next().unwrap_or_default(),
        words.next().unwrap_or_default(),
    );
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        headers.push((name.to_owned(), value.trim().to_owned()));
    }
    let by_name: HashMap<_, _> = headers
        .iter()
        .map(|(name, value)| (name.to_lowercase(), value))
        .collect();
    let length = by_name
        .get("content-length")
        .map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(Some(Request {
        method,
        path,
        headers,
        body,
        connection,
        nth: 0,
        attempt: 0,
        at: Instant::now(),
    }))
}
