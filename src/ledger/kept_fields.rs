//! The additional fields that a run's new answers are stored with: its own, and then those that other runs of the ledger ask
//! for, as the run learns of them.
//!
//! An answer that lacks a field is asked for again, so what other runs ask for while this one is under way counts as well.
//! The list only grows at its end: an answer has a value for each of the first fields of the list, and how many it has says
//! which list it is stored with. This file must not know any database.

use std::collections::HashMap;

use tokio::sync::watch;

use crate::raw_json::Pointer;

/// How many fields of all runs a ledger remembers, the most recent ones: far more than anybody looks at, and few enough to
/// bound how large answers grow. A run that asks for more gets all of its own.
pub(super) const REMEMBERED: u32 = 64;

/// The longest that a list grows by the fields of other runs: all that are remembered, and as many again while a run is
/// under way.
const MOST: usize = 2 * REMEMBERED as usize;

/// The additional fields that are kept of each answer that arrives, as they are now: those of the run first, in its order.
pub(crate) type FieldsToKeep = watch::Receiver<Vec<Pointer>>;

/// The list, and the number `N` of each list that answers were stored with.
pub(super) struct KeptFields<N> {
    list: watch::Sender<Vec<Pointer>>,
    /// By how many fields there were.
    numbers: HashMap<usize, N>,
}

impl<N: Copy> KeptFields<N> {
    /// Those of a run.
    pub(super) fn new(requested: Vec<Pointer>) -> Self {
        Self {
            list: watch::Sender::new(requested),
            numbers: HashMap::new(),
        }
    }

    /// The list as it is now, and as it grows.
    pub(super) fn to_keep(&self) -> FieldsToKeep {
        self.list.subscribe()
    }

    /// Adds what other runs have asked for.
    pub(super) fn learn(&self, remembered: impl IntoIterator<Item = Pointer>) {
        self.list.send_if_modified(|list| {
            let known = list.len();
            for pointer in remembered {
                if list.len() < MOST && !list.contains(&pointer) {
                    list.push(pointer);
                }
            }
            list.len() > known
        });
    }

    /// The number of the list that answers with so many values are stored with. `find` finds that of a new one.
    ///
    /// # Errors
    /// `find` failed.
    pub(super) fn number<E>(
        &mut self,
        values: usize,
        find: impl FnOnce(&[Pointer]) -> Result<N, E>,
    ) -> Result<N, E> {
        if let Some(known) = self.numbers.get(&values) {
            return Ok(*known);
        }
        let number = find(self.list.borrow().get(..values).unwrap_or_default())?;
        self.numbers.insert(values, number);
        Ok(number)
    }
}
