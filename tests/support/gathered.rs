//! What comes down a stream of the program, gathered while it runs.

use std::io::Read;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

/// What came down a stream so far, gathered by a thread.
pub(crate) struct Gathered {
    bytes: Arc<Mutex<Vec<u8>>>,
    thread: JoinHandle<()>,
}

impl Gathered {
    pub(crate) fn start(mut stream: impl Read + Send + 'static) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&bytes);
        let thread = thread::spawn(move || {
            let mut block = [0; 16 * 1024];
            while let Ok(read @ 1..) = stream.read(&mut block) {
                shared.lock().unwrap().extend_from_slice(&block[..read]);
            }
        });
        Self { bytes, thread }
    }

    pub(crate) fn so_far(&self) -> Vec<u8> {
        self.bytes.lock().unwrap().clone()
    }

    pub(crate) fn all(self) -> Vec<u8> {
        let Self { bytes, thread } = self;
        thread.join().unwrap();
        std::mem::take(&mut bytes.lock().unwrap())
    }
}
