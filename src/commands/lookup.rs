//! The stage between the reader and the dispatcher: gives each row's request its key, and looks up what the ledger knows of it.
//!
//! It works on the reader's thread, so that a slow disk holds up rows to come and not calls in flight.

use std::mem;

use crate::base::error::{Error, Result};
use crate::ledger::{Lookup, RequestHasher, RequestKey};
use crate::row_state::{Row, RowState};

/// Turns rows that are asked for into rows that wait for a verdict.
pub(super) struct LookupStage {
    hasher: RequestHasher,
    lookup: Lookup,
}

impl LookupStage {
    /// A stage over a ledger whose keys are made so.
    pub(super) const fn new(hasher: RequestHasher, lookup: Lookup) -> Self {
        Self { hasher, lookup }
    }

    /// The same stage, with look-ups that fail like this.
    #[cfg(test)]
    pub(super) fn failing(self, faults: crate::ledger::StoreFaults) -> Self {
        Self {
            lookup: self.lookup.failing(faults),
            ..self
        }
    }

    /// Gives each of these rows that is asked for its key, and what the ledger knows of it.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub(super) fn look_up(&mut self, rows: &mut [Row]) -> Result<()> {
        let bodies = rows.iter().filter_map(|row| match &row.state {
            RowState::Asked(body) => Some(body),
            _ => None,
        });
        let keys: Vec<RequestKey> = bodies.map(|body| self.hasher.key(body)).collect();
        let found = self.lookup.look_up(&keys)?;
        let mut known = keys.into_iter().zip(found);
        for row in rows {
            if let RowState::Asked(body) = &mut row.state {
                let (key, found) = known.next().ok_or_else(unanswered)?;
                let body = mem::take(body);
                row.state = RowState::Waiting { body, key, found };
            }
        }
        Ok(())
    }
}

/// There is an answer for each request, known or not.
fn unanswered() -> Error {
    Error::internal("a look-up had no answer for a request")
}
