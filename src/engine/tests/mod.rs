//! Tests of the dispatcher: order, bounds and invariants, with a scripted service on a paused clock and a reader and a writer
//! that run beside it. Nothing here sleeps in real time.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::wildcard_imports,
    reason = "a test may fail by panic, and its files share one set of names"
)]

mod any_case;
mod api_key;
mod attempts;
mod bursts;
mod claims;
mod dispatcher;
mod harness;
mod ledger;
mod one_row;
mod outage;
mod refused_rows;
mod shared_pace;
mod stops;
mod throttles;
mod trouble;
mod window;
