//! The arguments that say what the input must be like.

use std::num::NonZeroU64;

use clap::Args;

use super::format::FILES;
use super::values;
use crate::base::tolerance::Tolerance;
use crate::config::InputLimits;

// A doc comment would be taken for the help of the command.
#[derive(Debug, Args)]
pub(super) struct InputLimitArgs {
    /// Send nothing if the input has fewer rows than this
    ///
    /// For an export that may be empty or cut off. All rows are counted before the first call, so the input must be a file.
    #[arg(long, value_name = "N", value_parser = values::count, allow_negative_numbers = true, help_heading = FILES)]
    min_rows: Option<NonZeroU64>,
    /// Send nothing if more rows than this, or than this share of the rows, cannot be sent
    ///
    /// Such rows lack a field, or have an invalid one. All rows are checked before the first call, so the input must be a
    /// file.
    #[arg(
        long, value_name = "N|N%", value_parser = values::tolerance, allow_negative_numbers = true,
        help_heading = FILES
    )]
    max_invalid: Option<Tolerance>,
}

impl InputLimitArgs {
    /// What the input must be like.
    pub(super) const fn limits(&self) -> InputLimits {
        InputLimits {
            min_rows: self.min_rows,
            max_invalid: self.max_invalid,
        }
    }
}
