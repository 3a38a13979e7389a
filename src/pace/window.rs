//! Whether a service counts calls in windows, and how long they are. Such a service refuses everything until a window is
//! over, and not only what comes too fast.

use std::time::Duration;

/// What is known about the service's windows.
#[derive(Debug, Default)]
pub(super) struct QuotaWindow {
    /// Their least length.
    length: Option<Duration>,
    /// When the service first began to refuse everything for a while without naming a wait.
    first: Option<Duration>,
}

/// A service that names at least this wait counts in windows: a bucket has room again after a second or two, and has run empty
/// after as long. Headers count whole seconds, so that a rate over less time is chance.
pub(super) const SHORTEST_WINDOW: Duration = Duration::from_secs(3);
/// The longest common window, however long a wait the service names. A pause for which the service names no time is at most as
/// long, and what was accepted in more than three times this is not measured: the limit may have changed.
pub(super) const LONGEST_WINDOW: Duration = Duration::from_secs(60);
/// Too much is refused within this many windows: at the latest at the end of the first whole one.
const WINDOWS_SHOWN: f64 = 1.5;

impl QuotaWindow {
    /// Whether there are any.
    pub(super) const fn is_known(&self) -> bool {
        self.length.is_some()
    }

    /// The service refused and named this wait.
    pub(super) fn named(&mut self, wait: Duration) {
        if wait >= SHORTEST_WINDOW {
            self.is_at_least(wait);
        }
    }

    /// The service refused everything since then, for this long, and named no wait. Once may be trouble; windows come again.
    pub(super) fn refused_for(&mut self, since: Duration, length: Duration) {
        if *self.first.get_or_insert(since) < since {
            self.is_at_least(length);
        }
    }

    fn is_at_least(&mut self, length: Duration) {
        self.length = self.length.max(Some(length));
    }

    /// How long it takes at most until too much is refused: by a bucket that runs empty, or in a window.
    pub(super) fn shown(&self) -> Duration {
        let length = self.length.unwrap_or_default().min(LONGEST_WINDOW);
        length.mul_f64(WINDOWS_SHOWN).max(SHORTEST_WINDOW)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn second(second: u64) -> Duration {
        Duration::from_secs(second)
    }

    #[test]
    fn a_long_wait_is_a_window() {
        let mut window = QuotaWindow::default();
        window.named(second(1));
        assert!(!window.is_known());
        window.named(second(40));
        assert_eq!(window.shown(), second(60));
        // The end of a window is near, but the window is as long as before.
        window.named(second(4));
        assert_eq!(window.shown(), second(60));
        window.is_at_least(second(900));
        assert_eq!(window.shown(), second(90));
    }

    #[test]
    fn without_a_named_wait_the_second_time_shows_a_window() {
        let mut window = QuotaWindow::default();
        window.refused_for(second(10), second(4));
        window.refused_for(second(10), second(8));
        assert!(!window.is_known(), "it may have been trouble");
        window.refused_for(second(70), second(4));
        window.refused_for(second(70), second(8));
        assert_eq!(window.shown(), second(12));
    }
}
