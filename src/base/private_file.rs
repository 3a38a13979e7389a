//! Files that the program creates under names that it chooses, such as `OUTPUT.partial`: how they are opened, replaced and shared
//! with other users. Also the small files that people write for it, and the directory and the identity of a file.
//!
//! Somebody may have put something else under such a name, which may lead anywhere. So links are not followed, and a hard link, a
//! pipe or a device is refused. Nothing here knows what is written.

use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, Gid, OFlags, access};
use rustix::io::Errno;
use tempfile::NamedTempFile;

use super::error::Error;
use super::text::display;

/// Why a file cannot be one that rescore created.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct ForeignFile(&'static str);

impl ForeignFile {
    /// A file with content that rescore does not write.
    pub(crate) const CONTENT: Self = Self("its content does not come from rescore");

    fn refuse(metadata: &Metadata) -> io::Result<()> {
        let what = if metadata.is_symlink() {
            "it is a symbolic link"
        } else if !metadata.is_file() {
            // A pipe, a device or a directory.
            "it is not a regular file"
        } else if metadata.nlink() > 1 {
            "it is a hard link: the file has another name as well"
        } else {
            return Ok(());
        };
        Err(io::Error::other(Self(what)))
    }
}

/// Whether the error is a [`ForeignFile`].
pub(crate) fn is_foreign_file(error: &io::Error) -> bool {
    error
        .get_ref()
        .is_some_and(<dyn std::error::Error + Send + Sync>::is::<ForeignFile>)
}

/// The hint for such an error.
pub(crate) const HINT: &str = "move it away: rescore writes only to files that it created";

/// A path with something behind its name.
pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Checks that a file at `path`, if there is one, can be one that rescore created.
///
/// # Errors
/// A [`ForeignFile`] if it cannot.
pub(crate) fn check(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(metadata) => ForeignFile::refuse(&metadata),
        // Opening it will show what is wrong.
        Err(_) => Ok(()),
    }
}

/// Opens the file at `path` for reading, and for writing at its current end. A missing file is created with this mode, as far as
/// the process's umask allows; with `only_new` an existing file is an error.
///
/// # Errors
/// It cannot be opened, or it cannot be a file that rescore created.
pub(crate) fn append(path: &Path, mode: u32, only_new: bool) -> io::Result<File> {
    let mut how = OpenOptions::new();
    how.read(true)
        .append(true)
        .create(true)
        .create_new(only_new);
    open(path, how.mode(mode))
}

/// Opens the file at `path` in this way.
///
/// # Errors
/// As [`append`].
pub(crate) fn open(path: &Path, how: &mut OpenOptions) -> io::Result<File> {
    // Before opening it, because opening already affects some devices.
    check(path)?;
    // Never wait for a pipe that was put there in the meantime.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = how.custom_flags(flags.bits().cast_signed()).open(path)?;
    ForeignFile::refuse(&file.metadata()?)?;
    Ok(file)
}

/// Files of settings, keys or certificates are far smaller, and a device has no end.
const MAX_SMALL_FILE: u64 = 1 << 20;

/// Reads a small file that a person has written.
///
/// # Errors
/// It cannot be read, or is larger than a megabyte.
pub(crate) fn read_small(path: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    let mut file = File::open(path)?.take(MAX_SMALL_FILE + 1);
    if file.read_to_end(&mut content)? as u64 > MAX_SMALL_FILE {
        return Err(io::Error::other("it has more than a megabyte"));
    }
    Ok(content)
}

/// An empty temporary file beside the one at `path`, which it can replace. It gets this mode, as far as the process's umask
/// allows, and is removed when it is dropped.
///
/// # Errors
/// No file can be made there.
pub(crate) fn beside(path: &Path, mode: u32) -> io::Result<NamedTempFile> {
    temporary()
        .permissions(permissions(mode))
        .tempfile_in(directory_of(path))
}

