//! Pure counting over decisions and scores, in constant memory.
//!
//! It must not know where rows come from or how the numbers are shown.

mod bins;
mod decisions;
mod interval;
mod past;
mod tally;
mod what_if;

pub(crate) use bins::Bars;
pub(crate) use decisions::{CountedRows, DecisionCounts, Drift};
pub(crate) use interval::{SampleSize, beyond_chance, rounded};
pub(crate) use past::{PairingCounts, PastVerdicts};
pub(crate) use tally::{DriftTally, GroupTally, PastVerdict, RowTally, TopValues};
pub(crate) use what_if::{ThresholdPair, UserOutcome, WhatIf};
