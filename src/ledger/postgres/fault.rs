//! What can go wrong between this program and the server, and what follows: to wait for the server, to try again
//! immediately, or to give up.

use std::io;

use tokio_postgres::error::{DbError, Severity, SqlState};

use super::shell::in_shell;
use crate::base::error::{Error, Result, printable, system_words};

/// The words for a server that says nothing.
pub(super) const SILENT: &str = "it does not answer";

/// Why a statement has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ServerFault {
    /// The server is away, or cannot serve anybody now. It may be back soon.
    #[error("{0}")]
    Away(String),
    /// Another transaction was in the way: the same statement succeeds now.
    #[error("other transactions were in the way again and again")]
    Crossed,
    /// It is there, and another try has the same result.
    #[error("{reason}")]
    Refused {
        /// What is refused.
        why: Refusal,
        /// The server's words.
        reason: String,
    },
}

/// What a server refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The password, or that there is none.
    Password,
    /// The user.
    User,
    /// The database.
    NoDatabase,
    /// There are no tables of a ledger.
    NoLedger,
    /// The user lacks a right.
    NoRight,
    /// The user lacks the right to connect to the database.
    NoEntry,
    /// The server's certificate.
    Certificate,
    /// Anything else.
    Statement,
}

impl ServerFault {
    /// The server has said nothing for too long.
    pub(super) fn silent() -> Self {
        Self::Away(SILENT.to_owned())
    }

    /// The network or the system failed.
    pub(super) fn of_system(error: &io::Error) -> Self {
        Self::Away(system_words(error))
    }

    /// Of the client library.
    pub(super) fn of(error: &tokio_postgres::Error) -> Self {
        if let Some(error) = error.as_db_error() {
            return Self::of_server(error);
        }
        let cause = std::error::Error::source(error);
        if let Some(cause) = cause.and_then(|it| it.downcast_ref::<io::Error>()) {
            return Self::of_connection(cause);
        }
        if error.is_closed() {
            return Self::Away("the connection broke".to_owned());
        }
        let words = cause.map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"));
        // The client library asks for a password in words of its own.
        let why = if words.contains("password") {
            Refusal::Password
        } else {
            Refusal::Statement
        };
        let reason = printable(&words);
        Self::Refused { why, reason }
    }

    /// Of a connection, which may be one that TLS protects.
    pub(super) fn of_connection(error: &io::Error) -> Self {
        let tls = error
            .get_ref()
            .and_then(|it| it.downcast_ref::<rustls::Error>());
        match tls {
            Some(tls) => Self::Refused {
                why: Refusal::Certificate,
                reason: printable(&tls.to_string()),
            },
            // Not the system's words: what came cannot be read. It may be a wrong port, or the end of a message is missing.
            None if error.raw_os_error().is_none()
                && error.kind() != io::ErrorKind::UnexpectedEof =>
            {
                Self::Away(printable(&format!(
                    "what answers there is not PostgreSQL, or the connection broke ({error})"
                )))
            }
            None => Self::of_system(error),
        }
    }

    fn of_server(error: &DbError) -> Self {
        let reason = printable(error.message());
        let code = error.code();
        let class = code.code().get(..2).unwrap_or_default();
        let why = match class {
            _ if *code == SqlState::UNDEFINED_TABLE || *code == SqlState::INVALID_SCHEMA_NAME => {
                Refusal::NoLedger
            }
            _ if *code == SqlState::INSUFFICIENT_PRIVILEGE => match error.parsed_severity() {
                // The connection is refused, and not only a statement.
                Some(Severity::Fatal) => Refusal::NoEntry,
                _ => Refusal::NoRight,
            },
            _ if *code == SqlState::INVALID_PASSWORD => Refusal::Password,
            "28" => Refusal::User,
            "3D" => Refusal::NoDatabase,
            // Connections, resources such as a full disk, operators, the system, the server's own failures; and a server
            // that became another one's copy, which takes no changes.
            "08" | "53" | "57" | "58" | "XX" => return Self::Away(reason),
            _ if *code == SqlState::READ_ONLY_SQL_TRANSACTION => return Self::Away(reason),
            "40" => return Self::Crossed,
            _ => Refusal::Statement,
        };
        Self::Refused { why, reason }
    }

    /// As what keeps a command or a run from starting: `doing` such as "open", and the address.
    pub(super) fn at_start(&self, doing: &str, shown: &str) -> Error {
        let cannot = format!("cannot {doing} the ledger `{shown}`: {self}");
        let Self::Refused { why, .. } = self else {
            return Error::stopped(cannot)
                .hint("run the same command again when the server answers");
        };
        match why {
            Refusal::NoLedger => Error::usage(format!("there is no ledger at `{shown}` yet")).hint(format!(
                "make it once, as the database's owner, with `rescore ledger init {} --ledger-secret-file FILE`",
                in_shell(shown)
            )),
            Refusal::Password => Error::usage(cannot).hint(
                "name a file that has the password with `--ledger-password-file FILE`, or set `PGPASSWORD` or `PGPASSFILE`",
            ),
            Refusal::User => Error::usage(cannot).hint(
                "check the user in the address, and who may log in to the server (its roles and `pg_hba.conf`)",
            ),
            Refusal::NoDatabase => Error::usage(cannot).hint(
                "check the database in the address, or make it with `createdb` and the ledger in it with `rescore ledger init`",
            ),
            Refusal::NoRight => Error::usage(cannot).hint(
                "the database's owner grants the rights with `rescore ledger init` and `--worker`, `--reader` or `--keeper`",
            ),
            Refusal::NoEntry => Error::usage(cannot).hint(
                "the database's owner lets the user in with `GRANT CONNECT ON DATABASE … TO …`",
            ),
            Refusal::Certificate => Error::usage(cannot).hint(
                "name the file of the authority that issued it in the address: `?sslrootcert=FILE`",
            ),
            Refusal::Statement => Error::usage(cannot),
        }
    }
}

/// Turns a fault into what keeps a command from starting.
pub(super) trait AtStart<T> {
    /// As [`ServerFault::at_start`].
    fn at_start(self, doing: &str, shown: &str) -> Result<T>;
}

impl<T> AtStart<T> for Result<T, ServerFault> {
    fn at_start(self, doing: &str, shown: &str) -> Result<T> {
        self.map_err(|fault| fault.at_start(doing, shown))
    }
}
