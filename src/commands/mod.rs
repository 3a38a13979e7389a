//! One file a subcommand: builds the parts from its config and hands each stage only its own piece.

mod answers;
mod descriptors;
mod desk;
pub mod ledger;
pub(crate) mod places;
pub mod run;
pub mod sandbox;
mod signals;
mod space;
mod threads;

use std::io::Write;

/// One line to standard error. That nobody can read it must not end a run.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
