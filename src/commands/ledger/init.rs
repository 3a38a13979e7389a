//! `rescore ledger init`: making a ledger on a server.

use std::fmt::Write as _;

use crate::base::error::{Result, shown};
use crate::ledger::{self, InitResult, InitSettings};

/// Makes the tables and the secret where they are missing, and grants rights; the result as text.
pub(super) fn init(settings: &InitSettings) -> Result<String> {
    let InitResult { tables, secret } = ledger::init(settings)?;
    let url = &settings.server.url;
    let mut text = if tables {
        format!("{url}: made the ledger")
    } else {
        format!("{url}: the ledger is there already")
    };
    if let (true, Some(file)) = (secret, &settings.server.secret_file) {
        let file = shown(file);
        let _ = write!(
            text,
            "\nits secret is in {file}: copy this file to every machine that uses the ledger, and keep a copy in a safe place\nwithout it the answers are of no use, and everybody would be paid for again"
        );
    }
    let grants = &settings.grants;
    for (roles, may) in [
        (&grants.workers, "call the service"),
        (&grants.readers, "look answers up"),
        (&grants.keepers, "remove answers"),
    ] {
        for role in roles {
            let _ = write!(text, "\n{role} may {may}");
        }
    }
    Ok(text)
}
