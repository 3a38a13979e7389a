//! Everything that a command writes besides rows: its result on standard output, its summary file, and manual pages.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use serde::Serialize;

use crate::base::error::{Error, Exit, Result, system_words};
use crate::base::private_file::{self, Readers};
use crate::base::text::display;
use crate::observe::{pretty_json, refuse_other_content, tell, warn};

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

/// Writes the manual pages of a command line. Pages of an earlier version are replaced, and so is a link, but not the file that
/// it leads to.
///
/// # Errors
/// Exit code 2: the directory or a page cannot be written.
pub(crate) fn write_pages(directory: &Path, pages: clap::Command) -> Result<Exit> {
    let path = display(directory);
    let write = || {
        fs::create_dir_all(directory)?;
        let new = private_file::temporary().tempdir_in(directory)?;
        clap_mangen::generate_to(pages, new.path())?;
        fs::read_dir(new.path())?.try_for_each(|page| {
            let page = page?;
            fs::rename(page.path(), directory.join(page.file_name()))
        })
    };
    write().map_err(|error| {
        Error::usage(format!("cannot write the manual pages to `{path}`")).because(error)
    })?;
    tell(&format!("rescore: wrote the manual pages to {path}"));
    Ok(Exit::Complete)
}

/// The file for the summary, in which an earlier summary stays until the end.
pub(crate) struct SummaryFile {
    path: PathBuf,
    /// Who may read it.
    readers: Readers,
    /// A pipe or a device, which is written directly.
    stream: Option<File>,
}

impl SummaryFile {
    /// Checks that the file can be written. A new one is for these readers, and an earlier one keeps its own.
    ///
    /// # Errors
    /// Exit code 2: it cannot be written, or the file there is not a summary.
    pub(crate) fn create(path: &Path, readers: Readers) -> Result<Self> {
        refuse_other_content(path).map_err(|e| {
            Error::usage(format!("cannot write the summary to `{}`", path.display()))
                .because(e)
                .hint("give `--summary` another name: only an earlier summary is replaced")
        })?;
        Self::open(path, readers).map_err(|e| {
            let cannot = Error::usage(format!("cannot write `{}`", path.display()));
            private_file::cannot_make(path, cannot.because(e))
        })
    }

    fn open(path: &Path, readers: Readers) -> io::Result<Self> {
        let there = fs::metadata(path).ok();
        if there.as_ref().is_some_and(|there| !there.is_file()) {
            return Ok(Self {
                path: path.to_owned(),
                readers,
                stream: Some(open_stream(path)?),
            });
        }
        // Also checked if there is an earlier one, which a new one replaces.
        let new = readers.of_new(path)?;
        Ok(Self {
            path: path.to_owned(),
            readers: there.as_ref().map_or(new, Readers::of),
            stream: None,
        })
    }

    /// Writes the summary. If that fails, it warns, and removes the earlier summary: a program would take it for this run's. The
    /// rows are safe, so the exit code stays.
    pub(crate) fn write(self, summary: &impl Serialize) {
        let text = pretty_json(summary);
        let written = match self.stream.as_ref() {
            Some(mut stream) => stream.write_all(text.as_bytes()),
            // Another file may have been put there meanwhile.
            None => refuse_other_content(&self.path)
                .and_then(|()| private_file::replace(&self.path, self.readers, text.as_bytes())),
        };
        if let Err(failed) = written {
            warn(&format!(
                "cannot write the summary to `{}`: {}",
                display(&self.path),
                system_words(&failed)
            ));
            if self.stream.is_none() && refuse_other_content(&self.path).is_ok() {
                // The warning is enough if this fails as well.
                let _ = fs::canonicalize(&self.path).and_then(fs::remove_file);
            }
        }
    }
}

/// Opens a pipe or a device, without waiting for a reader: if none came, the run would wait for ever.
fn open_stream(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let stream = match options.write(true).custom_flags(flags).open(path) {
        Err(e) if e.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => {
            return Err(io::Error::other("no program reads it"));
        }
        opened => opened?,
    };
    // A summary is longer than some pipes are: a slow reader is waited for.
    fcntl_setfl(&stream, fcntl_getfl(&stream)? - OFlags::NONBLOCK)?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn an_earlier_summary_is_replaced_with_its_mode_and_no_other_file_is() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("s.json");
        let read = || fs::read_to_string(&path).unwrap();
        let earlier = "{\"type\":\"summary\"}";
        fs::write(&path, earlier).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let [first, late] =
            [(); 2].map(|()| SummaryFile::create(&path, Readers::EVERYBODY).unwrap());
        first.write(&[1]);
        assert_eq!(read(), "[\n  1\n]\n");
        assert_eq!(private_file::mode_of(&path.metadata().unwrap()), 0o640);
        fs::write(&path, "precious").unwrap();
        late.write(&[2]);
        assert_eq!(read(), "precious");
    }
}
