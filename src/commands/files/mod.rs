//! What every command that writes rows checks about the names of its files, before it opens them.

mod clashes;
mod names;
mod summary;

pub(super) use clashes::{NamedFile, refuse_clashes};
pub(super) use names::{check_name, rejects_beside};
pub(super) use summary::SummaryFile;
