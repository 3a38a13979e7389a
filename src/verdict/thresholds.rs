//! The thresholds that turn a score into a decision.

use super::answer::Score;
use super::decision::Decision;
use crate::base::decimal::Decimal;

/// The two thresholds: approve up to the first, review up to the second, block above it.
#[derive(Debug, Clone, PartialEq)]
pub struct Thresholds {
    approve_max: Decimal,
    review_max: Decimal,
}

impl Thresholds {
    /// These thresholds; `None` if the first is above the second.
    #[must_use]
    pub(crate) fn new(approve_max: Decimal, review_max: Decimal) -> Option<Self> {
        (approve_max <= review_max).then_some(Self {
            approve_max,
            review_max,
        })
    }

    /// The highest score to approve.
    #[must_use]
    pub(crate) const fn approve_max(&self) -> &Decimal {
        &self.approve_max
    }

    /// The highest score to review.
    #[must_use]
    pub(crate) const fn review_max(&self) -> &Decimal {
        &self.review_max
    }

    /// The decision for a score.
    #[must_use]
    pub fn decide(&self, score: &Score) -> Decision {
        if *score.value() <= self.approve_max {
            Decision::Approve
        } else if *score.value() <= self.review_max {
            Decision::Review
        } else {
            Decision::Block
        }
    }
}

impl Default for Thresholds {
    /// The convention of the service's interface (section 2.2).
    fn default() -> Self {
        Self {
            approve_max: Decimal::from(2),
            review_max: Decimal::from(5),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_score_equal_to_a_threshold_belongs_to_the_lower_side() {
        let policy = Thresholds::default();
        let decide = |text| policy.decide(&Score::from_json_number(text).unwrap());
        assert_eq!(decide("2.0"), Decision::Approve);
        assert_eq!(decide("2.0000000000000000001"), Decision::Review);
        assert_eq!(decide("1.9999999999999999999"), Decision::Approve);
        assert_eq!(decide("5"), Decision::Review);
        assert_eq!(decide("50.0e-1"), Decision::Review);
        assert_eq!(decide("5.00000000000000000000000001"), Decision::Block);
    }

    #[test]
    fn thresholds_out_of_order_cannot_be_built() {
        let new = |approve, review| {
            Thresholds::new(
                Decimal::new(approve).unwrap(),
                Decimal::new(review).unwrap(),
            )
        };
        assert_eq!(new("5", "2"), None);
        assert_eq!(new("2.0000000000000000001", "2"), None);
        assert!(new("2.0", "2").is_some());
    }
}
