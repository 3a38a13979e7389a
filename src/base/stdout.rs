//! Standard output, for rows and for commands whose result is text.

use std::io::{ErrorKind, Write};

use super::error::{Error, Result};

/// Prints the result of a command and a line end.
///
/// # Errors
/// Exit code 3: it cannot be written, for example on a full disk. A reader that has gone away is not an error: it has
/// read what it wanted.
pub(crate) fn print(text: &str) -> Result<()> {
    check()?;
    let mut stdout = std::io::stdout().lock();
    match writeln!(stdout, "{text}").and_then(|()| stdout.flush()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(cannot_write().because(e)),
        _ => Ok(()),
    }
}

/// Fails if standard output is not open for writing (`1< FILE`): the standard library takes every write to it for a success.
/// One that is closed was replaced by `/dev/null` before `main`, and cannot be told from one that somebody has sent there.
///
/// # Errors
/// Exit code 3.
pub(crate) fn check() -> Result<()> {
    use rustix::fs::{OFlags, fcntl_getfl};
    match fcntl_getfl(std::io::stdout()) {
        Ok(flags) if flags & OFlags::RWMODE == OFlags::RDONLY => {
            Err(cannot_write().detail("it is not open for writing"))
        }
        // If the system does not say, writing will.
        _ => Ok(()),
    }
}

fn cannot_write() -> Error {
    Error::stopped("cannot write standard output")
}
