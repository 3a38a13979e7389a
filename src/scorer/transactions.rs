//! The transaction ids of the last answers: one id for two different requests means that somebody mixes answers up.
//!
//! A cache or proxy that gives one user's answer to another is the worst of faults, as every row looks right. Nothing
//! of a request or an answer is kept but hashes under a secret of this run, and only of so many.

use std::hash::BuildHasher;

use foldhash::quality::RandomState;

use crate::row::RowNumber;
use crate::verdict::TransactionId;

/// Places for ids, 96 KiB: a broken cache repeats itself sooner.
const PLACES: usize = 4_096;

/// What is remembered: each id has one place, and is there until another one needs it. A third of those from 4,500 answers
/// ago still are, so whoever mixes answers up is caught soon, and nothing is searched for or thrown out at each answer.
#[derive(Debug)]
pub struct Transactions {
    hashes: RandomState,
    places: Box<[Option<Seen>]>,
}

#[derive(Debug, Clone, Copy)]
struct Seen {
    id: u64,
    request: u64,
    row: RowNumber,
}

impl Default for Transactions {
    fn default() -> Self {
        Self {
            hashes: RandomState::default(),
            places: vec![None; PLACES].into(),
        }
    }
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
        #[allow(clippy::cast_possible_truncation, reason = "any bits of a hash do")]
        let place = self.places.get_mut(id as usize % PLACES)?;
        if let Some(seen) = place.filter(|seen| seen.id == id) {
            return (seen.request != request).then_some(seen.row);
        }
        *place = Some(Seen { id, request, row });
        None
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
    fn many_answers_later_a_new_id_is_still_taken_note_of() {
        let mut transactions = Transactions::default();
        for id in 0..3 * PLACES {
            assert_eq!(note(&mut transactions, id, "Ann", 1), None);
            assert_eq!(note(&mut transactions, id, "Bob", 2), Some(1));
        }
    }
}
