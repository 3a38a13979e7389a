//! What a file says about itself in its first bytes, read without opening it as a database that somebody may be about to
//! remove.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use super::errors;
use crate::base::error::{Error, Result};
use crate::base::sqlite_file::MAGIC;
use crate::ledger::file::LedgerKind;

/// The schema's version. A ledger of another version is refused and never guessed at.
pub(crate) const VERSION: i32 = 2;

/// What a path leads to.
#[derive(Debug, PartialEq, Eq)]
enum Header {
    /// No file, or an empty one.
    Missing,
    /// A ledger that this program can use.
    Ledger(LedgerKind),
    /// A ledger of another version.
    OtherVersion(i32),
    /// A device, a pipe or a directory: nothing can be stored there.
    NotRegular,
    /// Anything else.
    Foreign,
}

/// The number in the file's head that marks it as a ledger: "rsco" and "rscs".
pub(crate) const fn application_id(kind: LedgerKind) -> i32 {
    match kind {
        LedgerKind::Own => 0x7273_636f,
        LedgerKind::Shared => 0x7273_6373,
    }
}

/// The kind of ledger that a number in the file's head stands for; `None` for any other database.
pub(crate) fn kind_of(id: i32) -> Option<LedgerKind> {
    let kinds = [LedgerKind::Own, LedgerKind::Shared];
    kinds.into_iter().find(|kind| application_id(*kind) == id)
}

/// Refuses a file that is not a ledger of this version, without changing it; otherwise says which kind of ledger is there,
/// if any. To be called before the first connection: it opens and closes the file, which on some systems would end
/// SQLite's locks.
///
/// # Errors
/// Exit code 2: it is not a ledger, is of another version, or cannot be read.
pub(crate) fn check(path: &Path) -> Result<Option<LedgerKind>> {
    match read(path).map_err(|e| errors::unreadable(path).because(e))? {
        Header::Missing => Ok(None),
        Header::Ledger(kind) => Ok(Some(kind)),
        Header::OtherVersion(version) => Err(Error::usage(format!(
            "`{}` is a ledger of version {version}, and this program knows version {VERSION}",
            path.display()
        ))
        .hint("use the rescore that wrote it, or name another file")),
        Header::NotRegular => Err(Error::usage(format!(
            "`{}` cannot be a ledger: it is not a regular file",
            path.display()
        ))
        .hint("name a file")),
        Header::Foreign => Err(errors::foreign(path)),
    }
}

/// Reads a file's first bytes: SQLite itself might change what it opens.
fn read(path: &Path) -> io::Result<Header> {
    // Where SQLite's head of a file has them, beside `MAGIC`.
    const LENGTH: u64 = 100;
    const USER_VERSION: usize = 60;
    const APPLICATION_ID: usize = 68;
    // Before it is opened: opening a pipe would block.
    if fs::metadata(path).is_ok_and(|there| !there.is_file()) {
        return Ok(Header::NotRegular);
    }
    let mut head = Vec::new();
    match File::open(path) {
        Ok(file) => file.take(LENGTH).read_to_end(&mut head)?,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Header::Missing),
        Err(e) => return Err(e),
    };
    let number = |at: usize| {
        let bytes = head.get(at..at + 4)?;
        Some(i32::from_be_bytes(bytes.try_into().ok()?))
    };
    let kind = number(APPLICATION_ID).and_then(kind_of);
    Ok(match (kind, number(USER_VERSION)) {
        _ if head.is_empty() => Header::Missing,
        (Some(kind), Some(VERSION)) if head.starts_with(MAGIC) => Header::Ledger(kind),
        (Some(_), Some(version)) if head.starts_with(MAGIC) => Header::OtherVersion(version),
        _ => Header::Foreign,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_header_tells_ledgers_other_versions_and_other_files_apart() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("x");
        assert_eq!(read(&path).unwrap(), Header::Missing);
        let mut head = [0; 100];
        head[..16].copy_from_slice(b"SQLite format 3\0");
        for kind in [LedgerKind::Own, LedgerKind::Shared] {
            head[68..72].copy_from_slice(&application_id(kind).to_be_bytes());
            let versions = [
                (VERSION - 1, Header::OtherVersion(VERSION - 1)),
                (VERSION, Header::Ledger(kind)),
                (VERSION + 1, Header::OtherVersion(VERSION + 1)),
            ];
            for (version, header) in versions {
                head[60..64].copy_from_slice(&version.to_be_bytes());
                fs::write(&path, head).unwrap();
                assert_eq!(read(&path).unwrap(), header);
            }
        }
        for foreign in [
            &b"id,name\n"[..],
            &[b"SQLite format 3\0", &[0; 84][..]].concat(),
        ] {
            fs::write(&path, foreign).unwrap();
            assert_eq!(read(&path).unwrap(), Header::Foreign);
        }
        fs::write(&path, "").unwrap();
        assert_eq!(read(&path).unwrap(), Header::Missing);
    }
}
