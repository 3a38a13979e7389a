//! Pure counting over decisions and scores, in constant memory.
//!
//! It must not know where rows come from or how the numbers are shown.

mod bins;
mod groups;
mod tally;
mod unknown_levels;
mod verdict_counts;
mod what_if;

pub(crate) use bins::Bars;
pub(crate) use groups::{GroupTally, TopValues};
pub(crate) use tally::{DriftTally, Mover, PastVerdict, RowTally, TalliedRow, number_of};
pub(crate) use unknown_levels::UnknownLevels;
pub(crate) use verdict_counts::VerdictCounts;
pub(crate) use what_if::{ThresholdStep, WhatIf};
