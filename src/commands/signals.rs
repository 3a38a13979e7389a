//! The signals that end a run in order: SIGINT, SIGTERM and, on Linux, SIGHUP; Ctrl-C elsewhere. And SIGXFSZ, which must
//! not end it: the write that it comes with fails, as on a full disk.

use std::io;

use crate::base::error::Signal;

/// Listens from its making on, so that no signal is lost between two waits.
pub(super) struct Signals {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    /// `None` where it is left as it is.
    #[cfg(unix)]
    hang_up: Option<tokio::signal::unix::Signal>,
}

impl Signals {
    /// Begins to listen; needs a runtime.
    #[cfg(unix)]
    pub(super) fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        // It stays caught when nobody listens any more.
        let file_too_large = SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw());
        drop(signal(file_too_large)?);
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: hang_up_counts()
                .then(|| signal(SignalKind::hangup()))
                .transpose()?,
        })
    }

    /// Begins to listen; needs a runtime.
    #[cfg(not(unix))]
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self {})
    }

    /// The next signal.
    #[cfg(unix)]
    pub(super) async fn next(&mut self) -> Signal {
        let hang_up = async {
            match &mut self.hang_up {
                Some(hang_up) => hang_up.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => Signal::Interrupt,
            _ = self.terminate.recv() => Signal::Terminate,
            _ = hang_up => Signal::HangUp,
        }
    }

    /// The next signal.
    #[cfg(not(unix))]
    pub(super) async fn next(&mut self) -> Signal {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        Signal::Interrupt
    }

    /// The next signal that says for a second time that the run is to end. When a connection drops, the shell and the
    /// system send SIGHUP each: nobody is impatient then.
    pub(super) async fn second(&mut self) -> Signal {
        loop {
            let signal = self.next().await;
            if signal != Signal::HangUp {
                return signal;
            }
        }
    }
}

/// Whether SIGHUP is known not to be ignored. Under `nohup` it is, and must stay so. Where the system does not tell it in
/// this way, nothing is changed.
#[cfg(unix)]
fn hang_up_counts() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // The first bit is that of signal 1.
    mask.is_some_and(|mask| mask & 1 == 0)
}
