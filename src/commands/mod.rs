//! One file or folder for each subcommand: builds the parts from its config and gives each stage only what it needs.

pub(crate) mod check;
pub(crate) mod config;
pub(crate) mod decide;
mod files;
mod interrupt;
pub(crate) mod ledger;
mod lock_wait;
mod open_input;
mod read_ahead;
pub(crate) mod report;
pub mod run;
pub(crate) mod sandbox;
mod signals;
