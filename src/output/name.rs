//! Giving a file its final name. Only a file that was there when the run started may be replaced.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use crate::base::file_id::FileId;
use crate::base::own_file;

/// A file that was at an output's path when the run started, and that the run may replace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OldFile {
    identity: FileId,
    /// Who could read it.
    pub(super) mode: u32,
}

impl OldFile {
    /// The current file at the path.
    pub(super) fn at(path: &Path) -> Option<Self> {
        let metadata = fs::symlink_metadata(path).ok()?;
        Some(Self {
            identity: FileId::of(&metadata),
            mode: own_file::mode_of(&metadata),
        })
    }

    fn still_at(old: Option<Self>, path: &Path) -> bool {
        old.is_some_and(|old| Self::at(path).is_some_and(|now| now.identity == old.identity))
    }
}

/// Fails if the path no longer leads to this open file, because somebody moved it away and put
/// another one there.
pub(super) fn still_ours(file: &File, path: &Path) -> io::Result<()> {
    if FileId::of(&file.metadata()?) == FileId::of(&fs::symlink_metadata(path)?) {
        Ok(())
    } else {
        Err(io::Error::other("another file has taken its place"))
    }
}

/// Gives a complete file its final name. A file that was not there when the run started is not
/// replaced, except if it takes the place of `old` in the short moment between the check and the
/// renaming.
///
/// # Errors
/// `AlreadyExists`: such a file is there.
pub(super) fn give(partial: &Path, target: &Path, old: Option<OldFile>) -> io::Result<()> {
    if OldFile::still_at(old, target) {
        return fs::rename(partial, target);
    }
    match without_replacing(partial, target) {
        Some(given) => given,
        None => by_link(partial, target),
    }
}

/// Removes the file that was there when the run started, if it is still there.
pub(super) fn remove(target: &Path, old: Option<OldFile>) -> io::Result<()> {
    if !OldFile::still_at(old, target) {
        return Ok(());
    }
    match fs::remove_file(target) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

/// Renames in one step that cannot replace anything; `None` if the kernel or the file system does
/// not support it.
#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
fn without_replacing(partial: &Path, target: &Path) -> Option<io::Result<()>> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use rustix::io::Errno;
    match renameat_with(CWD, partial, CWD, target, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => None,
        given => Some(given.map_err(Into::into)),
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
fn without_replacing(_: &Path, _: &Path) -> Option<io::Result<()>> {
    None
}

/// Renames in two steps: adds a second name, which cannot replace anything either, and then removes
/// the first. Without hard links, a check has to do.
fn by_link(partial: &Path, target: &Path) -> io::Result<()> {
    match fs::hard_link(partial, target) {
        Ok(()) => fs::remove_file(partial),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Err(e),
        Err(_) if fs::symlink_metadata(target).is_ok() => Err(io::ErrorKind::AlreadyExists.into()),
        Err(_) => fs::rename(partial, target),
    }
}

/// Makes the names in a directory durable. `false` if the directory may not be read (such as one
/// for uploads only) or cannot be synced at all: its files are complete nevertheless.
///
/// # Errors
/// A disk error.
pub(super) fn sync(directory: &Path) -> io::Result<bool> {
    synced(fs::File::open(directory).and_then(|directory| directory.sync_all()))
}

fn synced(done: io::Result<()>) -> io::Result<bool> {
    use io::ErrorKind::{InvalidInput, PermissionDenied, Unsupported};
    match done {
        Err(e) if matches!(e.kind(), PermissionDenied | InvalidInput | Unsupported) => Ok(false),
        done => done.map(|()| true),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_given_and_only_what_was_there_at_the_start_is_replaced() {
        let place = tempfile::tempdir().unwrap();
        let (partial, target) = (place.path().join("x.partial"), place.path().join("x"));
        let read = |path: &Path| fs::read_to_string(path).unwrap();
        let start = || fs::write(&partial, "new").unwrap();
        let nothing = |partial: &Path, target: &Path| give(partial, target, None);
        for given in [nothing, by_link] {
            start();
            given(&partial, &target).unwrap();
            assert_eq!((read(&target).as_str(), partial.exists()), ("new", false));
            start();
            fs::write(&target, "somebody's").unwrap();
            let error = given(&partial, &target).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
            let there = (read(&target), read(&partial));
            assert_eq!(there, ("somebody's".to_owned(), "new".to_owned()));
            fs::remove_file(&target).unwrap();
        }
        fs::write(&target, "old").unwrap();
        let old = OldFile::at(&target);
        give(&partial, &target, old).unwrap();
        assert_eq!(read(&target), "new");
        // Another file under the name of the old one.
        start();
        assert!(give(&partial, &target, old).is_err());
        remove(&target, old).unwrap();
        remove(&target, None).unwrap();
        assert!(target.exists());
        remove(&target, OldFile::at(&target)).unwrap();
        give(&partial, &target, old).unwrap();
    }

    #[test]
    fn a_directory_that_cannot_be_synced_is_not_a_disk_that_fails() {
        let place = tempfile::tempdir().unwrap();
        assert!(sync(place.path()).unwrap());
        let failed = |kind: io::ErrorKind| synced(Err(kind.into()));
        assert!(!failed(io::ErrorKind::PermissionDenied).unwrap());
        assert!(!failed(io::ErrorKind::InvalidInput).unwrap());
        assert!(failed(io::ErrorKind::StorageFull).is_err());
        assert!(sync(&place.path().join("nowhere")).is_err());
    }
}
