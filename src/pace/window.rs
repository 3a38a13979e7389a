//! Whether a service counts calls in windows, and how long they are. Such a service refuses everything until a window is
//! over, and not only what comes too fast.

use std::time::Duration;

/// What is known about the service's windows.
#[derive(Debug, Default)]
pub(super) struct QuotaWindow {
    /// Their least length.
    length: Option<Duration>,
    /// The wait that the service named last.
    last_named: Option<Duration>,
    /// The service named waits of different lengths.
    proven: bool,
}

/// A service that names at least this wait counts in windows: a bucket has room again after a second or two.
pub(super) const SHORTEST_WINDOW: Duration = Duration::from_secs(3);
/// A step of the search lasts at most this long, however long a wait the service names: the longest common window is a
/// minute.
const LONGEST_STEP: Duration = Duration::from_secs(90);
/// Too much is refused within this many windows: at the latest at the end of the first whole one.
const WINDOWS_SHOWN: f64 = 1.5;

impl QuotaWindow {
    /// Whether there are any.
    pub(super) const fn is_known(&self) -> bool {
        self.length.is_some()
    }

    /// Whether it is certain that there are any.
    pub(super) const fn is_proven(&self) -> bool {
        self.proven
    }

    /// The service refused and named this wait. Returns when the window ends, if that can be believed.
    pub(super) fn named(&mut self, wait: Duration) -> Option<Duration> {
        // Without a known window, a service that names the same wait twice always names it.
        let constant = self.last_named == Some(wait) && self.length.is_none();
        self.proven |=
            self.length.is_some() && wait >= SHORTEST_WINDOW && self.last_named != Some(wait);
        self.last_named = Some(wait);
        if constant {
            return None;
        }
        if wait >= SHORTEST_WINDOW {
            self.is_at_least(wait);
        }
        Some(wait)
    }

    /// The service refused everything for this long.
    pub(super) fn is_at_least(&mut self, length: Duration) {
        self.length = self.length.max(Some(length));
    }

    /// The limit that was found with a window is not there: the named waits are not the ends of windows.
    pub(super) fn is_disproved(&mut self) {
        if self.last_named.is_some() {
            self.length = None;
            self.proven = false;
        }
    }

    /// How long it takes at most until too much is refused.
    pub(super) fn shown(&self) -> Duration {
        self.length
            .unwrap_or_default()
            .mul_f64(WINDOWS_SHOWN)
            .min(LONGEST_STEP)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn second(second: u64) -> Duration {
        Duration::from_secs(second)
    }

    #[test]
    fn a_long_wait_is_a_window_until_that_is_disproved() {
        let mut window = QuotaWindow::default();
        assert_eq!(window.named(second(1)), Some(second(1)));
        assert!(!window.is_known());
        assert_eq!(window.named(second(40)), Some(second(40)));
        assert_eq!(window.shown(), second(60));
        // The end of a window is near, but the window is as long as before.
        window.named(second(2));
        assert_eq!(window.shown(), second(60));
        assert_eq!(window.named(second(40)), Some(second(40)));
        window.is_disproved();
        assert!(!window.is_known());
        assert_eq!(window.named(second(40)), None, "it always names it");
        assert!(!window.is_known());
    }

    #[test]
    fn a_window_that_was_seen_and_not_named_stays() {
        let mut window = QuotaWindow::default();
        window.is_at_least(second(7));
        window.is_disproved();
        assert_eq!(window.shown(), second(7).mul_f64(1.5));
        window.is_at_least(second(900));
        assert_eq!(window.shown(), LONGEST_STEP);
    }
}
