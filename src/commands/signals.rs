//! The signals that end a run in order: SIGINT, SIGTERM and, on Linux, SIGHUP; Ctrl-C elsewhere. And SIGXFSZ, which must
//! not end it: the write that it comes with fails, as on a full disk.

use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;
use tokio::time::timeout;

use super::threads::spawn;
use crate::base::error::{Error, Exit, Result, Signal};
use crate::base::say::{flush, say};
use crate::pipeline::Stop;
use crate::telemetry::event::CancelReason;

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
    async fn second(&mut self) -> Signal {
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

/// What a run gets to open its files after a signal. It may wait for ever: for the first line of a pipe, or for somebody
/// who reads one.
const OPENING: Duration = Duration::from_millis(250);

/// Listens for signals for as long as the process lives: the first stops the run in order, the second immediately, even
/// while the disk or a pipe holds everything else up.
pub(super) struct Heeded(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// The first signal.
    came: OnceLock<Signal>,
    /// What is said at the second one, where nothing else is said any more. There is none until the run is on.
    farewell: OnceLock<String>,
}

impl Heeded {
    /// Listens from now on.
    pub(super) fn start(stops: UnboundedSender<Stop>) -> Result<Self> {
        let cannot = |e| Error::internal("cannot listen for signals").because(e);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(cannot)?;
        let listening = {
            let _runtime = runtime.enter();
            Signals::listen().map_err(cannot)?
        };
        let shared = Arc::new(Shared::default());
        let heard = Arc::clone(&shared);
        spawn("signals", move || {
            runtime.block_on(heed(listening, &stops, &heard));
        })?;
        Ok(Self(shared))
    }

    /// The run is on: it takes stops from now on. `farewell` is what the second signal says.
    ///
    /// # Errors
    /// It must not begin: there was a signal.
    pub(super) fn run_begins(&self, farewell: String) -> Result<()> {
        let Self(shared) = self;
        if let Some(signal) = shared.came.get() {
            return Err(before_the_first_call(*signal));
        }
        // There is one run.
        let _ = shared.farewell.set(farewell);
        Ok(())
    }
}

async fn heed(mut signals: Signals, stops: &UnboundedSender<Stop>, shared: &Shared) {
    let Shared { came, farewell } = shared;
    let first = signals.next().await;
    let _ = came.set(first);
    // Nobody receives it when the run is over already.
    let _ = stops.send(Stop {
        reason: first.into(),
        error: None,
    });
    let mut last = None;
    if farewell.get().is_none() {
        last = timeout(OPENING, signals.second()).await.ok();
        if last.is_none() && farewell.get().is_none() {
            last = Some(first);
        }
    }
    let last = match last {
        Some(last) => last,
        None => signals.second().await,
    };
    match farewell.get() {
        Some(farewell) => say(farewell),
        None => say(&before_the_first_call(last).report()),
    }
    flush();
    #[allow(clippy::exit, reason = "a signal asks for exactly this")]
    std::process::exit(Exit::Interrupted(last).code().into());
}

fn before_the_first_call(signal: Signal) -> Error {
    Error::interrupted(signal).detail("it was before the first call: nothing was sent")
}

impl From<Signal> for CancelReason {
    fn from(signal: Signal) -> Self {
        match signal {
            Signal::Interrupt => Self::Interrupted,
            Signal::Terminate => Self::Terminated,
            Signal::HangUp => Self::HungUp,
        }
    }
}
