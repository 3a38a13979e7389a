//! The phases of a run, in order.

use super::announce::announce;
use super::drive::drive;
use super::failure::FailureFiles;
use super::prepare::prepare;
use super::report::report;
use crate::base::error::{Exit, Result};
use crate::config::RunConfig;

/// Runs, and says how it went.
///
/// # Errors
/// Whatever kept the run from starting. What ended it early has been reported, and is in the exit code.
pub(crate) fn execute(config: RunConfig) -> Result<Exit> {
    let failure = FailureFiles::of(&config);
    let ended = run(config);
    if let Err(error) = &ended {
        failure.write(error);
    }
    ended
}

fn run(config: RunConfig) -> Result<Exit> {
    let prepared = prepare(config)?;
    announce(&prepared);
    let driven = drive(prepared)?;
    Ok(report(driven))
}
