//! Numbers of rows by decision.

use crate::verdict::Decision;

/// What a row can have.
const KINDS: usize = 4;
/// The place of rows without a decision, behind the three decisions.
const NONE: usize = 3;

/// Numbers of rows by decision, with those that have none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct VerdictCounts([u64; KINDS]);

impl VerdictCounts {
    /// The place of rows with this decision among the counters.
    const fn place(decision: Option<Decision>) -> usize {
        match decision {
            Some(Decision::Approve) => 0,
            Some(Decision::Review) => 1,
            Some(Decision::Block) => 2,
            None => NONE,
        }
    }

    /// Counts a row.
    pub(crate) fn count(&mut self, decision: Option<Decision>) {
        if let Some(counter) = self.0.get_mut(Self::place(decision)) {
            *counter += 1;
        }
    }

    /// Adds the counts of another instance.
    pub(crate) fn add(&mut self, other: &Self) {
        for (mine, others) in self.0.iter_mut().zip(other.0) {
            *mine += others;
        }
    }

    /// Rows with this decision, or without any.
    #[must_use]
    pub(crate) fn of(&self, decision: Option<Decision>) -> u64 {
        self.0.get(Self::place(decision)).copied().unwrap_or(0)
    }

    /// All rows.
    #[must_use]
    pub(crate) fn rows(&self) -> u64 {
        self.0.iter().sum()
    }
}

impl From<[u64; KINDS]> for VerdictCounts {
    fn from(counts: [u64; KINDS]) -> Self {
        Self(counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_counted_by_decision() {
        let mut counts = VerdictCounts::default();
        counts.count(Some(Decision::Block));
        counts.count(Some(Decision::Block));
        counts.count(None);
        assert_eq!(counts, VerdictCounts::from([0, 0, 2, 1]));
        assert_eq!((counts.of(Some(Decision::Block)), counts.of(None)), (2, 1));
        assert_eq!(counts.rows(), 3);
        counts.add(&VerdictCounts::from([0, 0, 1, 0]));
        assert_eq!(counts.rows(), 4);
    }
}
