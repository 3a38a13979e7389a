//! What goes wrong with the server, with what is before it, and with a run in the middle of its work: what it costs.
//!
//! The long ones are run by hand: `cargo test --test it postgres::faults -- --ignored --nocapture --test-threads 1`.

mod backends;
mod disk;
mod frozen_run;
mod network;
mod restarts;
mod several;
