//! `rescore check`: what a run over a file would do and cost, from one pass without a call, a key or the network.
//!
//! A thread reads the file and makes its requests, exactly as a run does ([`requests`]); the thread that called looks them
//! up in the ledger and counts those that are left ([`pass`]). The numbers ([`counts`], [`estimate`]) become
//! words or JSON.

mod counts;
mod estimate;
mod execute;
mod inputs;
mod json;
mod known;
mod outlook;
mod pass;
mod progress;
mod remedies;
mod requests;
mod words;

pub(crate) use execute::execute;
