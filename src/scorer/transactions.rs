//! The transaction ids of the last answers: one id for two different requests means that somebody mixes answers up.
//!
//! A cache or proxy that gives one user's answer to another is the worst of faults, as every row looks right. Nothing
//! of a request or an answer is kept but hashes under a secret of this run, and only of so many.

use std::collections::VecDeque;
use std::collections::hash_map::{Entry, HashMap, RandomState};
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};

use crate::row::RowNumber;
use crate::verdict::TransactionId;

/// How many ids are remembered, some 200 KiB: a broken cache repeats itself sooner.
const LAST: usize = 4_096;

/// What is remembered.
#[derive(Debug, Default)]
pub struct Transactions {
    hashes: RandomState,
    seen: HashMap<u64, Seen, BuildHasherDefault<Hashed>>,
    order: VecDeque<u64>,
}

#[derive(Debug)]
struct Seen {
    row: RowNumber,
    request: u64,
}

impl Transactions {
    /// Takes note of an answer's id; the row that had it before, where that asked something else. Whoever asks the same
    /// again may well be told the same.
    pub(super) fn note(
        &mut self,
        id: &TransactionId,
        request: &[u8],
        row: RowNumber,
    ) -> Option<RowNumber> {
        let request = self.hashes.hash_one(request);
        let id = self.hashes.hash_one(id.as_str());
        match self.seen.entry(id) {
            Entry::Occupied(seen) => {
                let seen = seen.get();
                return (seen.request != request).then_some(seen.row);
            }
            Entry::Vacant(place) => place.insert(Seen { row, request }),
        };
        self.order.push_back(id);
        if self.order.len() > LAST
            && let Some(oldest) = self.order.pop_front()
        {
            self.seen.remove(&oldest);
        }
        None
    }
}

/// Takes a hash for what it is: to hash it again would cost more than the rest.
#[derive(Debug, Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        // Nothing but `u64` is a key here.
        debug_assert!(bytes.is_empty());
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Notes an id for a request; which row had it before, by number.
    fn note(transactions: &mut Transactions, id: usize, request: &str, row: u64) -> Option<u64> {
        let id = TransactionId::new(&format!("t-{id}")).unwrap();
        let row = (1..row).fold(RowNumber::FIRST, |number, _| number.next());
        let before = transactions.note(&id, request.as_bytes(), row);
        before.map(RowNumber::get)
    }

    #[test]
    fn one_id_for_two_requests_is_noticed_and_each_time() {
        let mut transactions = Transactions::default();
        assert_eq!(note(&mut transactions, 1, "Ann", 1), None);
        assert_eq!(note(&mut transactions, 2, "Bob", 2), None);
        assert_eq!(note(&mut transactions, 1, "Ann", 3), None, "the same user");
        assert_eq!(note(&mut transactions, 1, "Eve", 4), Some(1));
        assert_eq!(note(&mut transactions, 1, "Joe", 5), Some(1));
    }

    #[test]
    fn only_the_last_ids_are_remembered() {
        let mut transactions = Transactions::default();
        for id in 0..3 * LAST {
            assert_eq!(note(&mut transactions, id, "Ann", 1), None);
        }
        assert_eq!(transactions.seen.len(), LAST);
        assert_eq!(transactions.order.len(), LAST);
        assert_eq!(note(&mut transactions, 2 * LAST, "Bob", 2), Some(1));
        assert_eq!(note(&mut transactions, 2 * LAST - 1, "Bob", 2), None);
    }
}
