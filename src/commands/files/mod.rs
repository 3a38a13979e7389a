//! What commands do with the names of their files before they open them: find the inputs, and check what they write.

mod clashes;
mod directory;
mod inputs;
mod live_run;
mod names;
mod summary;

pub(super) use clashes::{NamedFile, refuse_clashes};
pub(super) use directory::{OutputDirectory, WrittenNames, is_finished, rejects_of};
pub(super) use inputs::{InputFile, find_inputs};
pub(super) use live_run::naming_the_other_run;
pub(super) use names::{check_name, rejects_beside};
pub(super) use summary::SummaryFile;
