//! One file a subcommand: builds the parts from its config and hands each stage only its own piece.

mod answers;
mod descriptors;
mod desk;
pub(crate) mod ledger;
pub(crate) mod places;
pub mod run;
pub(crate) mod sandbox;
mod signals;
mod space;
mod threads;
