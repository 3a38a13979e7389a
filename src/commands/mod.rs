//! One file or folder for each subcommand: builds the parts from its config and gives each stage only what it needs.

mod files;
pub(crate) mod ledger;
mod open_input;
pub mod run;
pub(crate) mod sandbox;
mod signals;
