//! The commands whose result is a text that `cli` has made: settings in force, completions, manual pages.

use std::fs;
use std::io::{self, ErrorKind, Write as _};

use crate::base::error::{Error, Exit, Result, shown};
use crate::base::own_file;
use crate::config::ManConfig;
use crate::observe::tell;

/// Everybody may read a manual page, as far as the umask allows.
const MODE: u32 = 0o666;

/// Prints the result of a command and a line end.
///
/// # Errors
/// Exit code 3: it cannot be written, for example on a full disk. A reader that has gone away is not an error: it has
/// read what it wanted.
pub(crate) fn print(text: &str) -> Result<Exit> {
    let mut stdout = io::stdout().lock();
    match writeln!(stdout, "{}", text.trim_end_matches('\n')).and_then(|()| stdout.flush()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => {
            Err(Error::stopped("cannot write standard output").because(e))
        }
        _ => Ok(Exit::Complete),
    }
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
        let written = own_file::open(&path, MODE, false).and_then(|mut file| {
            file.set_len(0)?;
            file.write_all(page.as_bytes())
        });
        written.map_err(|error| {
            let failed = Error::usage(format!("cannot write the page `{}`", shown(&path)));
            failed.about(&path).because(error)
        })?;
    }
    tell(&format!(
        "rescore: wrote {} manual pages to {}",
        pages.len(),
        shown(directory)
    ));
    Ok(Exit::Complete)
}
