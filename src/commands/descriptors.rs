//! The limit on open files: raised where the system lets us, and the concurrency lowered to fit where not.

use std::num::NonZeroUsize;

/// Files, pipes, timers and name look-ups besides the calls' connections.
const BESIDES: usize = 48;

/// The concurrency that the limit on open files has room for, and a warning where that is less than asked for.
pub(super) fn fit(concurrency: NonZeroUsize, sandbox: bool) -> (NonZeroUsize, Option<String>) {
    // The stand-in lives in this process and holds the other end of every connection.
    let ends = if sandbox { 2 } else { 1 };
    let needed = concurrency
        .get()
        .saturating_mul(ends)
        .saturating_add(BESIDES);
    let Some(limit) = raise(needed).filter(|limit| *limit < needed) else {
        return (concurrency, None);
    };
    let room = NonZeroUsize::new(limit.saturating_sub(BESIDES) / ends).unwrap_or(NonZeroUsize::MIN);
    let warning = format!(
        "at most {room} calls in flight instead of {concurrency}: this process may open only {limit} files (`ulimit -n`)"
    );
    (room, Some(warning))
}

/// Raises the limit towards `needed`; what it is then, `None` where there is none.
#[cfg(unix)]
fn raise(needed: usize) -> Option<usize> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let now = limit.current?;
    let wanted = limit
        .maximum
        .map_or(needed as u64, |most| most.min(needed as u64));
    let raised = Rlimit {
        current: Some(wanted),
        maximum: limit.maximum,
    };
    let after = if wanted > now && setrlimit(Resource::Nofile, raised).is_ok() {
        wanted
    } else {
        now
    };
    usize::try_from(after).ok()
}

#[cfg(not(unix))]
fn raise(_: usize) -> Option<usize> {
    None
}
