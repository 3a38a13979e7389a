//! Pure counting over decisions and scores, in constant memory.
//!
//! It must not know where rows come from or how the numbers are shown.

mod bins;
mod counted_rows;
mod groups;
mod tally;
mod what_if;

pub(crate) use bins::Bars;
pub(crate) use counted_rows::CountedRows;
pub(crate) use groups::{GroupTally, TopValues};
pub(crate) use tally::{DriftTally, PastVerdict, RowTally, TalliedRow, number_of};
pub(crate) use what_if::{ThresholdPair, ThresholdStep, WhatIf};
