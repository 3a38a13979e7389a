//! Finding a ledger that a person has named, and the words for one that cannot be opened.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::base::directory::directory_of;
use crate::base::error::{Error, Result};
use crate::ledger::db::{errors, header};

/// The real path of an existing ledger; anything else is left as it is.
pub(super) fn existing(path: &Path) -> Result<PathBuf> {
    let cannot = |e| errors::unreadable(path).because(e);
    let real = fs::canonicalize(path).map_err(cannot)?;
    header::check(path)?;
    if fs::metadata(&real).map_err(cannot)?.len() == 0 {
        return Err(errors::foreign(path));
    }
    Ok(real)
}

/// Whether nothing is there, and a run could make a ledger.
pub(super) fn is_not_made_yet(path: &Path) -> bool {
    // A link counts as well, even one that leads nowhere.
    fs::symlink_metadata(path).is_err_and(|error| error.kind() == ErrorKind::NotFound)
        && directory_of(path).is_dir()
}

/// The error for a ledger that cannot be opened, and is as it was.
pub(super) fn cannot_open(path: &Path, error: &rusqlite::Error) -> Error {
    if errors::is_busy(error) || errors::is_damage(error) {
        errors::cannot_open(path, error)
    } else {
        errors::unreadable(path).because(errors::as_io_error(error))
    }
}

/// The error for a ledger with the answers of several accounts, of which none was named.
pub(super) fn several_accounts<'a>(
    ledger: &str,
    endpoints: impl Iterator<Item = &'a str>,
) -> Error {
    let error = Error::usage(format!(
        "`{ledger}` has answers of several services or service ids, and none was named"
    ));
    let mut endpoints: Vec<_> = endpoints.collect();
    endpoints.sort_unstable();
    endpoints.dedup();
    endpoints
        .into_iter()
        .fold(error, |error, endpoint| error.detail(endpoint.to_owned()))
        .hint("name one as in `run`, with `--base-url URL` and `--service-id ID`")
}
