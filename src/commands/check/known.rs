//! Which requests of a file a ledger can answer already, and the hashes of the others.

use crate::base::error::Result;
use crate::ledger::{KnownOutcome, Lookup, RequestHasher, RequestKey};
use crate::row::RowNumber;
use crate::telemetry::event::Unusable;

/// Tells what a run would do about a request.
pub(super) struct RequestLookup {
    hasher: RequestHasher,
    /// `None` without a ledger.
    lookup: Option<Lookup>,
    /// Whether equal rows share an answer.
    dedupe: bool,
}

/// What a run would do about a request.
pub(super) enum RequestState {
    /// Nothing: its answer is paid for.
    Known,
    /// Nothing: the unfinished run has failed on it.
    FailedBefore,
    /// It would send it, once for all requests with this hash; `None` if each row is sent on its own.
    New(Option<[u8; 16]>),
}

impl RequestLookup {
    /// Without a ledger nothing is known.
    pub(super) fn without_ledger(dedupe: bool) -> Self {
        Self {
            hasher: RequestHasher::of_pass(),
            lookup: None,
            dedupe,
        }
    }

    /// Over the answers of a ledger.
    pub(super) const fn over(lookup: Lookup, hasher: RequestHasher, dedupe: bool) -> Self {
        Self {
            hasher,
            lookup: Some(lookup),
            dedupe,
        }
    }

    /// Makes the lookups that follow, up to [`Self::end`], cost less for each.
    pub(super) fn begin(&mut self) -> Result<()> {
        self.lookup.as_mut().map_or(Ok(()), Lookup::begin)
    }

    /// Ends what [`Self::begin`] started.
    pub(super) fn end(&mut self) -> Result<()> {
        self.lookup.as_mut().map_or(Ok(()), Lookup::end)
    }

    /// What a run would do about the request of a row, and why a stored answer to it cannot be used.
    pub(super) fn find(
        &mut self,
        body: &[u8],
        row: RowNumber,
    ) -> Result<(RequestState, Option<Unusable>)> {
        if self.lookup.is_none() && !self.dedupe {
            return Ok((RequestState::New(None), None));
        }
        let shared = self.hasher.key(body);
        let new = RequestState::New(self.dedupe.then(|| shared.hash()));
        let Some(lookup) = &mut self.lookup else {
            return Ok((new, None));
        };
        let key = key(&self.hasher, body, row, self.dedupe);
        let (found, _) = lookup.find_with_run(&key, body)?;
        let state = match found.known {
            Some(KnownOutcome::Answer(_)) => RequestState::Known,
            Some(KnownOutcome::Failure(_)) => RequestState::FailedBefore,
            None => new,
        };
        Ok((state, found.unusable))
    }
}

/// The key of a row's request.
fn key(hasher: &RequestHasher, body: &[u8], row: RowNumber, dedupe: bool) -> RequestKey {
    let shared = hasher.key(body);
    if dedupe { shared } else { shared.for_row(row) }
}
