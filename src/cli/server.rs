//! The arguments that say how a ledger on a PostgreSQL server is reached, and which ledger is meant: a file, or one on a
//! server. No message repeats an address, which may have a password in it.

use std::path::{Path, PathBuf};

use clap::Args;

use super::values;
use crate::base::error::{Error, Result};
use crate::ledger::{NamedLedger, ServerUrl};

/// Their heading in the help.
const LEDGER: &str = "Ledger";

// A doc comment would be taken for the help of the command.
#[derive(Debug, Args)]
#[allow(clippy::doc_markdown, reason = "these comments are the help's text")]
pub(super) struct ServerArgs {
    /// Read the password for the ledger's server from this file [default: PGPASSWORD, or the file of PGPASSFILE or
    /// ~/.pgpass]
    #[arg(long, value_name = "FILE", value_parser = values::file(), help_heading = LEDGER)]
    ledger_password_file: Option<PathBuf>,
    /// Read the secret of a ledger on a server from this file, which `rescore ledger init` makes
    #[arg(long, value_name = "FILE", value_parser = values::file(), help_heading = LEDGER)]
    ledger_secret_file: Option<PathBuf>,
}

impl ServerArgs {
    /// The ledger of this name.
    ///
    /// # Errors
    /// Exit code 2: it is an address that cannot be used, or this program has no part for servers.
    #[cfg(feature = "postgres")]
    pub(super) fn named(&self, ledger: &Path) -> Result<NamedLedger> {
        match address(ledger)? {
            None => Ok(NamedLedger::File(ledger.to_owned())),
            Some(url) => Ok(NamedLedger::Server(Box::new(self.server(url)))),
        }
    }

    /// The ledger of this name.
    ///
    /// # Errors
    /// Exit code 2: it is an address, and this program has no part for servers.
    #[cfg(not(feature = "postgres"))]
    pub(super) fn named(&self, ledger: &Path) -> Result<NamedLedger> {
        let _ = (&self.ledger_password_file, &self.ledger_secret_file);
        match address(ledger)? {
            None => Ok(NamedLedger::File(ledger.to_owned())),
            Some(_) => Err(Error::usage("this rescore was built without ledgers on PostgreSQL servers")
                .hint("build it again with `cargo build --release --features postgres`, or name a file with `--ledger FILE`")),
        }
    }

    /// The server of this address, with what else is given.
    #[cfg(feature = "postgres")]
    pub(super) fn server(&self, url: ServerUrl) -> crate::ledger::ServerSettings {
        crate::ledger::ServerSettings {
            url,
            password_file: self.ledger_password_file.clone(),
            secret_file: self.ledger_secret_file.clone(),
        }
    }
}

/// The address of a server; `None` is a file.
///
/// # Errors
/// Exit code 2: it cannot be used.
pub(super) fn address(ledger: &Path) -> Result<Option<ServerUrl>> {
    // A password need not be UTF-8, and is not to be repeated then either.
    let lossy = ledger.to_string_lossy();
    if !ServerUrl::is_one(&lossy) {
        return Ok(None);
    }
    let text = ledger.to_str().ok_or_else(|| {
        Error::usage("the address of the ledger is not UTF-8")
            .hint("give it as `postgresql://USER@HOST:PORT/DATABASE`")
    })?;
    let user = |name| std::env::var(name).ok().filter(|user| !user.is_empty());
    let user = user("PGUSER").or_else(|| user("USER"));
    ServerUrl::parse(text, user.as_deref()).map(Some)
}
