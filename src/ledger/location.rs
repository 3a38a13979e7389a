//! Where a ledger is, and what a run must claim before it may use the files there.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::db::errors;
use super::file::{self, LedgerKind, ledger_of};
use super::lock::OutputLock;
use crate::base::error::{Error, Result};
use crate::base::own_file;

/// Where a ledger is, and whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LedgerLocation {
    /// The run's own, beside the output of this path.
    Beside(PathBuf),
    /// This file, which other runs use as well, also at the same time.
    Shared(PathBuf),
    /// In a temporary directory, for as long as the run lasts: only so that equal requests are sent once.
    Scratch,
}

impl LedgerLocation {
    /// The ledger's path; `None` where it is not known before the ledger is created.
    #[must_use]
    pub fn path(&self) -> Option<PathBuf> {
        match self {
            Self::Beside(output) => Some(ledger_of(output)),
            Self::Shared(path) => Some(path.clone()),
            Self::Scratch => None,
        }
    }

    /// Where the ledger is, for people; `None` where it is not known before the ledger is created.
    #[must_use]
    pub(crate) fn shown(&self) -> Option<String> {
        self.path().map(|path| path.to_string_lossy().into_owned())
    }

    /// Claims the location for a run. For a ledger of its own, that may hold the lock of the output already.
    pub(super) fn claim(self, lock: Option<OutputLock>) -> Result<ClaimedLocation> {
        let (path, lock, scratch) = match &self {
            Self::Beside(output) => {
                let lock = lock.map_or_else(|| OutputLock::take(output), Ok)?;
                let path = ledger_of(output);
                file::check_own(&path)?;
                (path, Some(lock), None)
            }
            Self::Shared(path) => (path.clone(), None, None),
            Self::Scratch => {
                let directory = tempfile::Builder::new()
                    .prefix("rescore-")
                    .tempdir()
                    .map_err(|e| {
                        Error::usage("cannot create a temporary directory for answers").because(e)
                    })?;
                let path = directory.path().join("answers.ledger");
                (path, None, Some(directory))
            }
        };
        Ok(ClaimedLocation {
            location: self,
            path,
            scratch,
            _lock: lock,
        })
    }
}

/// A location that a run may use.
pub(super) struct ClaimedLocation {
    location: LedgerLocation,
    path: PathBuf,
    /// The directory that is removed with the run.
    scratch: Option<TempDir>,
    // Last: the lock is released after everything else.
    _lock: Option<OutputLock>,
}

impl ClaimedLocation {
    /// The ledger's path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The kind of ledger that belongs here.
    pub(super) const fn kind(&self) -> LedgerKind {
        match self.location {
            LedgerLocation::Beside(_) | LedgerLocation::Scratch => LedgerKind::Own,
            LedgerLocation::Shared(_) => LedgerKind::Shared,
        }
    }

    /// Whether the ledger is the run's own and stays until every row has a verdict.
    pub(super) const fn is_own(&self) -> bool {
        matches!(self.location, LedgerLocation::Beside(_))
    }

    /// Whether other runs use the ledger as well.
    pub(super) const fn is_shared(&self) -> bool {
        matches!(self.location, LedgerLocation::Shared(_))
    }

    /// Whether the ledger is removed with the run.
    pub(super) const fn is_scratch(&self) -> bool {
        matches!(self.location, LedgerLocation::Scratch)
    }

    /// Removes the temporary directory, if there is one, while everybody who needs the ledger has it open: without a name
    /// it disappears with the process, however that ends. Whether there was one.
    pub(super) fn remove_scratch(&mut self) -> bool {
        self.scratch.take().is_some()
    }

    /// Fails if there is a ledger of the other kind. What a run removes at its end must not be in use
    /// by others, and what runs share must not be removed.
    pub(super) fn refuse_other_kind(&self, found: Option<LedgerKind>) -> Result<()> {
        let path = self.path.display();
        match (found, self.kind()) {
            (Some(LedgerKind::Own), LedgerKind::Shared) => Err(Error::usage(format!(
                "`{path}` is the ledger of the run to one output, which removes it at its end"
            ))
            .hint("name another file with `--ledger`")),
            (Some(LedgerKind::Shared), LedgerKind::Own) => Err(Error::usage(format!(
                "`{path}` is a shared ledger, and this run would remove it at its end"
            ))
            .hint(format!(
                "use it with `--ledger {path}`, or name another output"
            ))),
            _ => Ok(()),
        }
    }

    /// The error for a ledger that cannot be opened. Only the run's own can be replaced by starting over.
    pub(super) fn cannot_open(&self, error: &rusqlite::Error) -> Error {
        let cannot = errors::cannot_open(&self.path, error);
        if self.is_own() && errors::is_damage(error) {
            return cannot.hint("move it and the files whose names start with its name elsewhere, or start over with `--fresh`; answers in it are paid for again");
        }
        cannot
    }

    /// The error for a ledger that cannot be written.
    pub(super) fn cannot_write(&self) -> Error {
        let cannot = Error::usage(format!("cannot write the ledger `{}`", self.path.display()));
        own_file::not_writable(&self.path)
            .into_iter()
            .fold(cannot, Error::detail)
            .about(&self.path)
            .hint("choose another place with `--ledger FILE`, or run without a ledger with `--no-ledger`")
    }

    /// The error for a ledger without a finished run whose failed rows could be asked about again.
    pub(super) fn nothing_to_retry(&self, exists: bool) -> Error {
        let path = self.path.display();
        let error = if exists {
            Error::usage(format!(
                "nothing to retry: `{path}` has no finished run with failed rows for this output, service address and service ID"
            ))
        } else {
            Error::usage(format!("nothing to retry: `{path}` does not exist"))
        };
        if self.is_own() {
            error.hint("leave out `--retry-failed`; if every row of the output has its verdict, `--overwrite` pays for all of them again")
        } else {
            error.hint("leave out `--retry-failed`")
        }
    }
}

/// A ledger that was created for a run that has not started. If the run does not start, the ledger is removed: a file of
/// its name would mean that there is a run to continue.
pub(super) struct NewFile(Option<PathBuf>);

impl NewFile {
    /// Guards this file.
    pub(super) const fn at(path: PathBuf) -> Self {
        Self(Some(path))
    }

    /// Guards nothing, as the file was there before.
    pub(super) const fn none() -> Self {
        Self(None)
    }

    /// The file stays.
    pub(super) fn keep(&mut self) {
        self.0 = None;
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // The cause of the failure may also keep it from being removed; it has no answers.
            let _ = file::remove(path);
        }
    }
}
