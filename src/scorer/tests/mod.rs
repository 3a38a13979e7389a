//! Tests of how one row gets its verdict: what is sent again and how often, what stops the run, and who waits for whom, with
//! a scripted service on a paused clock.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::wildcard_imports,
    reason = "a test may fail by panic, and its files share one set of names"
)]

mod api_key;
mod attempts;
mod support;
mod throttles;
mod trouble;
