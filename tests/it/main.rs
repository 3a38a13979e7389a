//! What a user gets: the real program, real files, a server that does as each test says.
//!
//! Each folder is a group of topics, each file in it a topic; `tests/support` is what they have in common.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    // Seeds and figures, seen when a test fails.
    clippy::print_stdout,
    clippy::string_slice,
    // A real process and a real network live in real time.
    clippy::disallowed_methods,
    missing_docs
)]

#[path = "../support/mod.rs"]
mod support;

mod cli;
mod docs;
mod files;
mod ledger;
mod lifecycle;
mod pacing;
mod service;
