//! Why a database did not do something, and what that means for people: the exit code, the words and the hint, in one place.

use std::io;
use std::path::Path;

use super::server_url::ServerUrl;
use crate::base::error::{Error, HINT_FREE_SPACE};
use crate::base::private_file;

/// The schema's version. A ledger of another version is refused and never guessed at.
pub(crate) const VERSION: i32 = 7;

/// What to do about a ledger that only its owner can write.
pub(super) const HINT_SHARE: &str =
    "its owner can share it with a group by `chmod g+rw` on it and the files beside it";
/// The oldest version that can be copied into a ledger of this version: the one before, once there is one.
pub(super) const OLDEST_COPIED: i32 = 6;

/// What to do with a damaged ledger.
const DAMAGED: &str = "move it elsewhere, with the files of its name and `-wal` and `-shm`, and put a copy of it in its place (`rescore ledger copy` makes copies)";

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
    /// There is none.
    Missing,
    /// The server does not answer, or can serve no client now. It may be back soon.
    Away,
    /// The server takes no writes: it is a replica, perhaps only until a fail-over is complete.
    ReadOnly,
    /// The server is there, and another attempt has the same result.
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

    /// Of a ledger that is read to be copied, while the copy is written.
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

    /// In the system's terms, by which a full disk is recognised.
    fn cause(&self) -> io::Error {
        let kind = match self.kind {
            DbFaultKind::NoSpace => io::ErrorKind::StorageFull,
            DbFaultKind::TooLarge => io::ErrorKind::FileTooLarge,
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, self.words.clone())
    }

    /// As what keeps a command from starting, or a run from going on: `doing` such as "open". A full disk is not a fault of the
    /// settings: exit code 3. Another program that uses the ledger will end: exit code 75.
    pub(super) fn error(&self, doing: &str, ledger: &Path) -> Error {
        let shown = ledger.display();
        let is_opened = doing == "open";
        let is_server = ledger.to_str().is_some_and(ServerUrl::is_one);
        let cannot = format!("cannot {doing} the ledger `{shown}`");
        let (error, hint) = match self.kind {
            DbFaultKind::Held => {
                let words = format!("a run or another command is using the ledger `{shown}`");
                return Error::busy(words).detail(
                    "a run that was killed counts as using it for its `--timeout` and 10 s more",
                );
            }
            DbFaultKind::Foreign => {
                let error = Error::usage(format!("`{shown}` {}", self.words));
                return error.detail("it is left as it is").hint(format!(
                    "move it to another name; `rescore ledger copy OTHER {shown}` brings a copy, or one of the version before, back"
                ));
            }
            DbFaultKind::Missing if is_server => {
                return Error::usage(format!("there is no ledger at `{shown}` yet"))
                    .hint(format!("make it once with `rescore ledger init '{shown}'`"));
            }
            DbFaultKind::Missing => {
                return Error::usage(format!("there is no ledger `{shown}`"));
            }
            DbFaultKind::NoSpace | DbFaultKind::TooLarge if is_opened => (
                Error::stopped(format!("cannot write the ledger `{shown}`")),
                HINT_FREE_SPACE,
            ),
            DbFaultKind::Damaged => (Error::usage(cannot), DAMAGED),
            DbFaultKind::Away => (
                Error::stopped(cannot),
                "run the same command again when the server answers",
            ),
            DbFaultKind::ReadOnly => (
                Error::usage(cannot),
                "name the primary, which takes writes: this server is a replica or read-only",
            ),
            DbFaultKind::Refused if self.words.contains("SQLSTATE 42501") => {
                let url = ledger.to_str().unwrap_or_default();
                let role = ServerUrl::parse(url).ok().and_then(|url| url.role());
                let role = role.unwrap_or_default();
                let error = Error::usage(cannot).because(self.cause()).about(ledger);
                return error.hint(format!(
                    "the tables' owner can allow it: `GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO \"{role}\"`"
                ));
            }
            DbFaultKind::Refused => (Error::usage(cannot), hint_of_refusal(&self.words)),
            // SQLite makes files beside a ledger also to read it.
            DbFaultKind::Other if is_opened => match private_file::not_writable(ledger) {
                Some(why) if ledger.exists() => (Error::usage(cannot).detail(why), HINT_SHARE),
                _ => (Error::usage(cannot), ""),
            },
            _ => (Error::stopped(cannot), ""),
        };
        let error = error.because(self.cause()).about(ledger);
        if hint.is_empty() {
            error
        } else {
            error.hint(hint)
        }
    }

    /// As what keeps answers from being stored. All calls that wait for their answers get it.
    pub(super) fn of_answers(&self, ledger: &Path) -> Error {
        let cannot = Error::stopped(format!("cannot keep answers in `{}`", ledger.display()))
            .because(self.cause())
            .about(ledger);
        match self.kind {
            DbFaultKind::Damaged => cannot.hint(DAMAGED),
            DbFaultKind::Held => cannot.hint(
                "end the other program, or let it go on if it was suspended; then the same command continues",
            ),
            _ => cannot,
        }
    }
}
