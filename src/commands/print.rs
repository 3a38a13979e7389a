//! The commands whose result is a text that `cli` has made: settings in force, completions, the main manual page.

use crate::base::error::{Exit, Result};
use crate::base::stdout;

/// Prints the text.
///
/// # Errors
/// Exit code 3: it cannot be written.
pub(crate) fn execute(text: &str) -> Result<Exit> {
    stdout::print(text.trim_end_matches('\n'))?;
    Ok(Exit::Complete)
}
