//! Waiting for a lock that another process holds (`--wait-lock`), and the hint for those who do not wait.
//!
//! This knows neither what is locked nor how: whatever fails with exit code 75 is tried again from its start, so that it
//! checks again all that may have changed meanwhile.

use std::cell::OnceCell;
use std::time::Duration;

use tokio::time::Instant;

use crate::base::error::{Exit, Result, printable};
use crate::base::numbers::time;
use crate::observe::tell;

/// How often a lock is tried again: nobody notices the difference, and a try costs some microseconds.
const LOOK: Duration = Duration::from_millis(100);

/// How long a command waits for locks, all of them together.
pub(in crate::commands) struct LockWait {
    longest: Option<Duration>,
    /// Whether it says that it waits.
    says: bool,
    /// When it started to wait, if it had to.
    since: OnceCell<Instant>,
}

impl LockWait {
    /// Waits so long, or not at all.
    pub(in crate::commands) const fn new(longest: Option<Duration>, says: bool) -> Self {
        Self {
            longest,
            says,
            since: OnceCell::new(),
        }
    }

    /// Tries to take something until no other process holds it.
    ///
    /// # Errors
    /// As `take`, with exit code 75 only after the longest wait.
    pub(in crate::commands) fn until_free<T>(
        &self,
        mut take: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        loop {
            let busy = match take() {
                Err(error) if error.exit() == Exit::Busy => error,
                taken => return taken,
            };
            let Some(longest) = self.longest else {
                return Err(busy.hint("`--wait-lock 10m` waits until it has ended"));
            };
            let since = self.since.get_or_init(|| {
                if self.says {
                    let (busy, longest) = (printable(busy.message()), time(longest));
                    tell(&format!("rescore: {busy}: waiting up to {longest}"));
                }
                Instant::now()
            });
            let left = longest.saturating_sub(since.elapsed());
            if left.is_zero() {
                return Err(busy
                    .detail(format!("waited {} for it", time(longest)))
                    .hint("run the same command again later, or raise `--wait-lock`"));
            }
            pause(left.min(LOOK));
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "no call is made yet")]
fn pause(time: Duration) {
    std::thread::sleep(time);
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::base::error::Error;

    fn busy() -> Error {
        Error::busy("another run is writing `x`").hint("later")
    }

    #[test]
    fn what_is_busy_is_tried_again_and_any_other_error_ends_the_wait() {
        let tries = Cell::new(0);
        let wait = LockWait::new(Some(Duration::from_secs(60)), false);
        let taken = wait.until_free(|| {
            tries.set(tries.get() + 1);
            if tries.get() < 3 { Err(busy()) } else { Ok(7) }
        });
        assert_eq!((taken.unwrap(), tries.get()), (7, 3));
        let failed = wait.until_free(|| Err::<(), _>(Error::usage("`x` already exists")));
        assert_eq!(failed.unwrap_err().exit(), Exit::Usage);
    }

    #[test]
    fn without_a_wait_the_hint_names_the_option() {
        let wait = LockWait::new(None, false);
        let error = wait.until_free(|| Err::<(), _>(busy())).unwrap_err();
        assert_eq!(
            error.report(),
            "error: another run is writing `x`\n\nhint: `--wait-lock 10m` waits until it has ended"
        );
    }

    #[test]
    fn the_wait_ends_after_its_time() {
        let wait = LockWait::new(Some(Duration::from_millis(1)), false);
        let error = wait.until_free(|| Err::<(), _>(busy())).unwrap_err();
        assert_eq!(error.exit(), Exit::Busy);
        assert!(error.report().contains("\n  waited 1.0 ms for it\n"));
    }
}
