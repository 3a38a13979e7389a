//! What is in a ledger, in numbers, wherever it is. It must not know how it is read or shown.

use std::time::SystemTime;

use super::known_limit::KnownLimit;

/// The ages that answers are counted by, in days.
pub(crate) const AGES: [u32; 3] = [1, 7, 30];

/// What is in a ledger.
#[derive(Debug)]
pub(crate) struct LedgerStats {
    /// Bytes of its files, or of its tables.
    pub(crate) bytes: u64,
    /// The schema's version.
    pub(crate) version: i32,
    /// When it was created.
    pub(crate) created: SystemTime,
    /// How many answers there are.
    pub(crate) answers: u64,
    /// By account, in the order of their addresses.
    pub(crate) accounts: Vec<AccountStats>,
}

/// What is in a ledger about one address and service ID.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct AccountStats {
    /// The address.
    pub(crate) address: String,
    /// How many answers there are.
    pub(crate) answers: u64,
    /// When the first and the last of them arrived; `None` without any.
    pub(crate) span: Option<(SystemTime, SystemTime)>,
    /// How many are younger than each of [`AGES`].
    pub(crate) younger: [u64; AGES.len()],
    /// The limit that runs found.
    pub(crate) limit: Option<KnownLimit>,
}
