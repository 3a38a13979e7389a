//! The drain: how long the calls in flight may take to finish once the run stops.

use std::time::Duration;

use tokio::time::Instant;

use crate::telemetry::event::CancelReason;

/// The time for an answer to reach the disk after its call. A disk that takes longer hangs.
const COMMIT: Duration = Duration::from_secs(10);
/// The whole drain after SIGTERM or SIGHUP. Kubernetes kills after 30 s, and the last rows must still be written and synced.
const TERMINATED: Duration = Duration::from_secs(20);
/// What is left of a drain after SIGINT, when something else had started it: the person who sends it does not want to wait.
const INTERRUPTED: Duration = Duration::from_secs(5);

/// A drain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Drain {
    /// When calls that are still out are given up.
    pub(super) ends: Instant,
    /// How long calls may still take.
    pub(super) calls: Duration,
}

impl Drain {
    /// The drain of a run that stops now. No call is given up before its own time limit, because it is paid for, unless the
    /// process may be killed soon.
    pub(super) fn of(reason: CancelReason, longest_call: Duration) -> Self {
        let whole = longest_call.saturating_add(COMMIT);
        let longest = if reason.hurries() { TERMINATED } else { whole };
        Self {
            ends: Instant::now() + longest.min(whole),
            calls: longest_call.min(longest),
        }
    }

    /// The drain that ends at `ends`, cut short by a signal; `None` if the reason is not a signal.
    pub(super) fn hurried(reason: CancelReason, ends: Instant) -> Option<Self> {
        let longest = match reason {
            CancelReason::Interrupted => INTERRUPTED,
            reason if reason.hurries() => TERMINATED,
            _ => return None,
        };
        let left = ends.saturating_duration_since(Instant::now()).min(longest);
        Some(Self {
            ends: Instant::now() + left,
            calls: left,
        })
    }
}
