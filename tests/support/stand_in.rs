//! The stand-in of the program itself, `rescore sandbox`, as a process of its own: what it answers, and its bill.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

use super::process::{Arguments, Done, Place, Running};

/// `rescore sandbox` as a process of its own.
pub(crate) struct StandIn<'a> {
    address: String,
    /// `None` once it was stopped.
    running: Option<Running<'a>>,
}

/// An answer as it came over the wire.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body: Value,
}

/// The headers that the interface asks for.
pub(crate) const HEADERS: &str =
    "Authorization: Bearer any\r\nX-Service-ID: test\r\nContent-Type: application/json\r\n";

impl<'a> StandIn<'a> {
    pub(crate) fn start<K>(place: &'a Place, arguments: impl Arguments<K>) -> Self {
        Self::start_at(place, "127.0.0.1:0", arguments)
    }

    /// Starts one at the address of an earlier one.
    pub(crate) fn start_at<K>(
        place: &'a Place,
        address: &str,
        arguments: impl Arguments<K>,
    ) -> Self {
        let program = place.rescore(["sandbox", "--listen", address]);
        let program = program.args(arguments);
        let running = program.start();
        // The last words that it prints before it serves; the address is in the first.
        running.wait_for_words("Ctrl-C");
        let said = running.said();
        let (_, rest) = said.split_once("listening on http://").unwrap();
        let address = rest.lines().next().unwrap().to_owned();
        Self {
            address,
            running: Some(running),
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Sends a request with these header lines.
    pub(crate) fn send(&self, line: &str, headers: &str, body: &str) -> Reply {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        let length = body.len();
        let request = format!(
            "{line} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{headers}Content-Length: {length}\r\n\r\n{body}",
            self.address
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").expect("an answer has a head");
        Reply {
            status: head.split(' ').nth(1).unwrap().parse().unwrap(),
            body: serde_json::from_str(body).expect("an answer's body is JSON"),
        }
    }

    /// Sends a correct request about a user.
    pub(crate) fn ask(&self, body: &Value) -> Reply {
        self.send("POST /v1/validate/user", HEADERS, &body.to_string())
    }

    pub(crate) fn bill(&self) -> Value {
        let reply = self.send("GET /billed", "", "");
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.body
    }

    pub(crate) fn address(&self) -> String {
        self.address.clone()
    }

    /// Ends it as Ctrl-C does.
    pub(crate) fn stop(mut self) -> Done {
        let running = self.running.take().unwrap();
        running.signal("INT");
        running.done()
    }
}

impl Drop for StandIn<'_> {
    fn drop(&mut self) {
        // A test that fails must not leave a process behind.
        if let Some(running) = &self.running {
            running.signal("KILL");
        }
    }
}
