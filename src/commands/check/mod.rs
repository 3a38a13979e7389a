//! `rescore check`: what a run over a file would do and cost, from one pass without a call, a key or the network.
//!
//! It is the run with a caller that counts: the same reader and look-up ([`count`]), the same ledger and refusals
//! ([`mod@execute`]). The numbers ([`result`]) are printed as JSON, or in words.

mod count;
mod execute;
mod result;
mod words;

pub(crate) use execute::execute;
