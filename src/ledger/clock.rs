//! Times as the database stores them: milliseconds since 1970. In seconds, runs that follow each other closely could not
//! be told apart.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A time as the database stores it.
pub(super) fn millis(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// A time that the database stores.
pub(super) fn time(millis: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}

/// Now, as the database stores it.
pub(super) fn now() -> i64 {
    millis(SystemTime::now())
}
