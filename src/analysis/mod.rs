//! Pure counting over decisions and scores, in constant memory.
//!
//! It must not know where rows come from or how the numbers are shown.

mod outcomes;
mod unknown_levels;
mod what_if;

pub(crate) use outcomes::Outcomes;
pub(crate) use unknown_levels::UnknownLevels;
pub(crate) use what_if::{ThresholdPair, ThresholdStep, WhatIf};
