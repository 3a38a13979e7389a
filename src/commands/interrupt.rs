//! Ctrl-C and other signals, for a command that leaves nothing behind: it asks now and then whether there was one, and
//! cleans up itself. A second signal ends the process immediately.

use std::sync::{Arc, OnceLock};

use super::signals::Signals;
use crate::base::error::{Error, Exit, Result, Signal};
use crate::base::stderr::{flush, say};

/// Whether there was a signal.
pub(super) struct Interrupt(Arc<OnceLock<Signal>>);

impl Interrupt {
    /// Listens from now on, as long as the process lives.
    ///
    /// # Errors
    /// The system refuses the signal handlers.
    pub(super) fn listen() -> Result<Self> {
        let cannot = |e| Error::internal("cannot listen for signals").because(e);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(cannot)?;
        let mut signals = {
            let _runtime = runtime.enter();
            Signals::listen().map_err(cannot)?
        };
        let first = Arc::new(OnceLock::new());
        let came = Arc::clone(&first);
        let listen = move || {
            runtime.block_on(async {
                // Set once, as there is one first signal.
                let _ = came.set(signals.next().await);
                let last = signals.second().await;
                say(&Error::interrupted(last).report());
                flush();
                #[allow(clippy::exit, reason = "a second signal asks for exactly this")]
                std::process::exit(Exit::Interrupted(last).code().into());
            });
        };
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(listen)
            .map_err(cannot)?;
        Ok(Self(first))
    }

    /// Fails if there was a signal.
    ///
    /// # Errors
    /// Exit code 129, 130 or 143.
    pub(super) fn check(&self) -> Result<()> {
        let Self(first) = self;
        match first.get() {
            Some(signal) => Err(Error::interrupted(*signal)),
            None => Ok(()),
        }
    }
}
