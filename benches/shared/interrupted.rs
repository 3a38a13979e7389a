//! Waiting until somebody ends a benchmark, so that it can clean up. Both benchmarks have this file.

use tokio::signal::unix::{SignalKind, signal};

/// Returns when this process is interrupted or terminated.
pub(crate) fn wait() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut interrupted = signal(SignalKind::interrupt()).unwrap();
        let mut terminated = signal(SignalKind::terminate()).unwrap();
        tokio::select! {
            _ = interrupted.recv() => (),
            _ = terminated.recv() => (),
        }
    });
}
