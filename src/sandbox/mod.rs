//! The stand-in for the service: the same interface on this machine, with made-up scores.
//!
//! For first steps, rehearsals and tests. It is the other side: it shares no code with the client, so that a mistake
//! of one shows at the other. Its scores mean nothing and its transaction ids begin with `sandbox-`.

mod check;
mod deadline;
mod faults;
mod score;
mod server;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::oneshot;

pub(crate) use faults::{FaultKind, Faults, parse as parse_fault};
pub(crate) use server::{Report, listen, serve};

use crate::base::secret::Secret;

/// The plan that the stand-in plays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Plan {
    /// `vpn_check` and `advanced` are allowed.
    #[default]
    Paid,
    /// They are refused.
    Free,
}

/// A limit on requests, as services have it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateLimit {
    /// Requests a second; finite and above 0.
    pub per_second: f64,
    /// Requests that may come at once.
    pub burst: NonZeroU32,
    /// Seconds that `Retry-After` names; `None` sends none.
    pub retry_after: Option<u64>,
}

/// How the stand-in behaves.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where it listens; loopback only.
    pub listen: SocketAddr,
    /// The plan that it plays.
    pub plan: Plan,
    /// The keys that it accepts; any, where none are named.
    pub accepted_keys: Vec<Secret>,
    /// How long it takes to answer …
    pub latency: Duration,
    /// … and up to how much longer.
    pub jitter: Duration,
    /// What goes wrong, and how often.
    pub faults: Faults,
    /// How much it takes.
    pub rate_limit: Option<RateLimit>,
    /// Where its chances start from: one client at a time sees the same run again.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            plan: Plan::Paid,
            accepted_keys: Vec::new(),
            latency: Duration::ZERO,
            jitter: Duration::ZERO,
            faults: Faults::default(),
            rate_limit: None,
            seed: 0,
        }
    }
}

/// A stand-in on a thread of its own.
pub struct Sandbox {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<io::Result<Report>>,
}

impl Sandbox {
    /// Starts one; it listens when this returns.
    ///
    /// # Errors
    /// The address is not on loopback or cannot be listened on.
    pub fn start(settings: Settings) -> io::Result<Self> {
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
                    // Dropped without a word means the same.
                    let _ = stopped.await;
                }))
            })?;
        Ok(Self {
            address,
            stop,
            thread,
        })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends it; what it has seen and billed.
    #[must_use]
    pub fn stop(self) -> Report {
        // It may have ended by itself.
        let _ = self.stop.send(());
        self.thread
            .join()
            .ok()
            .and_then(Result::ok)
            .unwrap_or_default()
    }
}
