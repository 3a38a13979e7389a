//! The limit on open files: raised where the system allows it; elsewhere the concurrency is lowered to fit.

use std::num::NonZeroUsize;

use crate::base::error::{Error, Result};
use crate::config::{DEFAULT_CONCURRENCY, FilesConfig, RunConfig, ServiceConfig};

/// Descriptors besides those of connections: files, pipes, timers and name look-ups.
const OTHERS: usize = 48;

/// Connections for each call. A call that waits for its connection takes another that is free sooner, and its own then stays
/// idle. With 64 calls to a stand-in that answers within a millisecond there were 100 connections, with 512 there were 770.
const CONNECTIONS: usize = 2;

/// Descriptors of a run from a file to a file with one call at a time; 23 were counted.
const LEAST: usize = 24;
/// Further descriptors of the stand-in: its runtime, its listener and the other end of a connection.
const OF_SANDBOX: usize = 6;

/// What the limit on open files has room for.
pub(super) struct FdLimitFit {
    /// Calls in flight at most.
    pub(super) concurrency: NonZeroUsize,
    /// A warning where that is less than was asked for.
    pub(super) warning: Option<String>,
}

/// The concurrency that the limit on open files has room for.
///
/// # Errors
/// Exit code 2: there is not even room for one call.
pub(super) fn fit(config: &RunConfig) -> Result<FdLimitFit> {
    let asked = config.pace.concurrency;
    let concurrency = asked.unwrap_or(DEFAULT_CONCURRENCY);
    let sandbox = matches!(config.service, ServiceConfig::Sandbox);
    let extra = [
        matches!(&config.files, FilesConfig::One(one) if one.output.changes.is_some()),
        config.watch.summary.is_some(),
    ];
    let extra = extra.into_iter().filter(|is_there| *is_there).count();
    let least = LEAST + extra + if sandbox { OF_SANDBOX } else { 0 };
    // The stand-in lives in this process and holds the other end of every connection.
    let ends = if sandbox { 2 } else { 1 };
    let needed = concurrency.get() * CONNECTIONS * ends + OTHERS;
    let Some(limit) = raise(needed).filter(|limit| *limit < needed) else {
        return Ok(FdLimitFit {
            concurrency,
            warning: None,
        });
    };
    if limit < least {
        return Err(Error::usage(format!(
            "this process may open only {limit} files (`ulimit -n`), and {least} are needed"
        ))
        .hint("raise the limit, as with `ulimit -n 1024`"));
    }
    let room = limit.saturating_sub(OTHERS) / (CONNECTIONS * ends);
    let room = NonZeroUsize::new(room).unwrap_or(NonZeroUsize::MIN);
    let warning = asked.map(|asked| {
        format!("at most {room} calls in flight instead of {asked}: this process may open only {limit} files (`ulimit -n`)")
    });
    Ok(FdLimitFit {
        concurrency: room,
        warning,
    })
}

/// Raises the limit towards `needed`, and returns what it is then; `None` where there is none.
fn raise(needed: usize) -> Option<usize> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let now = limit.current?;
    let target = limit
        .maximum
        .map_or(needed as u64, |most| most.min(needed as u64));
    let raised = Rlimit {
        current: Some(target),
        maximum: limit.maximum,
    };
    let after = if target > now && setrlimit(Resource::Nofile, raised).is_ok() {
        target
    } else {
        now
    };
    usize::try_from(after).ok()
}
