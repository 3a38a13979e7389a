//! A ledger on a server that is ours to use: of this version, and made with the secret that was given.

use std::path::Path;
use std::time::Duration;

use super::fault::{AtStart, ServerFault};
use super::schema::{NOW, VERSION};
use super::secret_file::HashingSecret;
use super::server::{Lane, Server};
use crate::base::error::{Error, Result, shown};
use crate::ledger::named_ledger::ServerSettings;

/// A ledger on a server.
pub(super) struct ServerLedger {
    pub(super) server: Server,
    /// When it was made, in milliseconds since 1970.
    pub(super) created: i64,
    /// The server's time when it was opened, in milliseconds since 1970.
    pub(super) now: i64,
    check_value: Vec<u8>,
}

impl ServerLedger {
    /// Connects, and checks that there is a ledger of this version.
    ///
    /// # Errors
    /// Exit code 2: there is none, it is of another version, or the user, the password or the certificate is refused. Exit
    /// code 3: the server does not answer.
    pub(super) fn open(settings: &ServerSettings, patience: Duration) -> Result<Self> {
        let statement = format!(
            "SELECT version, check_value, created, {NOW}, pg_is_in_recovery() FROM rescore.ledger"
        );
        let server = Server::new(&settings.url, settings.password_file.as_deref(), patience)?;
        let url = server.shown();
        let rows = { server.query(Lane::Quick, &statement, &[]) }.at_start("open", &url)?;
        let Some(row) = rows.first() else {
            return Err(Error::usage(format!("the ledger `{url}` is incomplete"))
                .hint("drop its schema `rescore`, which has no answers, and make it again"));
        };
        let version: i32 = row.get(0);
        if version != VERSION {
            return Err(Error::usage(format!(
                "`{url}` is a ledger of version {version}, and this program knows version {VERSION}"
            ))
            .hint("use the rescore that made it, or name another database"));
        }
        if row.get(4) {
            let reason = "it is a copy that takes no changes".to_owned();
            return Err(ServerFault::Away(reason).at_start("write", &url));
        }
        Ok(Self {
            check_value: row.get(1),
            created: row.get(2),
            now: row.get(3),
            server,
        })
    }

    /// Reads the secret, and checks that the ledger was made with it.
    ///
    /// # Errors
    /// Exit code 2: it was not, no file is named, or the file cannot be read.
    pub(super) fn secret(&self, settings: &ServerSettings) -> Result<HashingSecret> {
        let file = secret_file(settings)?;
        let secret = HashingSecret::read(file)?;
        if secret.check_value().as_slice() != self.check_value {
            return Err(Error::usage(format!(
                "the secret in `{}` is not the one that the ledger `{}` was made with",
                shown(file),
                self.server.shown()
            ))
            .detail("with another one no answer is found, and everybody is paid for again")
            .hint("copy the file that `rescore ledger init` has made to this machine"));
        }
        Ok(secret)
    }
}

/// The file with the secret.
///
/// # Errors
/// Exit code 2: none is named.
pub(super) fn secret_file(settings: &ServerSettings) -> Result<&Path> {
    settings.secret_file.as_deref().ok_or_else(|| {
        Error::usage("a ledger on a server needs the secret that its keys are made with").hint(
            "name the file that `rescore ledger init` has made with `--ledger-secret-file FILE`",
        )
    })
}