/// The builder of temporary files that replace others.
pub(crate) fn temporary() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".rescore-").suffix(".tmp");
    builder
}

/// Writes a file with this content, for these readers, and replaces the one at `path`, if there is one. No reader ever gets half
/// of it, and after a kill the earlier file is still there.
///
/// # Errors
/// It cannot be written. The earlier file is still there then.
pub(crate) fn replace(path: &Path, readers: Readers, content: &[u8]) -> io::Result<()> {
    // The user named it: a link leads to the file that is meant.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mut file = beside(&path, OWNER)?;
    readers.admit(file.as_file(), 0)?;
    file.write_all(content)?;
    file.as_file().sync_all()?;
    file.persist(path).map(drop).map_err(|error| error.error)
}

/// The error of a file that cannot be made, with what to do if its directory does not exist.
pub(crate) fn cannot_make(path: &Path, error: Error) -> Error {
    let directory = directory_of(path);
    if let Some(why) = not_expanded(path) {
        error.hint(why)
    } else if error.comes_from(io::ErrorKind::NotFound) && !directory.exists() {
        error.hint(format!(
            "create the directory `{}` first",
            display(directory)
        ))
    } else {
        error
    }
}

/// Parts of paths that mean something to a shell or another program, but not to a file system.
#[rustfmt::skip]
const NOT_EXPANDED: [(&str, &str); 3] = [
    ("~", "`~` is not expanded in quotes, in a settings file or after `=`: write the path of the home directory"),
    ("$", "variables are not expanded in single quotes or in a settings file: write the path in full"),
    ("://", "write a file, and copy it from there, for instance with `aws s3 cp`"),
];

/// Why a path leads nowhere: a shell would have expanded it, or it is an address.
pub(crate) fn not_expanded(path: &Path) -> Option<&'static str> {
    let path = path.to_str()?;
    let is_it = |mark: &str| path.starts_with(mark) || mark == "://" && path.contains(mark);
    NOT_EXPANDED
        .iter()
        .find(|(mark, _)| is_it(mark))
        .map(|(_, why)| *why)
}

/// Why this user can neither write to the file at `path` nor make files beside it; `None` if both can be done, or if nobody
/// knows.
pub(crate) fn not_writable(path: &Path) -> Option<String> {
    [path, directory_of(path)].into_iter().find_map(|path| {
        let name = display(path);
        match access(path, Access::WRITE_OK) {
            Err(Errno::ACCESS) => {
                let owner = fs::metadata(path).map(|metadata| user_name(metadata.uid()));
                let owner = owner.map(|owner| format!(", which belongs to {owner}"));
                let owner = owner.unwrap_or_default();
                Some(format!("this user may not write to `{name}`{owner}"))
            }
            Err(Errno::ROFS) => Some(format!("the file system of `{name}` is read-only")),
            _ => None,
        }
    })
}

/// The name of a user of this machine, or the number of one that only a directory service knows.
fn user_name(user: u32) -> String {
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let mut names = users.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(user)).then(|| name.to_owned())
    });
    names.next().unwrap_or_else(|| format!("user {user}"))
}

/// Why the content of a file cannot be trusted: anybody, or somebody who shares no group with this user, may have written it.
pub(crate) fn not_trusted(file: &Metadata) -> Option<String> {
    use rustix::process::{getegid, geteuid, getgroups};
    let (user, owner, group) = (geteuid(), file.uid(), file.gid());
    let in_group = || {
        let groups = getgroups().unwrap_or_default();
        let mut groups = groups.into_iter().chain([getegid()]);
        groups.any(|member_of| member_of.as_raw() == group)
    };
    if mode_of(file) & 0o002 != 0 {
        Some("everybody may write to it".to_owned())
    } else if user.is_root() || [user.as_raw(), 0].contains(&owner) || in_group() {
        None
    } else {
        let owner = user_name(owner);
        Some(format!(
            "it belongs to {owner}, and you are not in its group"
        ))
    }
}

