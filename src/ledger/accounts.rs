//! The accounts of a ledger, each an address and a service ID: which of them is asked about, what there is of each, and the load
//! that its service was found to accept.

use std::time::{Duration, SystemTime};

use super::database::{Database, TableRow, hex, quoted};
use super::fault::DbFault;
use super::key::RequestHasher;
use super::settings::{LedgerAccount, millis, time};
use crate::base::error::{Error, Result as RunResult};
use crate::telemetry::pace::Limit;

/// How long a limit is used. After that the plan, the quota or the service itself may have changed, and searching for the
/// limit again takes a minute. It is long enough for jobs that rest at weekends.
const LIMIT_IS_USED: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// What is in a ledger about one address and service ID.
pub(crate) struct StoredAccount {
    /// Its row.
    pub(super) id: i64,
    /// The address.
    pub(crate) address: String,
    /// Makes the keys of requests.
    pub(crate) hasher: RequestHasher,
    /// How many answers there are that brought a verdict; where all are counted, all.
    pub(crate) answers: u64,
    /// When the first and the last of them arrived, if that was looked for.
    pub(crate) span: Option<(SystemTime, SystemTime)>,
    /// The limit that runs found.
    pub(crate) limit: Option<KnownLimit>,
}

/// The load that a service was found to accept.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct KnownLimit {
    /// The limit.
    pub(crate) limit: Limit,
    /// When the service last showed it.
    pub(crate) found: SystemTime,
}

impl KnownLimit {
    /// Whether it may be used. A time in the future comes from a clock that was wrong, so the age is not known.
    pub(super) fn is_recent(&self, now: SystemTime) -> bool {
        let age = now.duration_since(self.found);
        age.is_ok_and(|age| age < LIMIT_IS_USED)
    }

    /// The statement that stores it for an account.
    pub(super) fn update(&self, account: i64) -> String {
        let limit = self.limit;
        let limit = (limit != Limit::NONE).then(|| serde_json::to_string(&limit).ok());
        let limits = { limit.flatten() }.map_or("NULL".to_owned(), |limit| quoted(&limit));
        let found = millis(self.found);
        format!("UPDATE accounts SET limits = {limits}, limits_at = {found} WHERE id = {account};")
    }
}

impl StoredAccount {
    /// All accounts, with the answers as each group counts them.
    pub(super) fn all(database: &mut dyn Database) -> Result<Vec<Self>, DbFault> {
        Self::read(database, "answers, NULL, NULL", "")
    }

    /// All accounts, with all that is stored about each counted: everything is read.
    pub(super) fn all_counted(database: &mut dyn Database) -> Result<Vec<Self>, DbFault> {
        let join = "LEFT JOIN answers ON account = accounts.id GROUP BY accounts.id";
        Self::read(database, "count(seq), min(at), max(at)", join)
    }

    fn read(database: &mut dyn Database, numbers: &str, join: &str) -> Result<Vec<Self>, DbFault> {
        let query = format!(
            "SELECT accounts.id, hash, address, limits, limits_at, {numbers}
            FROM accounts {join} ORDER BY address, accounts.id"
        );
        let account = |row: &TableRow| {
            let limit = row.optional::<String>(3)?.zip(row.optional(4)?);
            let limit = limit.map(|(limit, found)| {
                let limit = serde_json::from_str(&limit).map_err(|_| DbFault::damaged())?;
                let found = time(found);
                Ok::<_, DbFault>(KnownLimit { limit, found })
            });
            let span = row.optional(6)?.zip(row.optional(7)?);
            Ok(Self {
                id: row.get(0)?,
                hasher: RequestHasher::of_account(row.hash(1)?),
                address: row.get(2)?,
                limit: limit.transpose()?,
                answers: row.get(5)?,
                span: span.map(|(first, last)| (time(first), time(last))),
            })
        };
        database.query(&query)?.iter().map(account).collect()
    }

    /// Adds an account, if it is missing: whether it was.
    pub(super) fn add(
        database: &mut dyn Database,
        secret: &[u8; 32],
        account: &LedgerAccount,
    ) -> Result<bool, DbFault> {
        let hash = hex(hasher(secret, account).account());
        let find = format!("SELECT id FROM accounts WHERE hash = '{hash}'");
        if !database.query(&find)?.is_empty() {
            return Ok(false);
        }
        let address = quoted(&account.endpoint);
        database.write(&format!(
            "INSERT INTO accounts (hash, address, answers) VALUES ('{hash}', {address}, 0) ON CONFLICT DO NOTHING"
        ))?;
        Ok(true)
    }
}

fn hasher(secret: &[u8; 32], account: &LedgerAccount) -> RequestHasher {
    RequestHasher::new(secret, &account.endpoint, &account.service_id)
}

/// The account that is looked for, as `find` returns it: what makes its keys, its row if there is one, and the addresses whose
/// answers the ledger has if it has none of it.
pub(super) type FoundAccount = (RequestHasher, Option<StoredAccount>, Vec<String>);

/// The named account, or else the only one with answers, in a ledger that is shown by this name.
///
/// # Errors
/// Exit code 2: several have answers, and none was named.
pub(super) fn find(
    named: Option<&LedgerAccount>,
    mut accounts: Vec<StoredAccount>,
    secret: &[u8; 32],
    ledger: &str,
) -> RunResult<FoundAccount> {
    let hasher = if let Some(named) = named {
        hasher(secret, named)
    } else {
        accounts.retain(|account| account.answers > 0);
        match &accounts[..] {
            [] => RequestHasher::of_pass(),
            [only] => only.hasher.clone(),
            several => return Err(several_accounts(ledger, several)),
        }
    };
    let place =
        { accounts.iter() }.position(|account| account.hasher.account() == hasher.account());
    let found = place.map(|place| accounts.remove(place));
    let has_answers = found.as_ref().is_some_and(|account| account.answers > 0);
    accounts.retain(|other| !has_answers && other.answers > 0);
    let others = accounts.into_iter().map(|account| account.address);
    Ok((hasher, found, others.collect()))
}

/// The error for a ledger with the answers of several accounts, of which none was named.
fn several_accounts(ledger: &str, accounts: &[StoredAccount]) -> Error {
    let error = Error::usage(format!(
        "`{ledger}` has answers of several services or service ids, and none was named"
    ));
    // They are in the order of their addresses.
    let mut addresses: Vec<_> = accounts.iter().map(|it| it.address.as_str()).collect();
    addresses.dedup();
    { addresses.into_iter() }
        .fold(error, Error::detail)
        .hint("name one as in `run`, with `--base-url URL` and `--service-id ID`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_used_for_a_week() {
        let limit = KnownLimit {
            limit: Limit::NONE,
            found: SystemTime::now(),
        };
        let days = |days: u64| Duration::from_secs(days * 24 * 60 * 60);
        assert!(limit.is_recent(limit.found + days(6)));
        assert!(!limit.is_recent(limit.found + days(7)));
        assert!(!limit.is_recent(limit.found - days(1)));
    }
}
