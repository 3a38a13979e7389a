//! Times as the database stores them: milliseconds since 1970. In seconds, runs that follow each other closely could not
//! be told apart.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::boot_clock::boot_time;

/// How far ahead of the clock an answer may be dated: runs that use no older answers date theirs up to an hour ahead where
/// the clock was set back in between (`fresh_from`). Further ahead, a clock was wrong.
pub(super) const MAX_AHEAD: i64 = 60 * 60 * 1_000;

/// The clock that a ledger's answers are dated by, as read when it was opened: nobody sets it while a run lasts.
#[derive(Debug, Clone, Copy)]
pub(super) struct LedgerClock {
    /// What it said, in milliseconds since 1970.
    read: i64,
    /// When that was.
    since: Duration,
}

impl LedgerClock {
    /// A clock that says this now, in milliseconds since 1970.
    pub(super) fn at(now: i64) -> Self {
        let since = boot_time();
        Self { read: now, since }
    }

    /// The latest that it can be now, also where the machine's clock was set ahead meanwhile; in milliseconds since 1970.
    pub(super) fn latest(&self) -> i64 {
        let passed = boot_time().saturating_sub(self.since).as_millis();
        let passed = i64::try_from(passed).unwrap_or(i64::MAX);
        self.read
            .saturating_add(passed)
            .max(millis(SystemTime::now()))
    }
}

/// A time as the database stores it.
pub(super) fn millis(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// A time that the database stores.
pub(super) fn time(millis: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}
