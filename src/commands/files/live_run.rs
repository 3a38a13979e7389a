//! Which run is writing a file: the lock on the file itself does not say so.

use std::path::Path;

use crate::base::error::{Error, Exit};
use crate::ledger::OutputLock;

/// If another run is writing the output, the error that names it: a run that writes the file has its lock as well.
pub(in crate::commands) fn naming_the_other_run(error: Error, output: &Path) -> Error {
    if error.exit() != Exit::Busy {
        return error;
    }
    match OutputLock::take(output) {
        Err(named) if named.exit() == Exit::Busy => named,
        _ => error,
    }
}
