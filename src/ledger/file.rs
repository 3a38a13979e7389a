//! The file of a ledger: its names, what may be in its place, and making it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::base::directory::directory_of;
use crate::base::error::{Error, Result};
use crate::base::own_file;

/// The ledger of a folder.
pub(crate) const NAME: &str = "rescore.ledger";
/// That of made-up answers.
const SANDBOX_NAME: &str = "rescore-sandbox.ledger";

/// The mode of files that only their owner may read.
pub(super) const PRIVATE: u32 = 0o600;

/// What SQLite puts behind the name of a database for the files beside it.
pub(crate) const SUFFIXES: &[&str] = &["-wal", "-shm", "-journal"];

/// What to do for a run where no ledger can be.
pub(super) const ELSEWHERE: &str =
    "name a file in another place with `--ledger FILE`, or keep no answers with `--no-ledger`";

/// A path with something behind its name.
pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// SQLite's log of a database.
pub(super) fn log_of(ledger: &Path) -> PathBuf {
    with_suffix(ledger, "-wal")
}

/// Bytes of a ledger and of the log beside it.
pub(super) fn bytes(path: &Path) -> u64 {
    let length = |path: &Path| path.metadata().map_or(0, |metadata| metadata.len());
    length(path) + length(&log_of(path))
}

/// The ledger of a folder, the one that has the output of a run.
#[must_use]
pub(crate) fn ledger_in(directory: &Path, sandbox: bool) -> PathBuf {
    let name = if sandbox { SANDBOX_NAME } else { NAME };
    if directory == Path::new(".") {
        return PathBuf::from(name);
    }
    directory.join(name)
}

/// Checks that whatever is at the path can be a ledger, and makes an empty file where there is nothing: its real path, and
/// whether it was made.
///
/// # Errors
/// Exit code 2: there is something else, or nothing can be made there.
pub(super) fn make(path: &Path) -> Result<(PathBuf, bool)> {
    let real = check(path)?;
    let is_new = real.symlink_metadata().is_err();
    own_file::open(&real, PRIVATE, false)
        .and_then(|file| match file.metadata()?.len() {
            // Somebody may have made it, for all to read.
            0 => own_file::set_mode(&file, PRIVATE),
            _ => Ok(()),
        })
        .map_err(|e| cannot_write(path, e))?;
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
        own_file::check(&file).map_err(|e| {
            let error = cannot_write(&with_suffix(path, suffix), e);
            // Two runs would use two logs, and pay twice.
            error.detail("a ledger has one name, and no link leads to it")
        })?;
    }
    Ok(real)
}

/// The error for a ledger that cannot be written, before anything was sent.
pub(super) fn cannot_write(path: &Path, error: io::Error) -> Error {
    let cannot = Error::usage(format!("cannot write the ledger `{}`", path.display()))
        .because(error)
        .about(path);
    let cannot = match own_file::not_writable(path) {
        Some(why) => cannot.detail(why),
        None => cannot,
    };
    own_file::cannot_make(path, cannot)
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
    Some(match kind {
        0x6969 => "NFS",
        0x517b | 0xff53_4d42 | 0xfe53_4d42 => "SMB",
        0x6573_5546 => "FUSE",
        0x0102_1997 => "9P",
        0x5346_414f => "AFS",
        0x00c3_6400 => "Ceph",
        0x0bd0_0bd0 => "Lustre",
        0x0116_1970 => "GFS2",
        0x7461_636f => "OCFS2",
        _ => return None,
    })
}

/// A file that was made for a run, and is removed again if the run does not start.
pub(super) struct NewFile(pub(super) Option<PathBuf>);

impl NewFile {
    /// The run has started.
    pub(super) fn keep(&mut self) {
        self.0 = None;
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        let Some(path) = &self.0 else {
            return;
        };
        // The cause of the failure may also keep it from being removed; it has no answers.
        for suffix in [""].iter().chain(SUFFIXES) {
            let _ = fs::remove_file(with_suffix(path, suffix));
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

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
