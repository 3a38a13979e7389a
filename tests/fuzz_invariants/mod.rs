//! What must hold for any bytes from outside: the invariants that the fuzz targets try to break, and that
//! `tests/fuzz_corpus.rs` replays over the inputs that the searches kept.

#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a broken invariant ends the target, and each target checks one invariant"
)]

pub(crate) mod answer;
mod cells;
pub(crate) mod files;
pub(crate) mod headers;
mod sides;

use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex};

use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};

/// Takes the first line off, without its line end.
fn line<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    if rest.is_empty() {
        return None;
    }
    let end = rest.iter().position(|byte| *byte == b'\n');
    let (line, after) = end.map_or((*rest, &b""[..]), |end| (&rest[..end], &rest[end + 1..]));
    *rest = after;
    Some(line)
}

/// Takes headers off the front, up to an empty line. Headers that HTTP does not allow are left out: no client gets them.
fn headers(rest: &mut &[u8]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    while let Some(line) = line(rest).filter(|line| !line.is_empty()) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else {
            continue;
        };
        let name = HeaderName::from_bytes(&line[..colon]);
        let value = HeaderValue::from_bytes(line[colon + 1..].trim_ascii());
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.append(name, value);
        }
    }
    headers
}

/// Gives at most `step` bytes with each read.
struct Drip {
    bytes: io::Cursor<Vec<u8>>,
    step: usize,
}

impl Drip {
    fn new(bytes: &[u8], step: usize) -> Self {
        Self {
            bytes: io::Cursor::new(bytes.to_vec()),
            step,
        }
    }
}

impl Read for Drip {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = self.step.min(into.len());
        self.bytes.read(&mut into[..most])
    }
}

/// Keeps what is written.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl Kept {
    fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().clone()
    }

    /// What was written since the last call.
    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
