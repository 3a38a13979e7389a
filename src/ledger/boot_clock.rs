//! The clock by which a process measures its lease. Nobody can set it, and where the system has such a clock, it keeps
//! running while the machine sleeps.

use std::time::Duration;

/// The time since the machine was started.
#[cfg(target_os = "linux")]
pub(super) fn boot_time() -> Duration {
    use rustix::time::{ClockId, clock_gettime};
    let time = clock_gettime(ClockId::Boottime);
    // It is never negative.
    Duration::try_from(time).unwrap_or_default()
}

/// The time since the process first asked for it. On some systems it stands still while the machine sleeps.
#[cfg(not(target_os = "linux"))]
#[expect(
    clippy::disallowed_methods,
    reason = "a lease lasts in real time, whatever a test does to the clock"
)]
pub(super) fn boot_time() -> Duration {
    use std::sync::OnceLock;
    use std::time::Instant;
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
}
