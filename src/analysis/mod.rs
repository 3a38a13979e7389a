//! Pure counting over decisions and scores, in constant memory.
//!
//! It must not know where rows come from or how the numbers are shown.

mod what_if;

pub(crate) use what_if::{Outcomes, ThresholdPair, ThresholdStep, WhatIf};
