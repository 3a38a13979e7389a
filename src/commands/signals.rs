//! The signals that end a run in order: SIGINT, SIGTERM and, on Linux, SIGHUP. SIGXFSZ must not end it: the write that causes
//! it fails, as on a full disk.

use std::io;

use tokio::runtime::Runtime;

use crate::base::error::{Error, Result, Signal};

/// A listener for signals. It listens as long as it exists, so that no signal is lost between two waits.
pub(super) struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    /// `None` where SIGHUP keeps its default action.
    hang_up: Option<tokio::signal::unix::Signal>,
}

impl Signals {
    /// Starts to listen; needs a runtime.
    pub(super) fn listen(hang_up: OnHangUp) -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        // It stays caught after the listener is dropped.
        let file_too_large = SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw());
        drop(signal(file_too_large)?);
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: (hang_up == OnHangUp::ReopensLog || reacts_to_hang_up())
                .then(|| signal(SignalKind::hangup()))
                .transpose()?,
        })
    }

    /// The next signal.
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
}

/// Listens from now on, and leaves the signals to a thread that lives as long as the process.
///
/// # Errors
/// The system refuses the signal handlers, or a thread cannot be started.
pub(super) fn listen_on_a_thread(
    hang_up: OnHangUp,
    work: impl FnOnce(&Runtime, Signals) + Send + 'static,
) -> Result<()> {
    let cannot = |e| Error::internal("cannot listen for signals").because(e);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(cannot)?;
    let signals = {
        let _runtime = runtime.enter();
        Signals::listen(hang_up).map_err(cannot)?
    };
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || work(&runtime, signals))
        .map(drop)
        .map_err(|e| Error::stopped("cannot start a thread").because(e))
}

/// What SIGHUP means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OnHangUp {
    /// The terminal is gone: the command ends, unless it was started to ignore that.
    Ends,
    /// The log was renamed: it is opened again.
    ReopensLog,
}

/// Whether SIGHUP is known not to be ignored. Under `nohup` it is ignored and must stay so. If the system does not
/// say, nothing is changed.
fn reacts_to_hang_up() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // The first bit is that of signal 1.
    mask.is_some_and(|mask| mask & 1 == 0)
}
