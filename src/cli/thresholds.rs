//! The thresholds that turn scores into decisions.

use clap::Args;

use super::fields::FIELDS;
use super::values;
use crate::base::decimal::Decimal;
use crate::base::error::{Error, Result};
use crate::verdict::Thresholds;

// A doc comment would be taken for the help of the command.
#[derive(Debug, Args)]
pub(super) struct ThresholdArgs {
    /// Approve up to this score
    #[arg(
        long, value_name = "SCORE", default_value = "2", allow_negative_numbers = true,
        value_parser = values::threshold, help_heading = FIELDS
    )]
    approve_max: Decimal,
    /// Review up to this score, block above it
    #[arg(
        long, value_name = "SCORE", default_value = "5", allow_negative_numbers = true,
        value_parser = values::threshold, help_heading = FIELDS
    )]
    review_max: Decimal,
}

impl ThresholdArgs {
    /// The thresholds.
    ///
    /// # Errors
    /// The first is above the second.
    pub(super) fn thresholds(&self) -> Result<Thresholds> {
        let Self {
            approve_max,
            review_max,
        } = self;
        Thresholds::new(approve_max.clone(), review_max.clone()).ok_or_else(|| {
            Error::usage(format!(
                "`--approve-max {approve_max}` is above `--review-max {review_max}`"
            ))
        })
    }
}
