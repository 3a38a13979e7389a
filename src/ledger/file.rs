//! The ledger's files: what they are called, whether one is ours, who holds it.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use super::schema::VERSION;
use crate::base::error::{Error, Result};
use crate::base::own_file::{self, NotOurs};

/// The name of a ledger's file with this behind it.
fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

/// Where SQLite keeps what it has not yet put into the database.
pub(super) fn log_of(ledger: &Path) -> PathBuf {
    beside(ledger, "-wal")
}

/// The run's own ledger for an output of this name.
#[must_use]
pub(crate) fn ledger_of(output: &Path) -> PathBuf {
    beside(output, ".ledger")
}

/// Whose a ledger is, from its making on. It stands in the file's head, where it is read without opening a database that
/// somebody may be about to remove.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A run's own, which removes it at its end.
    Own,
    /// One that runs share and nobody removes.
    Shared,
}

impl Kind {
    const EVERY: [Self; 2] = [Self::Own, Self::Shared];

    /// Tells our files from all other databases: "rsco" and "rscs".
    pub(super) const fn application(self) -> i32 {
        match self {
            Self::Own => 0x7273_636f,
            Self::Shared => 0x7273_6373,
        }
    }

    pub(super) fn of(application: i32) -> Option<Self> {
        Self::EVERY
            .into_iter()
            .find(|kind| kind.application() == application)
    }
}

/// What a path leads to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum What {
    /// No file, or an empty one.
    Nothing,
    /// A ledger that this program knows.
    Ledger(Kind),
    /// A ledger of another version.
    Other(i32),
    /// A device, a pipe or a directory: nothing can be kept there.
    Special,
    /// Anything else.
    Foreign,
}

/// Looks at a file's first bytes: SQLite itself would touch what it opens.
pub(super) fn look(path: &Path) -> io::Result<What> {
    // <https://www.sqlite.org/fileformat2.html#the_database_header>
    const MAGIC: &[u8] = b"SQLite format 3\0";
    const HEAD: u64 = 100;
    const USER_VERSION: usize = 60;
    const APPLICATION_ID: usize = 68;
    // Before it is opened: a pipe would be waited for.
    if fs::metadata(path).is_ok_and(|there| !there.is_file()) {
        return Ok(What::Special);
    }
    let mut head = Vec::new();
    match File::open(path) {
        Ok(file) => file.take(HEAD).read_to_end(&mut head)?,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(What::Nothing),
        Err(e) => return Err(e),
    };
    let number = |at: usize| {
        let bytes = head.get(at..at + 4)?;
        Some(i32::from_be_bytes(bytes.try_into().ok()?))
    };
    let kind = number(APPLICATION_ID).and_then(Kind::of);
    Ok(match (kind, number(USER_VERSION)) {
        _ if head.is_empty() => What::Nothing,
        (Some(kind), Some(version)) if head.starts_with(MAGIC) => {
            if version == VERSION {
                What::Ledger(kind)
            } else {
                What::Other(version)
            }
        }
        _ => What::Foreign,
    })
}

/// Nobody else may read a ledger: SQLite gives its log the same rights.
const PRIVATE: u32 = 0o600;

/// Makes the file where there is none. One that runs share may be named by a link; a run's own is named by us.
pub(super) fn create(path: &Path, kind: Kind) -> io::Result<()> {
    match kind {
        Kind::Own => own_file::open(path, PRIVATE, false).map(drop),
        Kind::Shared => {
            let mut options = OpenOptions::new();
            options.create(true).append(true);
            own_file::with_mode(&mut options, PRIVATE)
                .open(path)
                .map(drop)
        }
    }
}

/// Fails when one of the names that a run's own ledger has is taken by what leads elsewhere: SQLite would write there.
///
/// # Errors
/// Exit code 2: it names the file.
pub(super) fn check_own(path: &Path) -> Result<()> {
    for end in DATABASE {
        let path = beside(path, end);
        own_file::check(&path).map_err(|e| cannot_write(&path, e))?;
    }
    Ok(())
}

/// What SQLite puts behind a database's name for the files that belong to it, and the database itself.
const DATABASE: [&str; 4] = ["", "-wal", "-shm", "-journal"];

/// What stands behind a ledger's name in those of the files that come and go with it.
pub(crate) const ENDS: &[&str] = &["-wal", "-shm", "-journal", LOCK];
const LOCK: &str = "-lock";

/// Removes a ledger with everything that SQLite keeps beside it. The database goes first: a log without it is ignored.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    for end in DATABASE {
        match fs::remove_file(beside(path, end)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
    }
    Ok(())
}

/// That this run alone goes on with a ledger. The kernel holds it: a process that dies leaves none behind.
///
/// It is a file of its own, as on some systems a lock on the database would shut out SQLite.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
    path: PathBuf,
}

