//! The stage between the reader and the dispatcher: gives each row's request its key, and looks up what the ledger knows of it.
//!
//! It works on the reader's thread, so that a slow disk holds up rows to come and not calls in flight.

use bytes::Bytes;

use crate::base::error::{Error, Result};
use crate::input::{self, ReadRow};
use crate::ledger::{Found, Key, Keys, Ledger, Lookup, Occurrences};
use crate::pipeline::{PendingRow, Read, Request, Stop};
use crate::telemetry::event::CancelReason;

/// Turns rows that were read into rows that wait for a verdict.
#[derive(Default)]
pub(super) struct LookupStage {
    keys: Option<KeyRule>,
    /// `None` where there is nothing to find.
    lookup: Option<Lookup>,
}

/// How requests get their keys.
enum KeyRule {
    /// Identical requests share a key: they are sent once.
    Shared(Keys),
    /// Each row has its own.
    PerRow(Keys, Box<Occurrences>),
}

impl KeyRule {
    fn key(&mut self, body: &[u8]) -> Key {
        match self {
            Self::Shared(keys) => keys.key(body),
            Self::PerRow(keys, occurrences) => occurrences.key(keys, body),
        }
    }
}

impl LookupStage {
    /// A stage over this ledger. With `dedupe`, identical requests are sent once.
    ///
    /// # Errors
    /// Exit code 2: the ledger cannot be opened for reading.
    pub(super) fn new(ledger: &Ledger, dedupe: bool) -> Result<Self> {
        let keys = ledger.keys();
        let rule = if dedupe {
            KeyRule::Shared(keys)
        } else {
            KeyRule::PerRow(keys, Box::default())
        };
        Ok(Self {
            keys: Some(rule),
            lookup: ledger.lookup()?,
        })
    }

    /// The same stage, with look-ups that fail like this.
    #[cfg(test)]
    pub(super) fn failing(mut self, fails: crate::ledger::Fails) -> Self {
        if let Some(lookup) = &mut self.lookup {
            lookup.fail(fails);
        }
        self
    }

    /// Gives the rows of a batch their keys, and what the ledger knows of them.
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
                Ok(body) => Ok(self.ask(body)?),
                Err(failure) => Err(failure),
            };
            asks.push(PendingRow::new(row, request));
        }
        if let Some(lookup) = &mut self.lookup {
            lookup.end()?;
        }
        Ok(asks)
    }

    fn ask(&mut self, body: Bytes) -> Result<Request, Error> {
        let key = self.keys.as_mut().map(|rule| rule.key(&body));
        let found = match (&mut self.lookup, &key) {
            (Some(lookup), Some(key)) => lookup.find(key, &body)?,
            _ => Found::default(),
        };
        Ok(Request { body, key, found })
    }
}
