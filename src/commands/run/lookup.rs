//! The stage between the reader and the dispatcher: gives each row's request its key, and looks up what the ledger knows of it.
//!
//! It works on the reader's thread, so that a slow disk holds up rows to come and not calls in flight.

use bytes::Bytes;

use crate::base::error::{Error, Result};
use crate::input::{self, ReadRow};
use crate::ledger::{AnsweredIn, Lookup, LookupResult, RequestHasher, RequestKey};
use crate::pipeline::{PendingRow, Read, Request, Stop};
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
    /// A stage over a ledger whose keys are made so, and which is looked up if there is anything to find. With `dedupe`,
    /// equal rows share one call and its answer.
    pub(super) const fn new(hasher: RequestHasher, lookup: Option<Lookup>, dedupe: bool) -> Self {
        Self {
            hasher: Some(hasher),
            dedupe,
            lookup,
        }
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
        let keys = self.keys(&rows);
        if let Some(lookup) = &mut self.lookup {
            lookup.begin()?;
        }
        let mut keys = keys.into_iter();
        let mut asks = Vec::with_capacity(rows.len());
        for ReadRow { row, request } in rows {
            let request = match request {
                Ok(body) => Ok(self.ask(body, keys.next())?),
                Err(failure) => Err(failure),
            };
            asks.push(PendingRow::new(row, request));
        }
        if let Some(lookup) = &mut self.lookup {
            lookup.end()?;
        }
        Ok(asks)
    }

    /// Whether anything is known of each row that can be sent: an answer, even one that is damaged, or a failure.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub(super) fn known(&mut self, rows: &[ReadRow]) -> Result<Vec<bool>> {
        let keys = self.keys(rows);
        let Some(lookup) = &mut self.lookup else {
            return Ok(vec![false; keys.len()]);
        };
        lookup.begin()?;
        let bodies = rows.iter().filter_map(|row| row.request.as_ref().ok());
        let mut known = Vec::with_capacity(keys.len());
        for (key, body) in keys.iter().zip(bodies) {
            let (found, _) = lookup.find_with_run(key, body)?;
            known.push(found.known.is_some() || found.unusable.is_some());
        }
        lookup.end()?;
        Ok(known)
    }

    /// The keys of all rows that can be sent; none where nothing is stored.
    fn keys(&self, rows: &[ReadRow]) -> Vec<RequestKey> {
        let Some(hasher) = &self.hasher else {
            return Vec::new();
        };
        let key = |ReadRow { row, request }: &ReadRow| {
            let shared = hasher.key(request.as_ref().ok()?);
            Some(if self.dedupe {
                shared
            } else {
                shared.for_row(row.number)
            })
        };
        rows.iter().filter_map(key).collect()
    }

    fn ask(&mut self, body: Bytes, key: Option<RequestKey>) -> Result<Request, Error> {
        let (found, answered_in) = match (&mut self.lookup, &key) {
            (Some(lookup), Some(key)) => lookup.find_with_run(key, &body)?,
            _ => (LookupResult::default(), AnsweredIn::ThisRun),
        };
        Ok(Request {
            body,
            key,
            found,
            answered_in,
        })
    }
}
