//! Paths: where links lead, which paths are one file, and the name of a partial file.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::base::directory::directory_of;
use crate::base::file_id::FileId;

/// The suffix of a file's name until the file is complete.
pub(crate) const PARTIAL: &str = ".partial";

/// The name of a file until it is complete.
#[must_use]
pub(crate) fn partial_of(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(PARTIAL);
    name.into()
}

/// The path at the end of a chain of links, in a directory that exists, whether or not a file exists there.
pub(super) fn follow(path: &Path) -> io::Result<PathBuf> {
    let end = end_of_links(path)?;
    if fs::metadata(directory_of(&end))?.is_dir() {
        Ok(end)
    } else {
        Err(io::ErrorKind::NotADirectory.into())
    }
}

/// The path at the end of a chain of links, whatever is there.
pub(super) fn end_of_links(path: &Path) -> io::Result<PathBuf> {
    // The kernel's limit.
    const MOST_LINKS: usize = 40;
    let mut at = path.to_owned();
    for _ in 0..MOST_LINKS {
        let Ok(next) = fs::read_link(&at) else {
            return Ok(at);
        };
        at = at.parent().unwrap_or(Path::new("")).join(next);
    }
    Err(io::Error::other("too many links"))
}

/// Whether two paths lead to the same regular file, also through links, or will once it exists.
#[must_use]
pub(crate) fn is_same_file(a: &Path, b: &Path) -> bool {
    // Two names for `/dev/null` do no harm.
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
    // Equal names also lead to one file where their directory does not exist yet.
    a.components().eq(b.components())
        || same_inode(a, b)
        || place(a).is_some_and(|a| place(b) == Some(a))
}

fn same_inode(a: &Path, b: &Path) -> bool {
    match (fs::metadata(a), fs::metadata(b)) {
        (Ok(a), Ok(b)) => FileId::of(&a) == FileId::of(&b),
        _ => false,
    }
}
