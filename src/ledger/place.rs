//! Where a ledger lies, whose it is there, and what becomes of a file that was made in vain.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::file::{self, Kind, Lock, ledger_of};
use super::sqlite;
use crate::base::error::{Error, Result};

/// Where a ledger lies, and whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// The run's own, beside the output of this path.
    Beside(PathBuf),
    /// This file, which other runs use as well, also at the same time.
    Shared(PathBuf),
    /// In a temporary directory, for as long as the run lasts: only to ask equal requests once.
    Scratch,
}

impl Place {
    /// The ledger's path; `None` where nobody knows it before it is made.
    #[must_use]
    pub fn path(&self) -> Option<PathBuf> {
        match self {
            Self::Beside(output) => Some(ledger_of(output)),
            Self::Shared(path) => Some(path.clone()),
            Self::Scratch => None,
        }
    }

    pub(super) const fn kind(&self) -> Kind {
        match self {
            Self::Beside(_) | Self::Scratch => Kind::Own,
            Self::Shared(_) => Kind::Shared,
        }
    }

    /// Takes the place for a run.
    pub(super) fn take(&self) -> Result<Taken> {
        let (path, lock, scratch) = match self {
            Self::Beside(output) => {
                let path = ledger_of(output);
                let lock = Lock::take(&path, output, &ourselves())?;
                file::check_own(&path)?;
                (path, Some(lock), None)
            }
            Self::Shared(path) => (path.clone(), None, None),
            Self::Scratch => {
                let directory = tempfile::Builder::new()
                    .prefix("rescore-")
                    .tempdir()
                    .map_err(|e| {
                        Error::usage("cannot make a temporary directory for answers").because(e)
                    })?;
                let path = directory.path().join("answers.ledger");
                (path, None, Some(directory))
            }
        };
        Ok(Taken {
            path,
            lock,
            scratch,
        })
    }
}

/// A place that is the run's.
pub(super) struct Taken {
    pub(super) path: PathBuf,
    /// Of the run's own.
    pub(super) lock: Option<Lock>,
    /// What goes with the run.
    pub(super) scratch: Option<TempDir>,
}

impl Taken {
    /// It cannot be opened. Only the run's own can be started over from.
    pub(super) fn cannot_open(&self, error: &rusqlite::Error) -> Error {
        let cannot = sqlite::cannot_open(&self.path, error);
        if self.lock.is_some() && sqlite::is_damage(error) {
            return cannot.hint("move it and the files whose names start with its name elsewhere, or start over with `--fresh`; answers in it are paid for again");
        }
        cannot
    }

    pub(super) fn cannot_write(&self) -> Error {
        Error::usage(format!("cannot write the ledger `{}`", self.path.display()))
            .about(&self.path)
            .hint("name another place with `--ledger FILE`, or do without it by `--no-ledger`")
    }
}

/// Who we are, for whoever finds our lock.
fn ourselves() -> String {
    format!("process {}", std::process::id())
}

/// Fails when the ledger that there is, if any, is not of this kind. What a run removes at its end must not be another
/// one's to use, and what runs share must not be removed.
pub(super) fn refuse_other(found: Option<Kind>, kind: Kind, path: &Path) -> Result<()> {
    let path = path.display();
    match (found, kind) {
        (Some(Kind::Own), Kind::Shared) => Err(Error::usage(format!(
            "`{path}` is the own ledger of an unfinished run, which removes it at its end"
        ))
        .hint("finish that run first, or name another file with `--ledger`")),
        (Some(Kind::Shared), Kind::Own) => Err(Error::usage(format!(
            "`{path}` is a ledger that runs share, and this one would remove it at its end"
        ))
        .hint(format!(
            "use it with `--ledger {path}`, or name another output"
        ))),
        _ => Ok(()),
    }
}

/// There is no finished run whose failed rows could be asked again.
pub(super) fn nothing_to_retry(ledger: &Path, is_there: bool) -> Error {
    let shown = ledger.display();
    let error = if is_there {
        Error::usage(format!(
            "nothing to retry: `{shown}` knows of no run to this output with this service address and service id that left rows without a verdict"
        ))
    } else {
        Error::usage(format!("nothing to retry: `{shown}` does not exist"))
    };
    error.hint("leave out `--retry-failed`")
}

/// A ledger that was made for a run that has not begun. If it cannot, nothing of it stays: a file of its name would say
/// that there is a run to go on with.
pub(super) struct Unused(pub(super) Option<PathBuf>);

impl Unused {
    /// It stays.
    pub(super) fn stays(&mut self) {
        self.0 = None;
    }
}

impl Drop for Unused {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // What made it fail may keep it from being removed as well; it is empty.
            let _ = file::remove(path);
        }
    }
}
