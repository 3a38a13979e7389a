//! `rescore report`: a scored file in, a page of HTML out. Nothing here touches the network.
//!
//! [`execute()`] reads the earlier file, if there is one, and keeps its verdicts ([`past`]); then it reads the scored file once
//! ([`count`]), and `report` makes the page.

mod cells;
mod count;
mod execute;
mod past;
mod summary;

pub(crate) use execute::execute;
