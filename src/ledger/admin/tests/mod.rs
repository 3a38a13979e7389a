//! Tests of the commands that look after a ledger.

mod forget;
mod prune;
mod stats;
mod support;
