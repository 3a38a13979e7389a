//! Signals end a command that makes no calls immediately: repeating it costs nothing, so nothing of it is kept. The other
//! threads are not asked, as they may be waiting for a pipe that never delivers.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::signals::{OnHangUp, listen_on_a_thread};
use crate::base::error::{Error, Result};
use crate::base::stderr::{draw, flush};
use crate::observe::tell_error;

/// How long files that are being opened are waited for. Without a limit it could be for ever: for the reader of a pipe.
const OPENING: Duration = Duration::from_millis(250);

/// A thread that listens for signals as long as the process lives.
pub(super) struct Interrupts(Arc<Mutex<Vec<PathBuf>>>);

impl Interrupts {
    /// Listens from now on.
    ///
    /// # Errors
    /// The system refuses the signal handlers, or a thread cannot be started.
    pub(super) fn listen() -> Result<Self> {
        let partial = Arc::new(Mutex::new(Vec::new()));
        let files = Arc::clone(&partial);
        listen_on_a_thread(OnHangUp::Ends, move |runtime, mut signals| {
            let signal = runtime.block_on(signals.next());
            let error = Error::interrupted(signal);
            // Held to the end of the process, so that no file is added any more.
            let files = runtime.block_on(async { timeout(OPENING, lock(&files)).await });
            for file in files.iter().flat_map(|files| files.iter()) {
                // If it is complete and has its final name, it is not there any more.
                let _ = fs::remove_file(file);
            }
            draw(&[]);
            tell_error(&error);
            flush();
            #[allow(clippy::exit, reason = "a signal asks for exactly this")]
            std::process::exit(error.exit().code().into());
        })?;
        Ok(Self(partial))
    }

    /// Opens files, which have these names until they are complete. A signal does not come in between, and then removes
    /// them.
    ///
    /// # Errors
    /// As `open`, which then leaves no file.
    pub(super) fn opening<T>(
        &self,
        partial: impl IntoIterator<Item = PathBuf>,
        open: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let opened = open()?;
        files.extend(partial);
        Ok(opened)
    }
}

/// The files, as soon as none are being opened.
async fn lock(files: &Mutex<Vec<PathBuf>>) -> MutexGuard<'_, Vec<PathBuf>> {
    loop {
        match files.try_lock() {
            Ok(files) => return files,
            Err(TryLockError::Poisoned(files)) => return files.into_inner(),
            Err(TryLockError::WouldBlock) => sleep(Duration::from_millis(5)).await,
        }
    }
}
