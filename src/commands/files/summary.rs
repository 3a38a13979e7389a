//! The file for the summary of a command.

use std::fs::{File, OpenOptions};
use std::path::Path;

use crate::base::error::{Error, Result};
use crate::base::own_file;
use crate::observe::refuse_other_content;

/// Opens the file for the summary. It is emptied now, so that an old summary is not taken for this run's.
///
/// # Errors
/// Exit code 2: it cannot be written, or there is something else under its name.
pub(in crate::commands) fn create_summary(path: &Path, mode: u32) -> Result<File> {
    refuse_other_content(path).map_err(|e| {
        Error::usage(format!("cannot write the summary to `{}`", path.display()))
            .because(e)
            .hint("give `--summary` another name: only an earlier summary is replaced")
    })?;
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    own_file::with_mode(&mut options, mode & 0o666 | 0o600)
        .open(path)
        .map_err(|e| Error::usage(format!("cannot write `{}`", path.display())).because(e))
}
