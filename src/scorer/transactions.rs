//! The transaction ids of the last answers: one id for two different requests means that answers are mixed up.
//!
//! A cache or proxy that gives one user's answer to another is the worst fault of all, because every row looks right. Of
//! requests and answers only hashes with a seed of this run are kept, and only of the last ones.

use std::collections::HashMap;
use std::hash::BuildHasher;

use foldhash::quality::RandomState;

use crate::row::RowNumber;
use crate::verdict::TransactionId;

/// How many ids are remembered at least; twice as many take about 400 KiB. A broken cache repeats itself sooner.
const LAST: usize = 4_096;

/// The last ids in two generations: when the younger is full, the older is forgotten as a whole. Finding and removing the
/// oldest id at each answer would cost more than all the rest.
#[derive(Debug, Default)]
pub(super) struct Transactions {
    hashes: RandomState,
    younger: HashMap<u64, FirstUse, RandomState>,
    older: HashMap<u64, FirstUse, RandomState>,
}

/// A row of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RowOfFile {
    /// The number of its file; 0 for a run of one file.
    pub(super) file: u64,
    pub(super) row: RowNumber,
}

/// What a row asked, with the seed of this run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RequestHash(u64);

/// The row that an id came with first, and what that row asked.
#[derive(Debug)]
struct FirstUse {
    row: RowOfFile,
    request: RequestHash,
}

impl Transactions {
    /// The hash of a request. It is cheapest just before the request is sent: the bytes are read then in any case.
    pub(super) fn hash(&self, request: &[u8]) -> RequestHash {
        RequestHash(self.hashes.hash_one(request))
    }

    /// Notes an answer's id. Returns the row that had it before if that row's request was different; the same request may
    /// well get the same answer again.
    pub(super) fn note(
        &mut self,
        id: &TransactionId,
        request: RequestHash,
        row: RowOfFile,
    ) -> Option<RowOfFile> {
        let id = self.hashes.hash_one(id.as_str());
        if let Some(seen) = self.younger.get(&id).or_else(|| self.older.get(&id)) {
            return (seen.request != request).then_some(seen.row);
        }
        if self.younger.len() == LAST {
            std::mem::swap(&mut self.younger, &mut self.older);
            self.younger.clear();
        }
        self.younger.insert(id, FirstUse { row, request });
        None
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Notes an id for a request. Returns the number of the row that had it before.
    fn note(transactions: &mut Transactions, id: usize, request: &str, row: u64) -> Option<u64> {
        let id = TransactionId::new(&format!("t-{id}")).unwrap();
        let row = (1..row).fold(RowNumber::FIRST, |number, _| number.next());
        let row = RowOfFile { file: 0, row };
        let request = transactions.hash(request.as_bytes());
        let before = transactions.note(&id, request, row);
        before.map(|first| first.row.get())
    }

    #[test]
    fn one_id_for_two_requests_is_noticed_every_time() {
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
            let oldest = id.saturating_sub(LAST - 1);
            assert_eq!(note(&mut transactions, oldest, "Bob", 2), Some(1), "{id}");
        }
        assert!(transactions.younger.len() + transactions.older.len() <= 2 * LAST);
        assert_eq!(note(&mut transactions, 0, "Bob", 2), None);
    }
}
