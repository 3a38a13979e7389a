//! The arguments that take a part of a file first.

use std::num::NonZeroU64;

use clap::Args;

use super::values;
use crate::selection::{Sample, Selection};

// A doc comment would be taken for the help of the command.
#[derive(Debug, Args)]
pub(super) struct SelectionArgs {
    /// Take only the first N rows; the same command without it continues
    ///
    /// With `--sample`, the first N rows of the sample. What was paid for is kept and not paid for again.
    #[arg(long, value_name = "N", value_parser = values::count, allow_negative_numbers = true)]
    limit: Option<NonZeroU64>,
    /// Take only about this share of the rows, such as `1%`, the same rows each time
    ///
    /// Rows are drawn by a hash of what is sent, so equal rows are all in the sample or all not. The same command without it
    /// continues, and pays for none of these rows again.
    #[arg(long, value_name = "N%", value_parser = values::sample, allow_negative_numbers = true)]
    sample: Option<Sample>,
}

impl SelectionArgs {
    /// Which rows are taken.
    pub(super) const fn selection(&self) -> Selection {
        Selection {
            limit: self.limit,
            sample: self.sample,
        }
    }
}
