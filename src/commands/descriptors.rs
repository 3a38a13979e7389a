//! The limit on open files: raised where the system lets us, and the concurrency lowered to fit where not.

use std::num::NonZeroUsize;

/// Calls in flight at most where nobody says how many. Services that bear more than that from one client are few, and each
/// takes some 60 KB. It is only a ceiling: the search for what a service bears starts far below.
const DEFAULT: NonZeroUsize = NonZeroUsize::new(512).expect("above 0");

/// Files, pipes, timers and name look-ups besides the calls' connections.
const BESIDES: usize = 48;

/// Connections for four calls. A call that waits for a connection takes one that another call has done with, if that is
/// sooner; its own is there all the same, for the next one. With 512 calls that take 5 ms there were 610.
const FOR_FOUR: usize = 5;

/// The concurrency that the limit on open files has room for, and a warning where that is less than was asked for.
pub(super) fn fit(asked: Option<NonZeroUsize>, sandbox: bool) -> (NonZeroUsize, Option<String>) {
    let concurrency = asked.unwrap_or(DEFAULT);
    // The stand-in lives in this process and holds the other end of every connection.
    let ends = if sandbox { 2 } else { 1 };
    let needed = (concurrency.get() * FOR_FOUR).div_ceil(4) * ends + BESIDES;
    let Some(limit) = raise(needed).filter(|limit| *limit < needed) else {
        return (concurrency, None);
    };
    let room = limit.saturating_sub(BESIDES) / ends * 4 / FOR_FOUR;
    let room = NonZeroUsize::new(room).unwrap_or(NonZeroUsize::MIN);
    let warning = asked.map(|asked| {
        format!("at most {room} calls in flight instead of {asked}: this process may open only {limit} files (`ulimit -n`)")
    });
    (room, warning)
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
