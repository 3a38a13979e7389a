//! One file or folder for each subcommand: builds the parts from its config and gives each stage only what it needs.

pub(crate) mod decide;
mod file_names;
pub(crate) mod ledger;
mod named_file;
pub mod run;
pub(crate) mod sandbox;
mod signals;
