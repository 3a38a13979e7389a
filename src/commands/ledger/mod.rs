//! `rescore ledger`: what is in a ledger, removing what is old, and forgetting people.
//!
//! The result goes to standard output. It contains no data about people: only numbers and times are known here.

mod execute;
mod forget;
mod stats;

pub(crate) use execute::execute;
