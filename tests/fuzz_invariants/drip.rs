//! A reader that gives few bytes at a time, and a writer whose bytes can be inspected.

use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex};

/// Gives at most `step` bytes with each read.
pub(super) struct Drip {
    bytes: io::Cursor<Vec<u8>>,
    step: usize,
}

impl Drip {
    pub(super) fn new(bytes: &[u8], step: usize) -> Self {
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
pub(super) struct Kept(Arc<Mutex<Vec<u8>>>);

impl Kept {
    pub(super) fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().clone()
    }

    /// What was written since the last call.
    pub(super) fn take(&self) -> Vec<u8> {
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
