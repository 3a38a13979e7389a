//! Paths: where links lead, which paths are one file, and the name of a partial file.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::name::FileIdentity;

/// What stands behind a file's name until it is whole.
pub(crate) const PARTIAL: &str = ".partial";

/// The name that a file has until it is whole.
#[must_use]
pub(crate) fn partial_of(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(PARTIAL);
    name.into()
}

/// The path that a chain of links ends at, whether or not there is a file yet.
pub(super) fn follow(path: &Path) -> io::Result<PathBuf> {
    // The kernel follows as many.
    const MOST_LINKS: usize = 40;
    let mut at = path.to_owned();
    for _ in 0..MOST_LINKS {
        let Ok(next) = fs::read_link(&at) else {
            if fs::metadata(directory_of(&at))?.is_dir() {
                return Ok(at);
            }
            return Err(io::ErrorKind::NotADirectory.into());
        };
        at = at.parent().unwrap_or(Path::new("")).join(next);
    }
    Err(io::Error::other("too many links"))
}

pub(super) fn directory_of(path: &Path) -> &Path {
    path.parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

/// Whether two paths are one regular file, also through links, or will be once it exists.
#[must_use]
pub(crate) fn is_same_file(a: &Path, b: &Path) -> bool {
    // Nobody is harmed by two names for `/dev/null`.
    let special = |path: &Path| fs::metadata(path).is_ok_and(|metadata| !metadata.is_file());
    if special(a) || special(b) {
        return false;
    }
    let place = |path: &Path| {
        let path = follow(path).ok()?;
        Some((
            fs::canonicalize(directory_of(&path)).ok()?,
            path.file_name()?.to_owned(),
        ))
    };
    same_inode(a, b) || place(a).is_some_and(|a| place(b) == Some(a))
}

fn same_inode(a: &Path, b: &Path) -> bool {
    match (fs::metadata(a), fs::metadata(b)) {
        (Ok(a), Ok(b)) => cfg!(unix) && FileIdentity::of(&a) == FileIdentity::of(&b),
        _ => false,
    }
}
