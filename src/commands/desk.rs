//! Between the reader and the dispatcher: names each row's request and looks up what the ledger knows of it.
//!
//! On the reader's thread, so that a disk that is slow to answer holds up rows to come and not calls that are out.

use bytes::Bytes;

use crate::base::error::{Error, Result};
use crate::input::{self, Prepared};
use crate::ledger::{Lookup, LookupResult, OpenLedger, RequestHasher};
use crate::pipeline::{Ask, Batch, Request, Stop};
use crate::row::RowNumber;
use crate::telemetry::event::CancelReason;

/// Turns rows that were read into rows that ask.
#[derive(Default)]
pub(super) struct Desk {
    /// `None` where nothing is kept.
    hasher: Option<RequestHasher>,
    /// Whether equal rows share an answer.
    dedupe: bool,
    /// `None` where there is nothing to be found.
    lookup: Option<Lookup>,
}

impl Desk {
    /// A desk for this ledger; equal rows are asked once with `dedupe`, each otherwise.
    pub(super) fn new(ledger: &OpenLedger, dedupe: bool) -> Result<Self> {
        Ok(Self {
            hasher: Some(ledger.hasher()),
            dedupe,
            lookup: ledger.lookup()?,
        })
    }

    /// Has its look-ups fail as said.
    #[cfg(test)]
    pub(super) fn failing(mut self, faults: crate::ledger::StoreFaults) -> Self {
        if let Some(lookup) = &mut self.lookup {
            lookup.fail(faults);
        }
        self
    }

    pub(super) fn prepare(&mut self, batch: input::Batch) -> Result<Batch, Stop> {
        let rows = self.ask_all(batch.rows).map_err(|error| Stop {
            reason: CancelReason::Ledger,
            error: Some(error),
        })?;
        Ok(Batch {
            rows,
            position: batch.position,
            trailer: batch.trailer,
        })
    }

    fn ask_all(&mut self, rows: Vec<Prepared>) -> Result<Vec<Ask>> {
        if let Some(lookup) = &mut self.lookup {
            lookup.begin()?;
        }
        let mut asks = Vec::with_capacity(rows.len());
        for Prepared { row, request } in rows {
            let request = match request {
                Ok(body) => Ok(self.ask(body, row.number)?),
                Err(failure) => Err(failure),
            };
            asks.push(Ask { row, request });
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
