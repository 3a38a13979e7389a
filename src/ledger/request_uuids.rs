//! The UUIDs that calls carry with `--idempotency-header`: the same for every attempt of a request, in every continuation of
//! a run.
//!
//! A UUID is a hash of the request's key, of the run, and of the time of the answer that it replaces, if this run has one
//! that it no longer uses. It is made with the ledger's secret: neither the request nor the secret can be found from it,
//! and it is not the key that the ledger stores. Another run has other UUIDs, or a service that remembers its answers would
//! give an old one to a run that asks again on purpose. This file must not know calls, or what a UUID is sent in.

use super::request_key::{RequestHasher, RequestKey, RunId};
use crate::base::request_uuid::RequestUuid;
use crate::row::RowNumber;

/// Makes the UUIDs of a run's requests.
pub(crate) struct RequestUuids {
    hasher: RequestHasher,
    /// `None` for a run that is not recorded, and so never continues.
    run: Option<RunId>,
}

impl RequestUuids {
    /// For a run that is recorded in a ledger.
    pub(super) const fn of_run(hasher: RequestHasher, run: RunId) -> Self {
        Self {
            hasher,
            run: Some(run),
        }
    }

    /// For a run that stores nothing: they mean nothing after it.
    #[must_use]
    pub(crate) fn of_pass() -> Self {
        Self {
            hasher: RequestHasher::of_pass(),
            run: None,
        }
    }

    /// The UUID of a request with this body; without a key, of this row's request alone. `expired` is when the answer came
    /// that this run has and no longer uses.
    #[must_use]
    pub(crate) fn of(
        &self,
        key: Option<RequestKey>,
        row: RowNumber,
        body: &[u8],
        expired: Option<i64>,
    ) -> RequestUuid {
        let key = key.unwrap_or_else(|| self.hasher.key(body).for_row(row));
        RequestUuid::of_hash(self.hasher.uuid(&key, self.run.as_ref(), expired))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_row_has_its_own_where_nothing_is_stored() {
        let uuids = RequestUuids::of_pass();
        let (first, second) = (RowNumber::FIRST, RowNumber::FIRST.next());
        let of = |row, body| uuids.of(None, row, body, None);
        assert_eq!(of(first, b"{}"), of(first, b"{}"));
        let all = [of(first, b"{}"), of(second, b"{}"), of(first, b"{ }")];
        assert_eq!(HashSet::from(all).len(), 3);
        let other = RequestUuids::of_pass().of(None, first, b"{}", None);
        assert_ne!(other, of(first, b"{}"), "the next run has another secret");
    }
}
