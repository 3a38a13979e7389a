//! The accounts of a ledger: which of them is asked about, and what there is of each.

use std::time::SystemTime;

use super::clock::time;
use super::database::{Database, TableRow, hex, quoted};
use super::key::RequestHasher;
use super::known_limit::KnownLimit;
use super::settings::LedgerAccount;
use crate::base::error::{Error, Result};

/// The ages that answers are counted by, in days.
pub(crate) const AGES: [u32; 3] = [1, 7, 30];
/// A day in milliseconds.
const DAY: i64 = 24 * 60 * 60 * 1_000;

/// Counts the answers of each account again, after some were removed.
pub(super) const COUNT_AGAIN: &str =
    "UPDATE accounts SET answers = (SELECT count(*) FROM answers WHERE account = accounts.id)
    WHERE answers > (SELECT count(*) FROM answers WHERE account = accounts.id)";

/// The statements that remove what is remembered of runs and limits from before this.
pub(super) fn prune_others(before: i64) -> String {
    format!(
        "DELETE FROM runs WHERE started < {before};
        UPDATE accounts SET limits = NULL WHERE limits_at < {before}"
    )
}

/// An account as a ledger lists it.
pub(super) struct StoredAccount {
    /// Its row.
    pub(super) id: i64,
    /// A keyed hash of the address and the service ID.
    hash: [u8; 32],
    address: String,
    /// How many answers there are.
    pub(super) answers: u64,
    /// The limit that runs found.
    pub(super) limit: Option<KnownLimit>,
}

/// The account that is looked for.
pub(super) struct FoundAccount {
    pub(super) hasher: RequestHasher,
    /// `None` if the ledger has nothing of it.
    pub(super) stored: Option<StoredAccount>,
    /// The address, if there are answers.
    pub(super) endpoint: Option<String>,
    /// The addresses whose answers the ledger has instead.
    pub(super) others: Vec<String>,
}

/// What is in a ledger.
pub(crate) struct LedgerStats {
    /// Bytes of its files, or of its tables.
    pub(crate) bytes: u64,
    /// When it was created.
    pub(crate) created: SystemTime,
    /// How many answers there are.
    pub(crate) answers: u64,
    /// By account, in the order of their addresses.
    pub(crate) accounts: Vec<AccountStats>,
}

/// What is in a ledger about one address and service ID.
pub(crate) struct AccountStats {
    /// The address.
    pub(crate) address: String,
    /// Makes the keys of requests.
    pub(crate) hasher: RequestHasher,
    /// How many answers there are.
    pub(crate) answers: u64,
    /// When the first and the last of them arrived; `None` without any.
    pub(crate) span: Option<(SystemTime, SystemTime)>,
    /// How many are younger than each of [`AGES`].
    pub(crate) younger: [u64; AGES.len()],
    /// The limit that runs found.
    pub(crate) limit: Option<KnownLimit>,
}

/// All accounts.
pub(super) fn accounts<D: Database>(database: &mut D) -> Result<Vec<StoredAccount>, D::Fault> {
    let query = "SELECT id, hash, address, answers, limits, limits_at FROM accounts";
    let account = |row: &TableRow| {
        Ok(StoredAccount {
            id: row.get(0)?,
            hash: row.hash(1)?,
            address: row.get(2)?,
            answers: row.get(3)?,
            limit: KnownLimit::of_row(row, 4)?,
        })
    };
    database.read(query)?.iter().map(account).collect()
}

/// Adds an account, if it is missing.
pub(super) fn add<D: Database>(
    database: &mut D,
    secret: &[u8; 32],
    account: &LedgerAccount,
) -> Result<(), D::Fault> {
    let hash = hex(hasher(secret, account).account());
    let find = format!("SELECT id FROM accounts WHERE hash = '{hash}'");
    if database.read(&find)?.is_empty() {
        let address = quoted(&account.endpoint);
        database.write(&format!(
            "INSERT INTO accounts (hash, address, answers) VALUES ('{hash}', {address}, 0) ON CONFLICT DO NOTHING"
        ))?;
    }
    Ok(())
}

fn hasher(secret: &[u8; 32], account: &LedgerAccount) -> RequestHasher {
    RequestHasher::new(secret, &account.endpoint, &account.service_id)
}

impl FoundAccount {
    /// The named account, or else the only one with answers, in a ledger that is shown by this name.
    ///
    /// # Errors
    /// Exit code 2: several have answers, and none was named.
    pub(super) fn of(
        named: Option<&LedgerAccount>,
        mut accounts: Vec<StoredAccount>,
        secret: &[u8; 32],
        ledger: &str,
    ) -> Result<Self> {
        let hasher = if let Some(named) = named {
            hasher(secret, named)
        } else {
            accounts.retain(|account| account.answers > 0);
            if accounts.len() > 1 {
                return Err(several_accounts(ledger, addresses(accounts)));
            }
            { accounts.first() }.map_or_else(RequestHasher::of_pass, |only| {
                RequestHasher::of_account(only.hash)
            })
        };
        let place = { accounts.iter() }.position(|account| account.hash == *hasher.account());
        let stored = place.map(|place| accounts.swap_remove(place));
        let answered = stored.as_ref().filter(|account| account.answers > 0);
        let endpoint = answered.map(|account| account.address.clone());
        accounts.retain(|other| endpoint.is_none() && other.answers > 0);
        Ok(Self {
            hasher,
            stored,
            endpoint,
            others: addresses(accounts),
        })
    }
}

fn addresses(accounts: Vec<StoredAccount>) -> Vec<String> {
    { accounts.into_iter() }
        .map(|account| account.address)
        .collect()
}

/// The error for a ledger with the answers of several accounts, of which none was named.
fn several_accounts(ledger: &str, mut addresses: Vec<String>) -> Error {
    let error = Error::usage(format!(
        "`{ledger}` has answers of several services or service ids, and none was named"
    ));
    addresses.sort_unstable();
    addresses.dedup();
    { addresses.into_iter() }
        .fold(error, Error::detail)
        .hint("name one as in `run`, with `--base-url URL` and `--service-id ID`")
}

impl LedgerStats {
    /// Counts what is in a ledger of this size.
    pub(super) fn read<D: Database>(
        database: &mut D,
        bytes: u64,
        created: i64,
    ) -> Result<Self, D::Fault> {
        let younger = AGES.map(|days| {
            let age = DAY * i64::from(days);
            format!("count(seq) FILTER (WHERE at >= {} - {age})", D::NOW)
        });
        let query = format!(
            "SELECT address, hash, limits, limits_at, count(seq), min(at), max(at), {}
            FROM accounts LEFT JOIN answers ON account = accounts.id
            GROUP BY accounts.id ORDER BY address, accounts.id",
            younger.join(", ")
        );
        let account = |row: &TableRow| {
            let span = row.optional(5)?.zip(row.optional(6)?);
            Ok(AccountStats {
                address: row.get(0)?,
                hasher: RequestHasher::of_account(row.hash(1)?),
                limit: KnownLimit::of_row(row, 2)?,
                answers: row.get(4)?,
                span: span.map(|(first, last)| (time(first), time(last))),
                younger: [row.get(7)?, row.get(8)?, row.get(9)?],
            })
        };
        let rows = database.read(&query)?;
        let accounts = rows.iter().map(account);
        let accounts: Vec<_> = accounts.collect::<Result<_, D::Fault>>()?;
        Ok(Self {
            bytes,
            created: time(created),
            answers: accounts.iter().map(|account| account.answers).sum(),
            accounts,
        })
    }
}
