//! How decisions have changed since an earlier run, which is what a nightly rescoring is for.

use crate::verdict::Decision;

/// Numbers of rows by their earlier and their new decision.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Drift([[u64; 3]; 3]);

impl Drift {
    /// Counts a row.
    pub(crate) const fn count(&mut self, before: Decision, now: Decision) {
        let [approve, review, block] = &mut self.0;
        let row = match before {
            Decision::Approve => approve,
            Decision::Review => review,
            Decision::Block => block,
        };
        let [approve, review, block] = row;
        *match now {
            Decision::Approve => approve,
            Decision::Review => review,
            Decision::Block => block,
        } += 1;
    }

    /// Adds the counts of another one.
    pub(crate) fn add(&mut self, other: &Self) {
        for (mine, others) in self.0.iter_mut().flatten().zip(other.0.iter().flatten()) {
            *mine += others;
        }
    }

    /// Each earlier decision with the number of rows for each new decision.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (Decision, [u64; 3])> {
        Decision::ALL.into_iter().zip(self.0)
    }

    /// The number of rows that had a decision before.
    #[must_use]
    pub(crate) fn compared(&self) -> u64 {
        self.0.iter().flatten().sum()
    }

    /// The number of rows whose decision changed.
    #[must_use]
    pub(crate) fn changed(&self) -> u64 {
        let [[approve, _, _], [_, review, _], [_, _, block]] = self.0;
        self.compared() - approve - review - block
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_counted_by_both_decisions() {
        let (mut drift, mut more) = (Drift::default(), Drift::default());
        drift.count(Decision::Approve, Decision::Block);
        drift.count(Decision::Review, Decision::Review);
        more.count(Decision::Approve, Decision::Block);
        drift.add(&more);
        assert_eq!((drift.compared(), drift.changed()), (3, 2));
        let rows: Vec<_> = drift.rows().collect();
        assert_eq!(
            rows,
            [
                (Decision::Approve, [0, 0, 2]),
                (Decision::Review, [0, 1, 0]),
                (Decision::Block, [0, 0, 0])
            ]
        );
    }
}
