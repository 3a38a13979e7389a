//! The controller against many kinds of services, in virtual time: without sockets and without waiting.
//!
//! `cargo test --release --lib simulator::table -- --ignored --nocapture` prints the table of all services; `table.rs` lists
//! the variables that choose a part of it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::similar_names,
    clippy::too_many_lines,
    reason = "the numbers are small, and a broken simulation should panic"
)]

mod bare_503;
mod baselines;
mod case;
mod cases;
mod demands;
mod hidden;
mod host;
mod limit_req;
mod models;
mod ours;
mod pacers;
mod rows;
mod short;
mod table;
mod tests;
mod uncommon;
mod world;
mod wrapped;
