//! The pace against services in virtual time: without sockets and without waiting.
//!
//! `cargo test --release --lib pace::simulator -- --ignored --nocapture` tries the services of the contract and prints a table
//! of them; with `SIM_BLIND=SEED` it prints a hundred services that are drawn from this seed.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the numbers are small, and a broken simulation should panic"
)]

pub(crate) mod contract;
mod drawn;
mod elastic;
mod limits;
mod models;
mod rows;
mod store;
mod tests;
mod world;
mod wrapped;
