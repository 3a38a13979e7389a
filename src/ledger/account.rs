//! The accounts of a ledger, and which of them somebody asks about. Nothing is read here.

use super::key::RequestHasher;
use super::settings::LedgerAccount;
use crate::base::error::{Error, Result};

/// An account as a ledger lists it.
pub(super) struct StoredAccount {
    /// Its row.
    pub(super) id: i64,
    /// A keyed hash of the address and the service ID.
    pub(super) hash: [u8; 32],
    pub(super) address: String,
    /// How many answers there are.
    pub(super) answers: u64,
}

/// The account that is looked for.
pub(super) struct FoundAccount {
    pub(super) hasher: RequestHasher,
    /// `None` if the ledger has nothing of it.
    pub(super) id: Option<i64>,
    pub(super) endpoint: Option<String>,
    /// The addresses whose answers the ledger has instead.
    pub(super) others: Vec<String>,
}

impl FoundAccount {
    /// The named account, or else the only one with answers, in a ledger that is shown by this name.
    ///
    /// # Errors
    /// Exit code 2: several have answers, and none was named.
    pub(super) fn of(
        named: Option<LedgerAccount<'_>>,
        accounts: Vec<StoredAccount>,
        secret: &[u8; 32],
        ledger: &str,
    ) -> Result<Self> {
        let mut accounts: Vec<_> = { accounts.into_iter() }
            .filter(|account| account.answers > 0)
            .collect();
        let Some(account) = named else {
            if accounts.len() > 1 {
                let addresses = accounts.iter().map(|account| account.address.as_str());
                return Err(several_accounts(ledger, addresses));
            }
            let only = accounts.pop();
            return Ok(Self {
                id: only.as_ref().map(|account| account.id),
                hasher: only
                    .as_ref()
                    .map_or_else(RequestHasher::of_pass, |account| {
                        RequestHasher::of_account(account.hash)
                    }),
                endpoint: only.map(|account| account.address),
                others: Vec::new(),
            });
        };
        let hasher = RequestHasher::new(secret, account.endpoint, account.service_id);
        let id = { accounts.iter() }
            .find(|account| account.hash == *hasher.account())
            .map(|account| account.id);
        let others = if id.is_some() { Vec::new() } else { accounts };
        Ok(Self {
            hasher,
            id,
            endpoint: id.map(|_| account.endpoint.to_owned()),
            others: others.into_iter().map(|account| account.address).collect(),
        })
    }
}

/// The error for a ledger with the answers of several accounts, of which none was named.
fn several_accounts<'a>(ledger: &str, addresses: impl Iterator<Item = &'a str>) -> Error {
    let error = Error::usage(format!(
        "`{ledger}` has answers of several services or service ids, and none was named"
    ));
    let mut addresses: Vec<_> = addresses.collect();
    addresses.sort_unstable();
    addresses.dedup();
    { addresses.into_iter() }
        .fold(error, |error, address| error.detail(address.to_owned()))
        .hint("name one as in `run`, with `--base-url URL` and `--service-id ID`")
}
