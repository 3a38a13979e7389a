//! The file of a ledger: its names, what may be in its place, making it, and space on its disk that is kept for the answers to calls
//! in flight: when the disk is full, it is given back, and they are stored in it.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use super::fault::{DbFault, DbFaultKind, HINT_SHARE};
use crate::base::error::{Error, Result};
use crate::base::numbers::grouped;
use crate::base::private_file::{self, directory_of, with_suffix};
use crate::base::text::display;

/// The mode of files that only their owner may read.
pub(super) const PRIVATE: u32 = 0o600;

/// What SQLite puts behind the name of a database for the files beside it.
pub(crate) const SUFFIXES: &[&str] = &["-wal", "-shm", "-journal"];

/// What to do where no ledger can be.
pub(super) const HINT_OTHER_PATH: &str =
    "name a file on a local disk with `--ledger FILE` or `RESCORE_LEDGER`";

/// SQLite's log of a database.
pub(super) fn log_of(ledger: &Path) -> PathBuf {
    with_suffix(ledger, "-wal")
}

/// Checks that whatever is at the path can be a ledger, and makes an empty file where there is nothing: its real path, and
/// whether it was made.
///
/// # Errors
/// Exit code 2: there is something else, or nothing can be made there.
pub(super) fn make(path: &Path) -> Result<(PathBuf, bool)> {
    let real = check(path)?;
    let is_new = real.symlink_metadata().is_err();
    private_file::append(&real, PRIVATE, false).map_err(|e| cannot_write(path, e))?;
    Ok((real, is_new))
}

/// Checks that whatever is at the path can be a ledger, also if there is nothing: its real path.
///
/// # Errors
/// Exit code 2: there is something else, or its folder is missing or on another machine.
pub(super) fn check(path: &Path) -> Result<PathBuf> {
    let directory = directory_of(path);
    let real = fs::canonicalize(directory).map_err(|e| cannot_write(path, e))?;
    if let Some(name) = network_of(&real) {
        let shown = path.display();
        return Err(Error::usage(format!(
            "the ledger `{shown}` would be on a network share ({name})"
        ))
        .hint(HINT_OTHER_PATH)
        .detail("locks cannot be trusted there, so two runs could pay for the same answer")
        .detail("several machines can share one on a server: `postgresql://USER@HOST/DATABASE`"));
    }
    let Some(name) = path.file_name() else {
        return Err(cannot_write(
            path,
            io::Error::other("it is not the name of a file"),
        ));
    };
    let real = real.join(name);
    for suffix in [""].iter().chain(SUFFIXES) {
        let file = with_suffix(&real, suffix);
        private_file::check(&file).map_err(|e| {
            let error = cannot_write(&with_suffix(path, suffix), e);
            // Two runs would use two logs, and pay twice.
            error.detail("a ledger has one name, and no link leads to it")
        })?;
    }
    // An empty file that somebody has made for a group is a new ledger.
    let not_trusted = real
        .metadata()
        .ok()
        .as_ref()
        .and_then(private_file::not_trusted);
    if let Some(why) = not_trusted {
        let shown = path.display();
        let error = Error::usage(format!("the ledger `{shown}` is not believed: {why}"));
        return Err(error.hint(format!(
            "if you trust the answers in it, give it to a group: `chmod 660 {shown}` and `chgrp GROUP {shown}`"
        )));
    }
    Ok(real)
}

/// The error for a ledger that cannot be written, before anything was sent.
pub(super) fn cannot_write(path: &Path, error: io::Error) -> Error {
    let cannot = Error::usage(format!("cannot write the ledger `{}`", path.display()))
        .because(error)
        .about(path);
    let cannot = match private_file::not_writable(path) {
        Some(why) if path.exists() => cannot.detail(why).hint(HINT_SHARE),
        Some(why) => cannot.detail(why),
        None => cannot,
    };
    private_file::cannot_make(path, cannot)
}

/// The kind of network share that a folder is on, if it is on one.
#[cfg(target_os = "linux")]
fn network_of(directory: &Path) -> Option<&'static str> {
    let kind = rustix::fs::statfs(directory).ok()?.f_type;
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::unnecessary_cast,
        reason = "its type differs between systems, and the number has 32 bits"
    )]
    network(kind as u32)
}

/// Elsewhere it cannot be asked for; docs/operations.md says so.
#[cfg(not(target_os = "linux"))]
const fn network_of(_: &Path) -> Option<&'static str> {
    None
}

/// The name of a file system that other machines may write to, by its number in Linux's `magic.h`.
#[cfg(target_os = "linux")]
const fn network(kind: u32) -> Option<&'static str> {
    match kind {
        0x6969 => Some("NFS"),
        0x517b | 0xff53_4d42 | 0xfe53_4d42 => Some("SMB"),
        0x6573_5546 => Some("FUSE"),
        0x0102_1997 => Some("9P"),
        0x5346_414f => Some("AFS"),
        0x00c3_6400 => Some("Ceph"),
        0x0bd0_0bd0 => Some("Lustre"),
        _ => None,
    }
}

