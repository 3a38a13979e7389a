//! The limit on open files: raised where the system lets us, and the concurrency lowered to fit where not.

use std::num::NonZeroUsize;

use crate::base::error::{Error, Result};
use crate::config::{RunConfig, ServiceConfig};

/// Calls in flight at most where nobody says how many. Services that bear more than that from one client are few, and each
/// takes some 60 KB. It is only a ceiling: the search for what a service bears starts far below.
const DEFAULT: NonZeroUsize = NonZeroUsize::new(512).expect("above 0");

/// Files, pipes, timers and name look-ups besides the calls' connections.
const BESIDES: usize = 48;

/// Connections for a call. One that waits for its connection takes another that is free sooner; its own comes all the same
/// and lies idle. With 64 calls to a stand-in that answers within a millisecond there were 100, with 512 there were 770.
const CONNECTIONS: usize = 2;

/// What a run takes from a file to a file, with a single call at a time; some 23 were counted.
const LEAST: usize = 24;
/// What the stand-in takes as well: its own runtime, where it listens, and the other end of a connection.
const OF_SANDBOX: usize = 6;

/// The concurrency that the limit on open files has room for, and a warning where that is less than was asked for.
///
/// # Errors
/// Exit code 2: there is not even room for one call.
pub(super) fn fit(config: &RunConfig) -> Result<(NonZeroUsize, Option<String>)> {
    let asked = config.pace.concurrency;
    let concurrency = asked.unwrap_or(DEFAULT);
    let sandbox = matches!(config.service, ServiceConfig::Sandbox { .. });
    let further = [
        config.output.changes.is_some(),
        config.watch.summary.is_some(),
    ];
    let further = further.into_iter().filter(|is_there| *is_there).count();
    let least = LEAST + further + if sandbox { OF_SANDBOX } else { 0 };
    // The stand-in lives in this process and holds the other end of every connection.
    let ends = if sandbox { 2 } else { 1 };
    let needed = concurrency.get() * CONNECTIONS * ends + BESIDES;
    let Some(limit) = raise(needed).filter(|limit| *limit < needed) else {
        return Ok((concurrency, None));
    };
    if limit < least {
        return Err(Error::usage(format!(
            "this process may open only {limit} files (`ulimit -n`), and {least} are needed"
        ))
        .hint("raise the limit, as with `ulimit -n 1024`"));
    }
    let room = limit.saturating_sub(BESIDES) / (CONNECTIONS * ends);
    let room = NonZeroUsize::new(room).unwrap_or(NonZeroUsize::MIN);
    let warning = asked.map(|asked| {
        format!("at most {room} calls in flight instead of {asked}: this process may open only {limit} files (`ulimit -n`)")
    });
    Ok((room, warning))
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
