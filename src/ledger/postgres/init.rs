//! Making the tables of a ledger, and granting the rights on them.

use std::path::Path;

use tokio_postgres::types::Type;

use super::fault::{AtStart, Refusal, ServerFault};
use super::ledger::secret_file;
use super::schema::{INIT_LOCK, KEEPER_RIGHTS, NOW, READER_RIGHTS, TABLES, VERSION, WORKER_RIGHTS};
use super::secret_file::HashingSecret;
use super::server::{Lane, RUN_PATIENCE, Server};
use crate::base::error::{Error, Result, shown};
use crate::ledger::access::secret_of;
use crate::ledger::named_ledger::{Grants, InitSettings};

/// What `init` has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InitResult {
    /// Whether the tables are new.
    pub(crate) tables: bool,
    /// Whether the file with the secret is new.
    pub(crate) secret: bool,
}

/// Makes the tables where there are none, and the file with the secret where there is none; grants rights.
///
/// # Errors
/// Exit code 2: there is a ledger that was made with another secret, or of another version, or the user may not make tables.
/// Exit code 3: the server does not answer.
pub(crate) fn init(settings: &InitSettings) -> Result<InitResult> {
    let InitSettings {
        server: on,
        secret_from,
        grants,
    } = settings;
    let file = secret_file(on)?;
    let server = Server::new(&on.url, on.password_file.as_deref(), RUN_PATIENCE)?;
    let url = server.shown();
    let found = found_ledger(&server).at_start("open", &url)?;
    let secret = SecretPlan::make(file, secret_from.as_deref(), found.is_some(), &url)?;
    if let Some((version, check_value)) = found {
        if version != VERSION {
            return Err(Error::usage(format!(
                "`{url}` has a ledger of version {version}, and this program knows version {VERSION}"
            ))
            .hint("use the rescore that made it, or name another database"));
        }
        if secret.secret.check_value().as_slice() != check_value {
            return Err(Error::usage(format!(
                "there is a ledger at `{url}`, which was made with another secret than the one in `{}`",
                shown(file)
            ))
            .hint("copy the file that was made with it to this machine"));
        }
        grant(&server, grants).at_start("grant the rights to", &url)?;
        return Ok(InitResult {
            tables: false,
            secret: false,
        });
    }
    // The file first: tables without it would be of no use to anybody.
    if secret.is_new {
        secret.secret.write(file)?;
    }
    make(&server, &secret.secret)
        .at_start("make", &url)
        .inspect_err(|_| {
            if secret.is_new {
                // It belongs to nothing.
                let _ = std::fs::remove_file(file);
            }
        })?;
    grant(&server, grants).at_start("grant the rights to", &url)?;
    Ok(InitResult {
        tables: true,
        secret: secret.is_new,
    })
}

/// The secret of a ledger that is to be made.
struct SecretPlan {
    secret: HashingSecret,
    /// Whether the file must be written.
    is_new: bool,
}

impl SecretPlan {
    fn make(file: &Path, from: Option<&Path>, exists: bool, url: &str) -> Result<Self> {
        if file.exists() {
            let secret = HashingSecret::read(file)?;
            if let Some(ledger) = from
                && secret_of(ledger)? != *secret.bytes()
            {
                return Err(Error::usage(format!(
                    "the secret in `{}` is not that of `{}`",
                    shown(file),
                    shown(ledger)
                ))
                .hint("name a new file with `--ledger-secret-file`"));
            }
            return Ok(Self {
                secret,
                is_new: false,
            });
        }
        if exists {
            return Err(Error::usage(format!(
                "there is a ledger at `{url}`, and `{}`, which should have its secret, does not exist",
                shown(file)
            ))
            .hint("copy the file that was made with it to this machine"));
        }
        let secret = match from {
            Some(ledger) => HashingSecret::of(secret_of(ledger)?),
            None => HashingSecret::draw(),
        };
        Ok(Self {
            secret,
            is_new: true,
        })
    }
}

/// The version and the check value of the ledger that is there.
fn found_ledger(server: &Server) -> Result<Option<(i32, Vec<u8>)>, ServerFault> {
    const FIND: &str = "SELECT version, check_value FROM rescore.ledger";
    match server.query(Lane::Durable, FIND, &[]) {
        Err(ServerFault::Refused {
            why: Refusal::NoLedger,
            ..
        }) => Ok(None),
        rows => Ok(rows?.first().map(|row| (row.get(0), row.get(1)))),
    }
}

/// Makes all tables or none: statements that are sent together are one transaction. Of two at the same time, the second finds the work done and fails.
fn make(server: &Server, secret: &HashingSecret) -> Result<(), ServerFault> {
    let check_value = secret.check_value();
    let check_value: String = { check_value.iter() }
        .map(|byte| format!("{byte:02x}"))
        .collect();
    server.batch(&format!(
        "SELECT pg_advisory_xact_lock({INIT_LOCK});
        {TABLES}
        INSERT INTO rescore.ledger (id, version, check_value, created)
            VALUES (1, {VERSION}, '\\x{check_value}', {NOW});"
    ))
}

/// Grants the rights to the roles that were named, which must exist.
fn grant(server: &Server, grants: &Grants) -> Result<(), ServerFault> {
    const QUOTE: &str = "SELECT quote_ident($1)";
    let rights = [
        (&grants.workers, WORKER_RIGHTS),
        (&grants.readers, READER_RIGHTS),
        (&grants.keepers, KEEPER_RIGHTS),
    ];
    for (roles, rights) in rights {
        for role in roles {
            let rows = server.query(Lane::Durable, QUOTE, &[(role, Type::TEXT)])?;
            let quoted: &str = rows.first().map_or("", |row| row.get(0));
            let rights = rights.replace("{role}", quoted);
            server.batch(&rights)?;
        }
    }
    Ok(())
}