/// The permission bits with which only its owner can read and write a file.
pub(crate) const OWNER: u32 = 0o600;

/// Who may read and write a file: its permission bits, and the group for which they hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Readers {
    mode: u32,
    /// `None`: they hold for any group.
    group: Option<u32>,
}

impl Readers {
    /// Everybody, as far as the process's umask allows.
    pub const EVERYBODY: Self = Self::of_any_group(0o666);

    /// Those of a file whose group does not matter.
    pub(crate) const fn of_any_group(mode: u32) -> Self {
        Self { mode, group: None }
    }

    /// Those of the file with this metadata.
    pub(crate) fn of(file: &Metadata) -> Self {
        Self {
            mode: mode_of(file),
            group: Some(file.gid()),
        }
    }

    /// Those of a new file beside `path` that at most these may read, as far as the process's umask allows: an empty file tells.
    ///
    /// # Errors
    /// No file can be made there.
    pub(crate) fn of_new(self, path: &Path) -> io::Result<Self> {
        let new = beside(path, self.mode & 0o666 | OWNER)?;
        let mode = mode_of(&new.as_file().metadata()?);
        Ok(Self { mode, ..self })
    }

    /// Readers who are in both. The owner's permissions stay.
    #[must_use]
    pub(crate) fn and(self, other: Self) -> Self {
        let group = self.group.or(other.group);
        let mode = self.mode & (other.mode_in(group) | 0o700);
        Self { mode, group }
    }

    /// The permission bits with which a file of this group has no other readers. In another group than theirs, the group and all
    /// others may do what both were allowed to do.
    fn mode_in(self, group: Option<u32>) -> u32 {
        if self.group.is_none() || self.group == group {
            return self.mode;
        }
        let both = self.mode >> 3 & self.mode & 0o007;
        self.mode & 0o700 | both << 3 | both
    }

    /// Lets at most them read an open file. Its owner also gets the `owner` bits, without which the permission bits are returned.
    /// The file gets their group, if this user may give it away, and is closed to all others until it has it. A file system
    /// without modes ignores it.
    ///
    /// # Errors
    /// The file belongs to another user.
    pub(crate) fn admit(self, file: &File, owner: u32) -> io::Result<u32> {
        let file_group = file.metadata()?.gid();
        if let Some(group) = self.group
            && group != file_group
        {
            set_mode(file, OWNER)?;
            // If it may not be given away, it keeps its group.
            let _ = rustix::fs::fchown(file, None, Some(Gid::from_raw(group)));
        }
        let mode = self.mode_in(Some(file.metadata()?.gid()));
        set_mode(file, mode | owner)?;
        Ok(mode)
    }
}

/// The permission bits of a file.
pub(crate) fn mode_of(metadata: &Metadata) -> u32 {
    metadata.permissions().mode() & 0o777
}

fn permissions(mode: u32) -> Permissions {
    Permissions::from_mode(mode)
}

/// Sets the permission bits of an open file. A file system without modes ignores it.
///
/// # Errors
/// The file belongs to another user.
pub(crate) fn set_mode(file: &File, mode: u32) -> io::Result<()> {
    let metadata = file.metadata()?;
    if mode_of(&metadata) == mode {
        return Ok(());
    }
    match file.set_permissions(permissions(mode)) {
        // That user could read what is written.
        Err(_) if metadata.uid() != rustix::process::geteuid().as_raw() => {
            Err(io::Error::other(ForeignFile("it belongs to another user")))
        }
        _ => Ok(()),
    }
}

