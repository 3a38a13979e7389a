//! Which requests of a file a ledger can answer already, and how many different ones are left.

use std::collections::HashSet;

use crate::base::error::Result;
use crate::ledger::{Lookup, LookupResult, RequestHasher, RequestKey};

/// Tells what a run would do about requests.
pub(super) struct RequestLookup {
    hasher: RequestHasher,
    /// `None` without a ledger.
    lookup: Option<Box<dyn Lookup>>,
    /// The fingerprints of those that nothing is known of: 16 to 32 bytes for each. Two of ten million share one with a chance
    /// below one in 300,000, and the count would then be too low by one call.
    new: HashSet<i64>,
}

impl RequestLookup {
    /// Without a ledger nothing is known.
    pub(super) fn without_ledger() -> Self {
        Self {
            hasher: RequestHasher::of_pass(),
            lookup: None,
            new: HashSet::new(),
        }
    }

    /// Over the answers of a ledger.
    pub(super) fn over(lookup: Box<dyn Lookup>, hasher: RequestHasher) -> Self {
        Self {
            hasher,
            lookup: Some(lookup),
            new: HashSet::new(),
        }
    }

    /// What is known of the requests with these bodies, each with its key.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub(super) fn find<'a>(
        &mut self,
        bodies: impl Iterator<Item = &'a [u8]>,
    ) -> Result<Vec<(RequestKey, LookupResult)>> {
        let keys: Vec<_> = bodies.map(|body| self.hasher.key(body)).collect();
        let found = match &mut self.lookup {
            Some(lookup) => lookup.look_up(&keys)?,
            None => vec![LookupResult::default(); keys.len()],
        };
        Ok(keys.into_iter().zip(found).collect())
    }

    /// A request will be sent, once for all that are the same.
    pub(super) fn send(&mut self, key: &RequestKey) {
        self.new.insert(key.fingerprint());
    }

    /// How many different requests will be sent.
    pub(super) fn calls(&self) -> u64 {
        self.new.len() as u64
    }
}