impl Lock {
    /// Takes the lock for a run, and says in the file who has it: `who` for people to read.
    ///
    /// # Errors
    /// Exit code 2: another run has it, or the file cannot be made.
    pub(super) fn take(ledger: &Path, output: &Path, who: &str) -> Result<Self> {
        Self::try_take(ledger, who)?.map_err(|holder| {
            Error::usage(format!(
                "another run ({holder}) is writing `{}`",
                output.display()
            ))
            .hint("wait for it, or name another output")
        })
    }

    /// Takes the lock, or says who has it.
    ///
    /// # Errors
    /// Exit code 2: the file cannot be made.
    pub(super) fn try_take(ledger: &Path, who: &str) -> Result<Result<Self, String>> {
        let path = beside(ledger, LOCK);
        let cannot = |e| cannot_write(&path, e);
        loop {
            let file = own_file::open(&path, PRIVATE, false).map_err(cannot)?;
            let locked = file.try_lock();
            let mut holder = String::new();
            // It may be writing it this very moment; then it has no name yet.
            let read = (&file).take(HOLDER).read_to_string(&mut holder);
            let holder = holder.trim();
            if let Err(TryLockError::WouldBlock) = locked {
                let holder = Some(holder).filter(|holder| !holder.is_empty());
                return Ok(Err(holder.unwrap_or("just begun").to_owned()));
            }
            if read.is_err() || !(holder.is_empty() || is_holder(holder)) {
                return Err(cannot(io::Error::other(NotOurs::Content)));
            }
            // The run that had it may have removed the file between our opening and locking it.
            let locked = file.metadata().map_err(cannot)?;
            if Identity::at(&path) != Some(Identity::new(&locked)) {
                continue;
            }
            // From here on it goes with us, also when nothing can be written to it.
            let mut lock = Self { file, path };
            lock.say(who).map_err(|e| cannot_write(&lock.path, e))?;
            return Ok(Ok(lock));
        }
    }
}

impl Lock {
    fn say(&mut self, who: &str) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.rewind()?;
        self.file.write_all(who.as_bytes())
    }
}

/// More than we ever say of a lock's holder.
const HOLDER: u64 = 200;

/// Whether this is what a lock says of its holder: it ends with a process's number.
fn is_holder(text: &str) -> bool {
    text.rsplit_once("process ")
        .is_some_and(|(_, id)| id.parse::<u32>().is_ok())
}

fn cannot_write(path: &Path, error: io::Error) -> Error {
    let not_ours = own_file::is_not_ours(&error);
    let cannot = Error::usage(format!("cannot write `{}`", path.display()))
        .because(error)
        .about(path);
    if not_ours {
        return cannot.hint(own_file::HINT);
    }
    cannot
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Before the lock itself goes with the file. That the name stays is harmless: it is the kernel's lock that counts.
        let _ = fs::remove_file(&self.path);
    }
}

/// What tells a file from others, whatever they are called.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Identity(u64, u64);

impl Identity {
    #[cfg(unix)]
    fn new(metadata: &fs::Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        Self(metadata.dev(), metadata.ino())
    }

    #[cfg(not(unix))]
    fn new(_: &fs::Metadata) -> Self {
        Self(0, 0)
    }

    /// Of the file that the path leads to. It is not opened: on some systems, closing it would end SQLite's locks.
    pub(super) fn at(path: &Path) -> Option<Self> {
        fs::metadata(path).ok().map(|metadata| Self::new(&metadata))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_ledger_is_told_apart_without_being_touched() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("x");
        assert_eq!(look(&path).unwrap(), What::Nothing);
        let mut head = [0; 100];
        head[..16].copy_from_slice(b"SQLite format 3\0");
        for kind in Kind::EVERY {
            head[68..72].copy_from_slice(&kind.application().to_be_bytes());
            let versions = [
                (VERSION - 1, What::Other(VERSION - 1)),
                (VERSION, What::Ledger(kind)),
                (VERSION + 1, What::Other(VERSION + 1)),
            ];
            for (version, what) in versions {
                head[60..64].copy_from_slice(&version.to_be_bytes());
                fs::write(&path, head).unwrap();
                assert_eq!(look(&path).unwrap(), what);
            }
        }
        for foreign in [
            &b"id,name\n"[..],
            &[b"SQLite format 3\0", &[0; 84][..]].concat(),
        ] {
            fs::write(&path, foreign).unwrap();
            assert_eq!(look(&path).unwrap(), What::Foreign);
        }
        fs::write(&path, "").unwrap();
        assert_eq!(look(&path).unwrap(), What::Nothing);
    }

    #[test]
    fn a_lock_names_its_holder_and_ends_with_it() {
        let place = tempfile::tempdir().unwrap();
        let (ledger, output) = (place.path().join("o.ledger"), place.path().join("o"));
        let lock = Lock::take(&ledger, &output, "process 1").unwrap();
        let refused = Lock::take(&ledger, &output, "process 2").unwrap_err();
        assert_eq!(refused.exit().code(), 2);
        assert!(
            refused.report().contains("process 1"),
            "{}",
            refused.report()
        );
        drop(lock);
        drop(Lock::take(&ledger, &output, "process 2").unwrap());
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
    }
}
