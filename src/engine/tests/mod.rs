//! Tests of the engine with a scripted service on a paused clock, single rows or whole runs with a reader and a writer beside
//! them. Nothing here sleeps in real time.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::wildcard_imports,
    reason = "a test may fail by panic, and its files share one set of names"
)]

mod any_case;
mod claims;
mod harness;
mod key;
mod retries;
mod shared_pace;
mod stops;
mod trouble;
mod window;
