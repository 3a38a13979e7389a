//! What a user gets: the real program, real files, and a server that does what each test tells it.
//!
//! Each folder is a group of topics, and each file in it is one topic. What they share is in `tests/support`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    // Seeds and figures, shown when a test fails.
    clippy::print_stdout,
    clippy::string_slice,
    // A real process and a real network live in real time.
    clippy::disallowed_methods,
    // Tables of cases are long.
    clippy::too_many_lines,
    missing_docs
)]

#[path = "../support/mod.rs"]
mod support;

mod check;
mod cli;
mod decide;
mod docs;
mod files;
mod ledger;
mod lifecycle;
mod messages;
mod pacing;
mod parts;
mod report;
mod service;
mod torture;