/// The directory that a file is in, or will be in. A name without a directory is in the current one.
pub(crate) fn directory_of(file: &Path) -> &Path {
    file.parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

/// The identity of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileId(u64, u64);

impl FileId {
    /// That of the file with this metadata.
    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self(metadata.dev(), metadata.ino())
    }

    /// That of the file that the path leads to. It is not opened: on some systems, closing it would end SQLite's locks.
    pub(crate) fn at(path: &Path) -> Option<Self> {
        fs::metadata(path).ok().map(|metadata| Self::of(&metadata))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_pipes_and_directories_are_refused_and_not_touched() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::write(at("victim"), "precious").unwrap();
        symlink("victim", at("link")).unwrap();
        symlink("nowhere", at("dangling")).unwrap();
        fs::hard_link(at("victim"), at("second")).unwrap();
        fs::create_dir(at("directory")).unwrap();
        let made = std::process::Command::new("mkfifo")
            .arg(at("pipe"))
            .status();
        assert!(made.unwrap().success());
        for (name, what) in [
            ("link", "symbolic link"),
            ("dangling", "symbolic link"),
            ("second", "hard link"),
            ("pipe", "not a regular file"),
            ("directory", "not a regular file"),
        ] {
            for only_new in [false, true] {
                let error = append(&at(name), 0o600, only_new).unwrap_err();
                assert!(is_foreign_file(&error), "{name}");
                assert!(error.to_string().contains(what), "{name}: {error}");
            }
        }
        assert_eq!(fs::read_to_string(at("victim")).unwrap(), "precious");
        assert!(!at("nowhere").exists());
    }

    #[test]
    fn a_new_file_is_private_and_an_existing_one_keeps_its_mode() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x");
        let file = append(&path, 0o600, true).unwrap();
        assert_eq!(mode_of(&file.metadata().unwrap()), 0o600);
        fs::write(&path, "rows").unwrap();
        let again = append(&path, 0o666, false).unwrap().metadata().unwrap();
        assert_eq!((again.len(), mode_of(&again)), (4, 0o600));
        let error = append(&path, 0o600, true).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn a_file_is_replaced_as_a_whole_also_behind_a_link() {
        let directory = tempfile::tempdir().unwrap();
        let (path, link) = (directory.path().join("x"), directory.path().join("link"));
        replace(&path, Readers::of_any_group(0o640), b"old").unwrap();
        let old = File::open(&path).unwrap();
        symlink("x", &link).unwrap();
        replace(&link, Readers::of_any_group(0o604), b"new").unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(io::read_to_string(&old).unwrap(), "old");
        assert_eq!(mode_of(&path.metadata().unwrap()), 0o604);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
    }

    #[test]
    fn no_other_group_can_read_what_one_group_may() {
        let of = |mode, group| Readers { mode, group };
        let (risk, staff) = (Some(7), Some(8));
        // What a file may be whose group is `staff`, where the readers are those of a file of `risk`.
        for (mode, in_staff) in [
            (0o640, 0o600),
            (0o660, 0o600),
            (0o644, 0o644),
            (0o664, 0o644),
            (0o604, 0o600),
            (0o600, 0o600),
        ] {
            assert_eq!(of(mode, risk).mode_in(staff), in_staff, "{mode:o}");
            assert_eq!(of(mode, risk).mode_in(risk), mode, "{mode:o}");
            assert_eq!(of(mode, None).mode_in(staff), mode, "{mode:o}");
        }
        for (one, other, both) in [
            ((0o640, risk), (0o640, risk), (0o640, risk)),
            ((0o640, risk), (0o640, staff), (0o600, risk)),
            ((0o640, risk), (0o644, staff), (0o640, risk)),
            ((0o644, risk), (0o640, staff), (0o600, risk)),
            ((0o666, None), (0o640, staff), (0o640, staff)),
            ((0o444, risk), (0o600, None), (0o400, risk)),
        ] {
            let [one, other, both] = [one, other, both].map(|(mode, group)| of(mode, group));
            assert_eq!(one.and(other), both);
        }
    }

    #[test]
    fn a_name_alone_is_in_the_current_directory() {
        for (file, expected) in [("x", "."), ("a/x", "a"), ("/x", "/"), ("./x", ".")] {
            assert_eq!(directory_of(Path::new(file)), Path::new(expected));
        }
    }
}
