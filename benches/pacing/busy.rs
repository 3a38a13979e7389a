//! A busy machine: threads that calculate without end.

use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Two busy threads, until it is dropped.
pub(crate) struct Busy(Arc<AtomicBool>);

impl Busy {
    pub(crate) fn start() -> Self {
        let enough = Arc::new(AtomicBool::new(false));
        for _ in 0..2 {
            let enough = Arc::clone(&enough);
            thread::spawn(move || {
                while !enough.load(Ordering::Relaxed) {
                    spin_loop();
                }
            });
        }
        Self(enough)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
