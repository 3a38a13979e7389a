//! What the system lets this process do.

/// How large a file may be that this process writes (`ulimit -f`); `None` without a limit.
#[must_use]
#[cfg(unix)]
pub(crate) fn file_size_limit() -> Option<u64> {
    use rustix::process::{Resource, getrlimit};
    getrlimit(Resource::Fsize).current
}

/// How large a file may be that this process writes; `None` without a limit.
#[must_use]
#[cfg(not(unix))]
pub(crate) fn file_size_limit() -> Option<u64> {
    None
}
