//! A stand-in on its own thread.

use std::io;
use std::net::SocketAddr;
use std::thread::JoinHandle;

use tokio::sync::oneshot;

use super::server::{Report, listen, serve};
use super::settings::SandboxSettings;

/// A stand-in on its own thread.
pub struct Sandbox {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<io::Result<Report>>,
}

impl Sandbox {
    /// Starts a stand-in. It is listening when this returns.
    ///
    /// # Errors
    /// The address is not on loopback, or cannot be listened on.
    pub fn start(settings: SandboxSettings) -> io::Result<Self> {
        let listener = listen(settings.listen)?;
        let address = listener.local_addr()?;
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("sandbox".to_owned())
            .spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()?;
                runtime.block_on(serve(listener, settings, async {
                    // A dropped sender means the same.
                    let _ = stopped.await;
                }))
            })?;
        Ok(Self {
            address,
            stop,
            thread,
        })
    }

    /// The address that it listens on.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops it, and returns its counts.
    #[must_use]
    pub fn stop(self) -> Report {
        // It may have ended already.
        let _ = self.stop.send(());
        self.thread
            .join()
            .ok()
            .and_then(Result::ok)
            .unwrap_or_default()
    }
}
