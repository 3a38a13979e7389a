//! The stage between the reader and the dispatcher: gives each row's request its key, and looks up what the ledger knows of it.
//!
//! It works on the reader's thread, so that a slow disk holds up rows to come and not calls in flight.

use crate::base::error::Result;
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
            },
            Err(error) => Read::Failed(Stop::new(CancelReason::Ledger, error)),
        }
    }

    fn ask_all(&mut self, rows: Vec<ReadRow>) -> Result<Vec<PendingRow>> {
        let bodies = rows.iter().filter_map(|row| row.request.as_ref().ok());
        let keys: Vec<RequestKey> = bodies.map(|body| self.hasher.key(body)).collect();
        let found = self.lookup.look_up(&keys)?;
        let mut known = keys.into_iter().zip(found);
        let ask = |ReadRow { row, request }| {
            let request = request.map(|body| {
                // There is one for each.
                let (key, found) = known.next().unzip();
                let found: LookupResult = found.unwrap_or_default();
                Request { body, key, found }
            });
            PendingRow::new(row, request)
        };
        Ok(rows.into_iter().map(ask).collect())
    }
}
