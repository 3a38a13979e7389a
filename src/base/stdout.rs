//! Standard output, for rows and for commands whose result is text.

use std::io::{ErrorKind, Write};

use super::error::{Error, Result};

/// Prints the result of a command and a line end.
///
/// # Errors
/// Exit code 3: it cannot be written, for example on a full disk. A reader that has gone away is not an error: it has
/// read what it wanted.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    match writeln!(stdout, "{text}").and_then(|()| stdout.flush()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => {
            Err(Error::stopped("cannot write standard output").because(e))
        }
        _ => Ok(()),
    }
}
