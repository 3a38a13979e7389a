//! The ledger of a user: the one file that all commands use where none is named, from any folder, so that nobody pays again
//! because an output has another path. It must not know how a ledger is named, nor what is in it.

use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use super::settings::LedgerLocation;
use crate::base::error::{Error, Result};
use crate::base::private_file::directory_of;
use crate::base::text::display;

/// The name of a user's ledger.
const NAME: &str = "rescore.ledger";
/// Beside it, the ledger of made-up answers.
const SANDBOX_NAME: &str = "sandbox.ledger";
/// What names another ledger.
const HINT_NAME_LEDGER: &str = "name a ledger with `--ledger FILE` or `RESCORE_LEDGER`";
/// What only a container has: the marks of Docker and of Podman.
const CONTAINER_MARKS: [&str; 2] = ["/.dockerenv", "/run/.containerenv"];

/// The ledger of this user.
///
/// # Errors
/// Exit code 2: there is no place for it, the place is lost with this container, or somebody else has put a file there.
pub(crate) fn default_file(sandbox: bool) -> Result<PathBuf> {
    let directory = directory(|name| std::env::var_os(name)).ok_or_else(|| {
        Error::usage("there is no place for your ledger: the variable HOME names no directory")
            .hint(HINT_NAME_LEDGER)
    })?;
    // Nobody pays for made-up answers twice.
    if sandbox {
        return Ok(directory.join(SANDBOX_NAME));
    }
    let file = directory.join(NAME);
    if is_container() && is_lost_with_container(&directory) {
        let error = format!(
            "your ledger `{}` would be lost with this container",
            display(&file)
        );
        return Err(
            Error::usage(error).hint("mount a volume, and name a file on it with `RESCORE_LEDGER`")
        );
    }
    let owner = fs::symlink_metadata(&file).map(|there| there.uid());
    if owner.is_ok_and(|owner| owner != rustix::process::geteuid().as_raw()) {
        let error = format!("your ledger `{}` belongs to another user", display(&file));
        return Err(Error::usage(error)
            .detail("answers that somebody else has put there are not believed")
            .hint(HINT_NAME_LEDGER));
    }
    Ok(file)
}

/// The ledger of made-up answers for those whose ledger is named in a variable or the settings file; `None` is the user's, where
/// that one is on a server.
pub(crate) fn sandbox_beside(named: &Path) -> Option<LedgerLocation> {
    let named = LedgerLocation::named(named).ok()?;
    let file = named.file()?.with_file_name(SANDBOX_NAME);
    Some(LedgerLocation::File(file))
}

/// Makes the directory of a user's ledger, which only the user can look into.
///
/// # Errors
/// Exit code 2: it cannot be made.
pub(crate) fn make_directory(file: &Path) -> Result<()> {
    let directory = directory_of(file);
    let made = DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory);
    made.map_err(|error| {
        let directory = display(directory);
        Error::usage(format!(
            "cannot make the directory `{directory}` for your ledger"
        ))
        .because(error)
        .hint(HINT_NAME_LEDGER)
    })
}

/// Where a user's ledger is, by these variables: a service of systemd has a directory of its own.
fn directory(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |path: PathBuf| path.is_absolute().then_some(path);
    let named = |name| absolute(variable(name)?.into());
    // systemd separates several directories by colons.
    let of_service = variable("STATE_DIRECTORY");
    let of_service = of_service.and_then(|all| std::env::split_paths(&all).next());
    of_service.and_then(absolute).or_else(|| {
        let state = named("XDG_STATE_HOME");
        let state = state.or_else(|| Some(named("HOME")?.join(".local/state")))?;
        Some(state.join("rescore"))
    })
}

/// Whether this process is in a container.
fn is_container() -> bool {
    CONTAINER_MARKS.iter().any(|mark| Path::new(mark).exists())
        || std::env::var_os("KUBERNETES_SERVICE_HOST").is_some()
}

/// Whether a directory, or the one that it will be made in, is in the container's own layer or in memory.
#[cfg(target_os = "linux")]
fn is_lost_with_container(directory: &Path) -> bool {
    /// The numbers of overlay, tmpfs and ramfs in Linux's `magic.h`.
    const LOST: [u64; 3] = [0x794c_7630, 0x0102_1994, 0x8584_58f6];
    let mut there = directory.ancestors();
    let kind = there.find_map(|there| rustix::fs::statfs(there).ok());
    kind.is_some_and(|kind| u64::try_from(kind.f_type).is_ok_and(|kind| LOST.contains(&kind)))
}

/// Containers are Linux's.
#[cfg(not(target_os = "linux"))]
const fn is_lost_with_container(_: &Path) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_absolute_place_counts() {
        for (variables, expected) in [
            (&[][..], None),
            (&[("HOME", "")], None),
            (&[("HOME", "home/jane")], None),
            (
                &[("HOME", "/home/jane")],
                Some("/home/jane/.local/state/rescore"),
            ),
            (
                &[("HOME", "/home/jane"), ("XDG_STATE_HOME", "state")],
                Some("/home/jane/.local/state/rescore"),
            ),
            (
                &[("HOME", "/home/jane"), ("XDG_STATE_HOME", "/state")],
                Some("/state/rescore"),
            ),
            (
                &[
                    ("XDG_STATE_HOME", "/state"),
                    ("STATE_DIRECTORY", "/var/lib/a:/var/lib/b"),
                ],
                Some("/var/lib/a"),
            ),
        ] {
            let of = |name: &str| {
                let mut all = variables.iter();
                all.find(|(there, _)| *there == name)
                    .map(|(_, value)| OsString::from(value))
            };
            assert_eq!(directory(of), expected.map(PathBuf::from), "{variables:?}");
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn what_is_in_memory_is_lost_with_a_container() {
        assert!(is_lost_with_container(Path::new(
            "/dev/shm/nowhere/rescore"
        )));
        assert!(!is_lost_with_container(Path::new("/proc")));
    }
}
