//! The file for the summary of a command.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use crate::base::error::{Error, Result, shown, system_words};
use crate::base::file_id::FileId;
use crate::base::own_file;
use crate::observe::{refuse_other_content, warn};

/// The file for the summary, which is empty until the end.
pub(in crate::commands) struct SummaryFile {
    path: PathBuf,
    file: File,
}

impl SummaryFile {
    /// Opens the file. It is emptied now, so that an old summary is not taken for this run's.
    ///
    /// # Errors
    /// Exit code 2: it cannot be written, or there is something else under its name.
    pub(in crate::commands) fn create(path: &Path, mode: u32) -> Result<Self> {
        refuse_other_content(path).map_err(|e| {
            Error::usage(format!("cannot write the summary to `{}`", path.display()))
                .because(e)
                .hint("give `--summary` another name: only an earlier summary is replaced")
        })?;
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        let file = own_file::with_mode(&mut options, mode & 0o666 | 0o600)
            .open(path)
            .map_err(|e| {
                let cannot = Error::usage(format!("cannot write `{}`", path.display()));
                own_file::cannot_make(path, cannot.because(e))
            })?;
        Ok(Self {
            path: path.to_owned(),
            file,
        })
    }

    /// Has the summary written. If that fails, a warning says so, and no file is left: a program would take an empty one, or
    /// half of a summary, for one. The rows are safe, so it does not change the exit code.
    pub(in crate::commands) fn write(self, write: impl FnOnce(&File) -> io::Result<()>) {
        let Self { path, file } = self;
        // A command that could not start may have left its failure there meanwhile. What is not a file cannot be emptied.
        let _ = file.set_len(0);
        if let Err(failed) = write(&file) {
            warn(&format!(
                "cannot write the summary to `{}`: {}",
                shown(&path),
                system_words(&failed)
            ));
            // Something else may have its name by now: perhaps the summary of another run.
            let is_ours = |there: Metadata| {
                let ours = file.metadata().map(|ours| FileId::of(&ours));
                there.is_file() && ours.is_ok_and(|ours| ours == FileId::of(&there))
            };
            if fs::symlink_metadata(&path).is_ok_and(is_ours) {
                // If this fails, a message says that there is no summary.
                let _ = fs::remove_file(&path);
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn after_a_failed_write_no_summary_is_left_and_that_of_another_run_is() {
        let place = tempfile::tempdir().unwrap();
        let (path, other) = (place.path().join("s.json"), place.path().join("other"));
        let full = || Err(io::ErrorKind::StorageFull.into());
        let summary = SummaryFile::create(&path, 0o600).unwrap();
        summary.write(|_| full());
        assert!(!path.exists());
        let summary = SummaryFile::create(&path, 0o600).unwrap();
        summary.write(|_| {
            fs::write(&other, "{}").unwrap();
            fs::rename(&other, &path).unwrap();
            full()
        });
        assert_eq!(fs::read_to_string(&path).unwrap(), "{}");
    }
}
