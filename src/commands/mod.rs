//! One file or folder for each subcommand: builds the parts from its config and gives each stage only what it needs.

pub(crate) mod check;
pub(crate) mod decide;
mod files;
mod inputs;
pub(crate) mod ledger;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod sandbox;
mod signals;
pub(crate) mod status;
pub(crate) mod text;
