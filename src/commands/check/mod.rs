//! `rescore check`: what a run would do and cost. It is the run with a caller that counts: the same files, the same ledger, the
//! same look-up of each row. Nothing is sent, and nothing is written.

mod execute;
mod result;

pub(crate) use execute::execute;
