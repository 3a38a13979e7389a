//! The limits that the system sets for this process (`ulimit`).

/// The largest file that this process may write, in bytes (`ulimit -f`); `None` without a limit.
#[must_use]
pub(crate) fn max_file_size() -> Option<u64> {
    use rustix::process::{Resource, getrlimit};
    getrlimit(Resource::Fsize).current
}
