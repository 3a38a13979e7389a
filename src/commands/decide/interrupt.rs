//! A signal ends the command immediately. Repeating it costs nothing, so nothing of it is kept.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use super::super::signals::Signals;
use crate::base::error::{Error, Result};
use crate::base::stderr::{flush, say};

/// A thread that listens for signals as long as the process lives.
pub(super) struct Interrupts(Arc<Mutex<Vec<PathBuf>>>);

impl Interrupts {
    /// Listens from now on.
    ///
    /// # Errors
    /// The system refuses the signal handlers or the thread.
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
        let partial = Arc::new(Mutex::new(Vec::new()));
        let files = Arc::clone(&partial);
        let end = move || {
            let signal = runtime.block_on(signals.next());
            let error = Error::interrupted(signal);
            // Held to the end of the process, so that no file is added any more.
            let files = files.lock().unwrap_or_else(PoisonError::into_inner);
            for file in files.iter() {
                // If it is complete and has its final name, it is not there any more.
                let _ = fs::remove_file(file);
            }
            say(&error.report());
            flush();
            #[allow(clippy::exit, reason = "a signal asks for exactly this")]
            std::process::exit(error.exit().code().into());
        };
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(end)
            .map_err(|e| Error::stopped("cannot start a thread").because(e))?;
        Ok(Self(partial))
    }

    /// From now on, a signal removes these files as well.
    pub(super) fn remove(&self, partial: impl IntoIterator<Item = PathBuf>) {
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        files.extend(partial);
    }
}
