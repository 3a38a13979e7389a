//! The lock by which one run alone writes an output, and uses the ledger of its own beside it. The kernel holds it: a
//! process that dies leaves none behind.
//!
//! The lock is on a file of its own, as on some systems a lock on the database would shut out SQLite. The file names its
//! holder.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::file::{PRIVATE, cannot_write, ledger_of, lock_of};
use super::holder::{is_holder, this_process};
use crate::base::error::{Error, Result};
use crate::base::file_id::FileId;
use crate::base::own_file::{self, NotOurs};

/// More bytes than we ever write about a lock's holder.
const HOLDER: u64 = 200;

/// The lock of an output, whichever ledger its run uses. It is released with its last copy.
#[derive(Debug, Clone)]
pub(crate) struct OutputLock(#[expect(dead_code, reason = "held until it is dropped")] Arc<Lock>);

impl OutputLock {
    /// Takes the lock.
    ///
    /// # Errors
    /// Exit code 75: another run holds it. Exit code 2: its file cannot be created.
    pub(crate) fn take(output: &Path) -> Result<Self> {
        let lock = Lock::take(&ledger_of(output), output, &this_process())?;
        Ok(Self(Arc::new(lock)))
    }
}

/// A lock that is held.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
    path: PathBuf,
}

impl Lock {
    /// Takes the lock for a run, and writes into the file who holds it: `holder` is for people to read.
    ///
    /// # Errors
    /// Exit code 75: another run holds it. Exit code 2: the file cannot be created.
    fn take(ledger: &Path, output: &Path, holder: &str) -> Result<Self> {
        Self::try_take(ledger, holder)?.map_err(|other| {
            Error::busy(format!(
                "another run ({other}) is writing `{}`",
                output.display()
            ))
            .hint("run the same command again when it has ended")
        })
    }

    /// Takes the lock, or returns who holds it.
    ///
    /// # Errors
    /// Exit code 2: the file cannot be created.
    pub(super) fn try_take(ledger: &Path, holder: &str) -> Result<Result<Self, String>> {
        let path = lock_of(ledger);
        let cannot = |e| cannot_write(&path, e);
        loop {
            let file = own_file::open(&path, PRIVATE, false).map_err(cannot)?;
            let locked = file.try_lock();
            let mut other = String::new();
            // A run that has just taken the lock may not have written its name yet.
            let read = (&file).take(HOLDER).read_to_string(&mut other);
            let other = other.trim();
            if let Err(TryLockError::WouldBlock) = locked {
                let other = Some(other).filter(|other| !other.is_empty());
                return Ok(Err(other.unwrap_or("just started").to_owned()));
            }
            if read.is_err() || !(other.is_empty() || is_holder(other)) {
                return Err(cannot(io::Error::other(NotOurs::Content)));
            }
            // The run that held it may have removed the file between our opening and locking it.
            let locked = file.metadata().map_err(cannot)?;
            if FileId::at(&path) != Some(FileId::of(&locked)) {
                continue;
            }
            // From here on the file is removed with us, also when nothing can be written to it.
            let mut lock = Self { file, path };
            lock.write(holder)
                .map_err(|e| cannot_write(&lock.path, e))?;
            return Ok(Ok(lock));
        }
    }

    fn write(&mut self, holder: &str) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.rewind()?;
        self.file.write_all(holder.as_bytes())
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // The lock itself ends when the file is closed, after this. A name that stays behind is harmless: it is the
        // kernel's lock that counts.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_names_its_holder_and_ends_with_it() {
        let place = tempfile::tempdir().unwrap();
        let (ledger, output) = (place.path().join("o.ledger"), place.path().join("o"));
        let lock = Lock::take(&ledger, &output, "process 1").unwrap();
        let refused = Lock::take(&ledger, &output, "process 2").unwrap_err();
        assert_eq!(refused.exit().code(), 75);
        assert!(
            refused.report().contains("process 1"),
            "{}",
            refused.report()
        );
        drop(lock);
        drop(Lock::take(&ledger, &output, "process 2").unwrap());
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
    }
}
