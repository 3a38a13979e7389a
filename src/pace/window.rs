//! Whether a service counts in windows, and how long they are: then it refuses everything until one is over, and not just
//! what comes too fast.

use std::time::Duration;

/// What is known of its windows.
#[derive(Debug, Default)]
pub(super) struct QuotaWindow {
    /// How long they are at least.
    length: Option<Duration>,
    /// The wait that the service named last.
    last_named: Option<Duration>,
    /// It named waits of different lengths.
    proven: bool,
}

/// A bucket has room again after a second or two; who asks for more than this counts in windows.
const SHORTEST: Duration = Duration::from_secs(3);
/// However long a pause the service names, the longest window that is common is a minute.
const LONGEST: Duration = Duration::from_secs(90);
/// Too much is seen within a window and a half.
const WINDOWS: f64 = 1.5;

impl QuotaWindow {
    /// Whether there are any.
    pub(super) const fn is_known(&self) -> bool {
        self.length.is_some()
    }

    /// Whether it is certain that there are some.
    pub(super) const fn is_proven(&self) -> bool {
        self.proven
    }

    /// The service refused and named this wait. What it says of the end of a window, if that can be believed.
    pub(super) fn named(&mut self, wait: Duration) -> Option<Duration> {
        // Who is known for no window and names the same time again names it whenever it is asked.
        let constant = self.last_named == Some(wait) && self.length.is_none();
        self.proven |= self.length.is_some() && wait >= SHORTEST && self.last_named != Some(wait);
        self.last_named = Some(wait);
        if constant {
            return None;
        }
        if wait >= SHORTEST {
            self.is_at_least(wait);
        }
        Some(wait)
    }

    /// It refused for so long.
    pub(super) fn is_at_least(&mut self, length: Duration) {
        self.length = self.length.max(Some(length));
    }

    /// The limit that was found with it is not there: what the service names is no window's end.
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
            .mul_f64(WINDOWS)
            .min(LONGEST)
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
        // The end of one is near, and it is as long as before.
        window.named(second(2));
        assert_eq!(window.shown(), second(60));
        assert_eq!(window.named(second(40)), Some(second(40)));
        window.is_disproved();
        assert!(!window.is_known());
        assert_eq!(window.named(second(40)), None, "whenever it is asked");
        assert!(!window.is_known());
    }

    #[test]
    fn what_was_seen_and_not_named_stays() {
        let mut window = QuotaWindow::default();
        window.is_at_least(second(7));
        window.is_disproved();
        assert_eq!(window.shown(), second(7).mul_f64(1.5));
        window.is_at_least(second(900));
        assert_eq!(window.shown(), LONGEST);
    }
}
