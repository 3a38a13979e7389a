//! Why a database did not do something, and what that means for people: the exit code, the words
//! and the hint, in one place.

use std::io;

use super::location::LedgerLocation;
use crate::base::error::{Error, HINT_FREE_SPACE};
use crate::base::private_file;

/// The schema's version. A ledger of another version is refused and never guessed at.
pub(crate) const VERSION: i32 = 7;
/// The oldest version that can be copied into a ledger of this version: the one before.
pub(super) const OLDEST_COPIED: i32 = 6;

/// What to do about a ledger that only its owner can write.
pub(super) const HINT_SHARE: &str =
    "its owner can share it with a group by `chmod g+rw` on it and the files beside it";
/// What to do with a damaged ledger.
const HINT_DAMAGED: &str = "move it elsewhere, with the files of its name and `-wal` and `-shm`, and put a copy of it in its place (`rescore ledger copy` makes copies)";

/// What to do about a server that refuses with these words.
fn hint_of_refusal(words: &str) -> &'static str {
    if words.contains("not valid for name") {
        "name the server in the address as its certificate does"
    } else if words.contains("certificate") {
        "name the file of the authority that issued it with `?sslrootcert=FILE`"
    } else {
        "check the user, its rights, and its password in `PGPASSWORD` or in `~/.pgpass`, which only you may read"
    }
}

/// Why a database did not do something.
#[derive(Debug, Clone)]
pub(super) struct DbFault {
    pub(super) kind: DbFaultKind,
    pub(super) words: String,
}

/// The kinds of faults that differ in what people can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DbFaultKind {
    /// The disk is full.
    NoSpace,
    /// The file may not grow.
    TooLarge,
    /// What is stored cannot come from this program.
    Damaged,
    /// A run or another program uses it and does not release it.
    Held,
    /// It is not a ledger of this version.
    Foreign,
    /// There is no ledger.
    Missing,
    /// The server does not answer, or can serve no client now. It may be back soon.
    Away,
    /// The server takes no writes: it is a replica, perhaps only until a fail-over is complete.
    ReadOnly,
    /// The server answers, and another attempt has the same result.
    Refused,
    /// Anything else, such as a disk that fails.
    Other,
}

impl DbFault {
    pub(super) fn new(kind: DbFaultKind, words: impl Into<String>) -> Self {
        let words = words.into();
        Self { kind, words }
    }

    /// Whether another attempt may succeed when some time has passed.
    pub(super) fn may_pass(&self) -> bool {
        matches!(self.kind, DbFaultKind::Away | DbFaultKind::ReadOnly)
    }

    pub(super) fn damaged() -> Self {
        Self::new(DbFaultKind::Damaged, "the file is damaged")
    }

    pub(super) fn missing() -> Self {
        Self::new(DbFaultKind::Missing, "its tables are gone")
    }

    pub(super) fn no_space() -> Self {
        Self::new(DbFaultKind::NoSpace, "no space left on device")
    }

    /// The fault of the ledger that is copied from, which the ledger that is copied to must not be
    /// blamed for.
    pub(super) fn of_copied(mut self) -> Self {
        self.words = format!("the ledger to be copied cannot be read: {}", self.words);
        self.kind = DbFaultKind::Other;
        self
    }

    pub(super) fn of_version(version: i32) -> Self {
        let what_to_do = match version {
            OLDEST_COPIED..=VERSION => "copy it with `rescore ledger copy`",
            version if version > VERSION => "use a newer rescore",
            _ => "use the rescore that made it, or copy it with the one that came after that",
        };
        let words = format!(
            "is a ledger of version {version}, and this program knows version {VERSION}: {what_to_do}"
        );
        Self::new(DbFaultKind::Foreign, words)
    }

    /// The cause in the system's terms, by which a full disk is recognised.
    fn cause(&self) -> io::Error {
        let kind = match self.kind {
            DbFaultKind::NoSpace => io::ErrorKind::StorageFull,
            DbFaultKind::TooLarge => io::ErrorKind::FileTooLarge,
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, self.words.clone())
    }

    /// Why a command cannot start, or a run cannot continue: `doing` is a verb such as "open".
    /// Exit code 3 for a full disk, which is not a fault of the settings; 75 for another program
    /// that uses the ledger, and will end.
    pub(super) fn error(&self, doing: &str, ledger: &LedgerLocation) -> Error {
        use DbFaultKind as Kind;
        let path = ledger.path();
        let display = path.display();
        let is_opened = doing == "open";
        let cannot = format!("cannot {doing} the ledger `{display}`");
        let usage = |cannot: &str| Error::usage(cannot).because(self.cause()).about(path);
        let stopped = |cannot: &str| Error::stopped(cannot).because(self.cause()).about(path);
        match (self.kind, ledger) {
            (Kind::Held, _) => {
                let words = format!("a run or another command is using the ledger `{display}`");
                Error::busy(words)
                    .detail("after a kill the lease lasts `--timeout` + 10 s; try again then")
            }
            (Kind::Foreign, _) => Error::usage(format!("`{display}` {}", self.words))
                .detail("it is left as it is")
                .hint(format!(
                    "move it to another name; `rescore ledger copy OTHER {display}` brings a copy, or one of the version before, back"
                )),
            (Kind::Missing, LedgerLocation::Server(_)) => {
                Error::usage(format!("there is no ledger at `{display}` yet"))
                    .hint(format!("make it once with `rescore ledger init '{display}'`"))
            }
            (Kind::Missing, LedgerLocation::File(_)) => {
                Error::usage(format!("there is no ledger `{display}`"))
            }
            (Kind::NoSpace | Kind::TooLarge, _) if is_opened => {
                stopped(&format!("cannot write the ledger `{display}`")).hint(HINT_FREE_SPACE)
            }
            (Kind::Damaged, _) => usage(&cannot).hint(HINT_DAMAGED),
            (Kind::Away, _) => {
                stopped(&cannot).hint("run the same command again when the server answers")
            }
            (Kind::ReadOnly, _) => usage(&cannot)
                .hint("name the primary, which takes writes: this server is a replica or read-only"),
            (Kind::Refused, LedgerLocation::Server(url))
                if self.words.contains("SQLSTATE 42501") =>
            {
                let role = url.role().unwrap_or_default();
                usage(&cannot).hint(format!(
                    "the tables' owner can allow it: `GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO \"{role}\"`"
                ))
            }
            (Kind::Refused, _) => usage(&cannot).hint(hint_of_refusal(&self.words)),
            // SQLite makes files beside a ledger also to read it.
            (Kind::Other, _) if is_opened => match private_file::not_writable(path) {
                Some(why) if path.exists() => usage(&cannot).detail(why).hint(HINT_SHARE),
                _ => usage(&cannot),
            },
            _ => stopped(&cannot),
        }
    }

    /// Why answers cannot be stored. All calls that wait for their answers get it.
    pub(super) fn of_answers(&self, ledger: &LedgerLocation) -> Error {
        let path = ledger.path();
        let cannot = Error::stopped(format!("cannot keep answers in `{}`", path.display()))
            .because(self.cause())
            .about(path);
        match self.kind {
            DbFaultKind::Damaged => cannot.hint(HINT_DAMAGED),
            DbFaultKind::Held => cannot.hint(
                "end the other program, or let it continue if it was suspended; then run the same command again",
            ),
            _ => cannot,
        }
    }
}
