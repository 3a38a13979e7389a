//! The stage between the reader and the dispatcher: gives each row's request its key, and looks up what the ledger knows of it.
//!
//! It works on the reader's thread, so that a slow disk holds up rows to come and not calls in flight.

use crate::base::error::{Error, Result};
use crate::engine::{PendingRow, Read, Request, Stop};
use crate::input::{self, ReadRow};
use crate::ledger::{Lookup, LookupResult, RequestHasher, RequestKey};
use crate::telemetry::event::CancelReason;

/// Turns rows that were read into rows that wait for a verdict.
pub(super) struct LookupStage {
    hasher: RequestHasher,
    lookup: Box<dyn Lookup>,
}

impl LookupStage {
    /// A stage over a ledger whose keys are made so.
    pub(super) const fn new(hasher: RequestHasher, lookup: Box<dyn Lookup>) -> Self {
        Self { hasher, lookup }
    }

    /// The same stage, with look-ups that fail like this.
    #[cfg(test)]
    pub(super) fn failing(self, faults: crate::ledger::StoreFaults) -> Self {
        let lookup = crate::ledger::FailingLookup {
            lookup: self.lookup,
            faults,
            reads: 0,
        };
        Self {
            lookup: Box::new(lookup),
            ..self
        }
    }

    /// Gives the rows of a batch their keys, and what the ledger knows of them. A ledger that cannot be read stops the run.
    pub(super) fn prepare(&mut self, batch: input::RowBatch) -> Read {
        match self.ask_all(batch.rows) {
            Ok(rows) => Read::Rows {
                rows,
                position: batch.position,
                trailer: batch.trailer,
                dropped: batch.dropped,
            },
            Err(error) => Read::Failed(Stop::new(CancelReason::Ledger, error)),
        }
    }

    /// The key of each request among these rows, with what the ledger knows of it.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub(super) fn look_up(
        &mut self,
        rows: &[ReadRow],
    ) -> Result<impl Iterator<Item = (RequestKey, LookupResult)> + use<>> {
        let bodies = rows.iter().filter_map(|row| row.request.as_ref().ok());
        let keys: Vec<RequestKey> = bodies.map(|body| self.hasher.key(body)).collect();
        let found = self.lookup.look_up(&keys)?;
        Ok(keys.into_iter().zip(found))
    }

    fn ask_all(&mut self, rows: Vec<ReadRow>) -> Result<Vec<PendingRow>> {
        let mut known = self.look_up(&rows)?;
        let ask = |ReadRow { row, request, .. }| {
            let request = match request {
                Ok(body) => {
                    let (key, found) = known.next().ok_or_else(unanswered)?;
                    Ok(Request { body, key, found })
                }
                Err(failure) => Err(failure),
            };
            Ok(PendingRow::new(row, request))
        };
        rows.into_iter().map(ask).collect()
    }
}

/// There is an answer for each request, known or not.
fn unanswered() -> Error {
    Error::internal("a look-up had no answer for a request")
}
