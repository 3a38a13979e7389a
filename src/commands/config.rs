//! `rescore config`: shows the settings in force, which `cli` has put together.

use std::io::Write as _;

use crate::base::error::Exit;

/// Prints the settings. A reader that went away has seen enough.
pub(crate) fn execute(settings: &str) -> Exit {
    let _ = std::io::stdout().write_all(settings.as_bytes());
    Exit::Complete
}