/// Checks that so many bytes can be written beside a ledger.
///
/// # Errors
/// They cannot.
pub(super) fn check_space(ledger: &Path, needed: u64) -> std::result::Result<(), DbFault> {
    let disk = rustix::fs::statvfs(directory_of(ledger)).ok();
    let free = disk.map_or(u64::MAX, |disk| disk.f_bavail.saturating_mul(disk.f_frsize));
    if free >= needed {
        return Ok(());
    }
    let (needed, free) = (grouped(needed.into()), grouped(free.into()));
    let place = display(directory_of(ledger));
    let words = format!(
        "no space left on device: this takes up to {needed} bytes in `{place}`, where {free} are free"
    );
    Err(DbFault::new(DbFaultKind::NoSpace, words))
}

/// A page of the database, in bytes. Each group of answers rewrites half a dozen pages for a few bytes in each: with pages of
/// 4 KiB it writes 1.7 times as much.
pub(super) const PAGE: usize = 2_048;
/// Pages that answers take which come one at a time, each: one or two of its own, and some of those that every group changes.
const PAGES_PER_CALL: usize = 4;
/// Pages that are needed however few calls there are.
const RESERVED_PAGES: usize = 32;
/// With more pages in its log, SQLite copies them into the database and starts the log again. Above a thousand calls, so much space
/// may not be enough.
pub(super) const LOG_PAGES: usize = 2_000;

/// A file that only takes space. It has no name, so a kill leaves nothing of it.
pub(super) struct SpaceReserve(File);

impl SpaceReserve {
    /// Takes the space beside a ledger; `None` where no such file can be made.
    ///
    /// # Errors
    /// There is not enough.
    pub(super) fn beside(
        ledger: &Path,
        in_flight: NonZeroUsize,
    ) -> std::result::Result<Option<Self>, DbFault> {
        let needed = space_for_answers(in_flight);
        let filled =
            tempfile::tempfile_in(directory_of(ledger)).and_then(|file| Self::fill(file, needed));
        match filled.map_err(|error| (error.kind(), error)) {
            Ok(reserve) => Ok(Some(reserve)),
            Err((ErrorKind::StorageFull | ErrorKind::QuotaExceeded, _)) => {
                Err({ check_space(ledger, needed).err() }.unwrap_or_else(DbFault::no_space))
            }
            Err((ErrorKind::FileTooLarge, error)) => {
                Err(DbFault::new(DbFaultKind::TooLarge, error.to_string()))
            }
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

/// How much space the answers to this number of calls take at most, in bytes.
fn space_for_answers(in_flight: NonZeroUsize) -> u64 {
    let pages = { in_flight.get() }
        .saturating_mul(PAGES_PER_CALL)
        .saturating_add(RESERVED_PAGES)
        .min(LOG_PAGES);
    (pages * PAGE) as u64
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_on_a_full_disk_is_named_with_its_place() {
        let place = tempfile::tempdir().unwrap();
        let ledger = place.path().join("x.ledger");
        assert!(check_space(&ledger, 1).is_ok());
        let words = check_space(&ledger, 1 << 60).unwrap_err().words;
        assert!(words.contains("1,152,921,504,606,846,976 bytes"), "{words}");
        assert!(
            words.contains(&format!("in `{}`", place.path().display())),
            "{words}"
        );
        assert!(words.ends_with(" are free"), "{words}");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn network_shares_are_recognised_and_local_disks_are_not() {
        for (kind, expected) in [
            (0x6969, Some("NFS")),
            (0xfe53_4d42, Some("SMB")),
            (0x6573_5546, Some("FUSE")),
            // ext4, XFS, Btrfs, tmpfs, overlay and ZFS.
            (0xef53, None),
            (0x5846_5342, None),
            (0x9123_683e, None),
            (0x0102_1994, None),
            (0x794c_7630, None),
            (0x2fc1_2fc1, None),
        ] {
            assert_eq!(network(kind), expected, "{kind:x}");
        }
    }

    #[test]
    fn a_ledger_has_one_name_and_no_link_leads_to_it() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        let (real, is_new) = make(&at("a.ledger")).unwrap();
        assert!(is_new && real.exists());
        assert!(!make(&at("a.ledger")).unwrap().1);
        std::os::unix::fs::symlink(at("a.ledger"), at("link")).unwrap();
        std::os::unix::fs::symlink(at("nowhere"), at("dangling")).unwrap();
        std::os::unix::fs::symlink(at("a.ledger"), at("b.ledger-wal")).unwrap();
        for name in ["link", "dangling", "b.ledger", "."] {
            let error = make(&at(name)).unwrap_err();
            assert_eq!(error.exit().code(), 2, "{name}");
        }
        assert!(!at("nowhere").exists());
        fs::hard_link(at("a.ledger"), at("second")).unwrap();
        for name in ["a.ledger", "second"] {
            assert!(make(&at(name)).unwrap_err().report().contains("hard link"));
        }
        let missing = make(&at("missing/a.ledger")).unwrap_err();
        assert!(missing.report().contains("create the directory"));
    }
}
