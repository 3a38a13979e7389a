//! The signals that end a run in order: SIGINT and SIGTERM, Ctrl-C elsewhere. SIGHUP is left as it is, so that `nohup`
//! works.

use std::io;

use crate::event::CancelReason;

/// Listens from its making on, so that no signal is lost between two waits.
pub(super) struct Signals {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    /// Begins to listen; needs a runtime.
    #[cfg(unix)]
    pub(super) fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Begins to listen; needs a runtime.
    #[cfg(not(unix))]
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self {})
    }

    /// The next signal.
    #[cfg(unix)]
    pub(super) async fn next(&mut self) -> CancelReason {
        tokio::select! {
            _ = self.interrupt.recv() => CancelReason::Interrupted,
            _ = self.terminate.recv() => CancelReason::Terminated,
        }
    }

    /// The next signal.
    #[cfg(not(unix))]
    pub(super) async fn next(&mut self) -> CancelReason {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        CancelReason::Interrupted
    }
}
