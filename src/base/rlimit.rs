//! The limits that the system sets for this process (`ulimit`).

/// The largest file that this process may write, in bytes (`ulimit -f`); `None` without a limit.
#[must_use]
#[cfg(unix)]
pub(crate) fn max_file_size() -> Option<u64> {
    use rustix::process::{Resource, getrlimit};
    getrlimit(Resource::Fsize).current
}

/// The largest file that this process may write, in bytes; `None` without a limit.
#[must_use]
#[cfg(not(unix))]
pub(crate) fn max_file_size() -> Option<u64> {
    None
}
