//! The lock by which the other processes of a machine see immediately that a worker is gone: the kernel releases it with
//! the process, however that ends.
//!
//! It is on a file beside the ledger, `LEDGER-worker-NUMBER`. A worker that finds it free removes it. This file must not know
//! what a worker has claimed.

use std::collections::hash_map::RandomState;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::hash::BuildHasher;
use std::io;
use std::path::{Path, PathBuf};

use super::file::{PRIVATE, with_suffix};
use crate::base::file_id::FileId;
use crate::base::own_file;

/// What the names of the locks have after the ledger's.
const WORKER: &str = "-worker-";

/// Names a worker among those that use a ledger: 31 bits. None is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct WorkerId(pub(super) u32);

impl WorkerId {
    /// One that hardly any other worker has.
    fn random() -> Self {
        let bytes = RandomState::new().hash_one(()).to_le_bytes();
        let [a, b, c, d, ..] = bytes;
        Self((u32::from_le_bytes([a, b, c, d]) >> 1).max(1))
    }
}

/// The lock of a worker, held by this process. Its file stays when it is released, unless it is removed: it shows others
/// that the worker is gone for as long as anything of that worker is in the ledger.
#[derive(Debug)]
pub(super) struct WorkerLock {
    #[expect(dead_code, reason = "held until it is dropped")]
    file: File,
    path: PathBuf,
}

impl WorkerLock {
    /// Makes a worker, and holds its lock.
    pub(super) fn new(ledger: &Path) -> io::Result<(WorkerId, Self)> {
        loop {
            let id = WorkerId::random();
            let path = path_of(ledger, id);
            let file = match own_file::open(&path, PRIVATE, true) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => continue,
                file => file?,
            };
            // Another process may have found it free before it was locked.
            if let Some(lock) = Self::of(file, path)? {
                return Ok((id, lock));
            }
        }
    }

    /// Takes over the lock of a worker that is gone; `None` if it is not, or if that cannot be told.
    pub(super) fn of_dead(ledger: &Path, id: WorkerId) -> Option<Self> {
        let path = path_of(ledger, id);
        own_file::check(&path).ok()?;
        let file = OpenOptions::new().read(true).write(true).open(&path).ok()?;
        Self::of(file, path).ok()?
    }

    /// Removes the file, when nothing of the worker is in the ledger any more.
    pub(super) fn remove(self) {
        // If this fails, the next worker removes it.
        let _ = fs::remove_file(&self.path);
    }

    /// Locks the file, if nobody else has locked or removed it.
    fn of(file: File, path: PathBuf) -> io::Result<Option<Self>> {
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            // A file system without locks.
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let is_there = FileId::at(&path) == Some(FileId::of(&file.metadata()?));
        Ok(is_there.then_some(Self { file, path }))
    }
}

/// The workers of a ledger whose locks are there, held or not.
pub(super) fn all(ledger: &Path) -> io::Result<Vec<WorkerId>> {
    let (Some(directory), Some(name)) = (ledger.parent(), ledger.file_name()) else {
        return Ok(Vec::new());
    };
    let prefix = [name.as_encoded_bytes(), WORKER.as_bytes()].concat();
    let mut workers = Vec::new();
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        let number = name.as_encoded_bytes().strip_prefix(prefix.as_slice());
        let number = number.and_then(|number| str::from_utf8(number).ok()?.parse().ok());
        workers.extend(number.map(WorkerId));
    }
    Ok(workers)
}

/// The workers of a ledger that are gone, with their locks.
pub(super) fn all_dead(ledger: &Path) -> io::Result<Vec<(WorkerId, WorkerLock)>> {
    let all = all(ledger)?.into_iter();
    Ok(all
        .filter_map(|worker| Some((worker, WorkerLock::of_dead(ledger, worker)?)))
        .collect())
}

fn path_of(ledger: &Path, WorkerId(number): WorkerId) -> PathBuf {
    with_suffix(ledger, &format!("{WORKER}{number}"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_system_without_locks_is_an_error_and_not_a_lock_that_another_process_has() {
        use std::os::unix::fs::OpenOptionsExt as _;

        /// `O_PATH`: what is opened so cannot be locked.
        const NAME_ONLY: i32 = 0o10_000_000;
        let place = tempfile::NamedTempFile::new().unwrap();
        let mut options = OpenOptions::new();
        let file = options.read(true).custom_flags(NAME_ONLY);
        let file = file.open(place.path()).unwrap();
        assert!(WorkerLock::of(file, place.path().to_owned()).is_err());
    }

    #[test]
    fn a_lock_is_taken_over_only_when_its_holder_is_gone() {
        let place = tempfile::tempdir().unwrap();
        let ledger = place.path().join("answers.ledger");
        let (one, lock) = WorkerLock::new(&ledger).unwrap();
        let (two, other) = WorkerLock::new(&ledger).unwrap();
        assert_eq!(all(&ledger).unwrap().len(), 2);
        assert!(WorkerLock::of_dead(&ledger, one).is_none());
        drop(lock);
        let dead = WorkerLock::of_dead(&ledger, one).unwrap();
        assert!(WorkerLock::of_dead(&ledger, one).is_none(), "taken over");
        dead.remove();
        assert_eq!(all(&ledger).unwrap(), [two]);
        assert!(WorkerLock::of_dead(&ledger, one).is_none(), "not there");
        other.remove();
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
    }
}
