//! Space on a ledger's disk that is kept for the answers to calls in flight: when the disk is full, it is given back, and
//! they are stored in it.

use std::fs::File;
use std::io::{self, ErrorKind, Read as _};
use std::num::NonZeroUsize;
use std::path::Path;

use crate::base::directory::directory_of;

/// A page of the database, in bytes.
const PAGE: usize = 4_096;
/// Pages that answers take which come one at a time, each: one of its own, and one of those that every group changes.
const EACH: usize = 2;
/// Pages that are needed however few calls there are.
const ALWAYS: usize = 16;
/// With more, SQLite copies its log into the database and starts it again. Above a thousand calls, it may not be enough.
const MOST: usize = 1_000;

/// A file that only takes space. It has no name, so a kill leaves nothing of it.
pub(crate) struct SpaceReserve(File);

impl SpaceReserve {
    /// Takes the space beside a ledger; `None` where no such file can be made.
    ///
    /// # Errors
    /// There is not enough.
    pub(crate) fn beside(ledger: &Path, in_flight: NonZeroUsize) -> io::Result<Option<Self>> {
        match tempfile::tempfile_in(directory_of(ledger))
            .and_then(|file| Self::fill(file, space_for_answers(in_flight)))
        {
            Ok(reserve) => Ok(Some(reserve)),
            Err(error) if is_for_space(&error) => Err(error),
            Err(_) => Ok(None),
        }
    }

    fn fill(mut file: File, bytes: u64) -> io::Result<Self> {
        // Written, as ext2 and others have no `fallocate`; and not zeros, which take no space where a file system compresses.
        let noise = blake3::Hasher::new().finalize_xof();
        io::copy(&mut noise.take(bytes), &mut file)?;
        Ok(Self(file))
    }

    /// Gives the space back.
    pub(super) fn release(self) {
        // Some file systems free a removed file only after some time, but the end of a shortened file immediately. If this
        // fails, the next write does.
        let _ = self.0.set_len(0);
    }
}

/// Whether a file cannot be written for want of space.
fn is_for_space(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge
    )
}

/// How much space the answers to so many calls take at most, in bytes.
fn space_for_answers(in_flight: NonZeroUsize) -> u64 {
    let pages = { in_flight.get() }
        .saturating_mul(EACH)
        .saturating_add(ALWAYS)
        .min(MOST);
    (pages * PAGE) as u64
}
