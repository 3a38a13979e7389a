//! The stage between the reader and the dispatcher: gives each row's request its key, and looks up what the ledger knows of it.
//!
//! It works on the reader's thread, so that a slow disk holds up rows to come and not calls in flight.

use bytes::Bytes;

use crate::base::error::{Error, Result};
use crate::input::{self, ReadRow};
use crate::ledger::{Lookup, LookupResult, OpenLedger, RequestHasher};
use crate::pipeline::{PendingRow, Read, Request, Stop};
use crate::row::RowNumber;
use crate::telemetry::event::CancelReason;

/// Turns rows that were read into rows that wait for a verdict.
#[derive(Default)]
pub(super) struct LookupStage {
    /// `None` where nothing is stored.
    hasher: Option<RequestHasher>,
    /// Whether equal rows share an answer.
    dedupe: bool,
    /// `None` where there is nothing to find.
    lookup: Option<Lookup>,
}

impl LookupStage {
    /// A stage over this ledger. With `dedupe`, equal rows share one call and its answer.
    ///
    /// # Errors
    /// Exit code 2: the ledger cannot be opened for reading.
    pub(super) fn new(ledger: &OpenLedger, dedupe: bool) -> Result<Self> {
        Ok(Self {
            hasher: Some(ledger.hasher()),
            dedupe,
            lookup: ledger.lookup()?,
        })
    }

    /// The same stage, with look-ups that fail like this.
    #[cfg(test)]
    pub(super) fn failing(mut self, fails: crate::ledger::StoreFaults) -> Self {
        if let Some(lookup) = &mut self.lookup {
            lookup.fail(fails);
        }
        self
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
        if let Some(lookup) = &mut self.lookup {
            lookup.begin()?;
        }
        let mut asks = Vec::with_capacity(rows.len());
        for ReadRow { row, request } in rows {
            let request = match request {
                Ok(body) => Ok(self.ask(body, row.number)?),
                Err(failure) => Err(failure),
            };
            asks.push(PendingRow::new(row, request));
        }
        if let Some(lookup) = &mut self.lookup {
            lookup.end()?;
        }
        Ok(asks)
    }

    fn ask(&mut self, body: Bytes, row: RowNumber) -> Result<Request, Error> {
        let key = self.hasher.as_ref().map(|hasher| {
            let shared = hasher.key(&body);
            if self.dedupe {
                shared
            } else {
                shared.for_row(row)
            }
        });
        let found = match (&mut self.lookup, &key) {
            (Some(lookup), Some(key)) => lookup.find(key, &body)?,
            _ => LookupResult::default(),
        };
        Ok(Request { body, key, found })
    }
}
