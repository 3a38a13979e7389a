//! What is in a ledger, in numbers, wherever it is. It must not know how it is read or shown.

use std::time::SystemTime;

use super::clock::time;
use super::known_limit::KnownLimit;

/// The ages that answers are counted by, in days.
pub(crate) const AGES: [u32; 3] = [1, 7, 30];

/// What is in a ledger.
#[derive(Debug)]
pub struct LedgerStats {
    /// Bytes of its files, or of its tables.
    pub(crate) bytes: u64,
    /// The schema's version.
    pub(crate) version: i32,
    /// When it was created.
    pub(crate) created: SystemTime,
    /// How many answers there are.
    pub(crate) answers: u64,
    /// By address, in the order of their names.
    pub(crate) endpoints: Vec<EndpointStats>,
}

/// What is in a ledger about one address.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct EndpointStats {
    /// The address.
    pub(crate) endpoint: String,
    /// How many service IDs it was asked with.
    pub(crate) ids: u64,
    /// How many answers there are.
    pub(crate) answers: u64,
    /// When the first and the last of them arrived; `None` without any.
    pub(crate) span: Option<(SystemTime, SystemTime)>,
    /// How many are younger than each of [`AGES`].
    pub(crate) younger: [u64; AGES.len()],
    /// The limits that runs found, at most one for each service ID.
    pub(crate) limits: Vec<KnownLimit>,
}

impl EndpointStats {
    /// Adds the answers of one account: how many there are, when the first and the last of them arrived, in milliseconds
    /// since 1970, and how many are younger than each of [`AGES`].
    pub(super) fn add(&mut self, answers: u64, span: (i64, i64), younger: [u64; AGES.len()]) {
        self.answers += answers;
        for (sum, younger) in self.younger.iter_mut().zip(younger) {
            *sum += younger;
        }
        let (first, last) = (time(span.0), time(span.1));
        let (earliest, latest) = self.span.unwrap_or((first, last));
        self.span = Some((earliest.min(first), latest.max(last)));
    }
}
