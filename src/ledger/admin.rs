//! Looking after a ledger by hand, wherever it is: what is in it, removing old answers, and forgetting people.

use super::contents::LedgerStats;
use super::settings::LedgerLocation;
use super::store::LedgerAdmin;
use super::{postgres, sqlite};
use crate::base::error::{Error, Result};

/// What to do where there is no ledger that can be looked after.
const NAME_IT: &str = "name it: a run has it in the folder of its output, with `--sandbox` as `rescore-sandbox.ledger`";

/// Opens an existing ledger.
///
/// # Errors
/// Exit code 75: a run or another command uses it. Exit code 2: it is missing, not a ledger, of another version, or damaged.
/// Exit code 3: its server cannot be reached.
pub(crate) fn administer(ledger: &LedgerLocation) -> Result<Box<dyn LedgerAdmin>> {
    match ledger {
        LedgerLocation::File(path) => match sqlite::SqliteAdmin::open(path) {
            Ok(ledger) => Ok(Box::new(ledger)),
            Err(error) => Err(error.or_hint(NAME_IT)),
        },
        LedgerLocation::Server(url) => Ok(Box::new(postgres::PostgresAdmin::open(url)?)),
        LedgerLocation::Temporary => Err(nowhere()),
    }
}

/// What is in a ledger, while runs may be using it.
///
/// # Errors
/// As [`administer`], but for exit code 75.
pub(crate) fn stats(ledger: &LedgerLocation) -> Result<LedgerStats> {
    match ledger {
        LedgerLocation::File(path) => sqlite::stats(path).map_err(|error| error.or_hint(NAME_IT)),
        LedgerLocation::Server(url) => postgres::stats(url),
        LedgerLocation::Temporary => Err(nowhere()),
    }
}

/// Makes a ledger on a server where there is none; whether there was none.
///
/// # Errors
/// Exit code 2: it cannot be made. Exit code 3: the server cannot be reached.
pub(crate) fn init(ledger: &LedgerLocation) -> Result<bool> {
    match ledger {
        LedgerLocation::Server(url) => postgres::init(url),
        LedgerLocation::File(_) | LedgerLocation::Temporary => Err(Error::usage(
            "only a ledger on a server is made by hand",
        )
        .hint(
            "give its address as `postgresql://USER@HOST/DATABASE`; a run makes its file itself",
        )),
    }
}

fn nowhere() -> Error {
    Error::internal("a ledger without a place has nothing to look after")
}
