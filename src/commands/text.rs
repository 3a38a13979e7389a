//! The commands whose result is a text that `cli` has made: settings in force, completions, manual pages.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use crate::base::error::{Error, Exit, Result, shown};
use crate::base::own_file::{self, HINT, is_not_ours};
use crate::base::stdout;
use crate::config::ManConfig;
use crate::observe::tell;

/// Everybody may read a manual page, as far as the umask allows.
const MODE: u32 = 0o666;

/// Prints a text.
///
/// # Errors
/// Exit code 3: it cannot be written.
pub(crate) fn print(text: &str) -> Result<Exit> {
    stdout::print(text.trim_end_matches('\n'))?;
    Ok(Exit::Complete)
}

/// Writes the manual pages. Those of an earlier version are replaced.
///
/// # Errors
/// Exit code 2: the directory or a page cannot be written.
pub(crate) fn write_pages(config: &ManConfig) -> Result<Exit> {
    let ManConfig { directory, pages } = config;
    fs::create_dir_all(directory).map_err(|error| {
        Error::usage(format!(
            "cannot create the directory `{}`",
            shown(directory)
        ))
        .because(error)
    })?;
    for (file, page) in pages {
        let path = directory.join(file);
        write(&path, page).map_err(|error| {
            let ours = !is_not_ours(&error);
            let failed = Error::usage(format!("cannot write the page `{}`", shown(&path)));
            let failed = failed.about(&path).because(error);
            if ours { failed } else { failed.hint(HINT) }
        })?;
    }
    tell(&format!(
        "rescore: wrote {} manual pages to {}",
        pages.len(),
        shown(directory)
    ));
    Ok(Exit::Complete)
}

/// Writes one page.
fn write(path: &Path, page: &str) -> io::Result<()> {
    let mut file = own_file::open(path, MODE, false)?;
    file.set_len(0)?;
    file.write_all(page.as_bytes())
}
