//! What commands do with the names of their files before they open them: find the inputs, and check what they write.

mod names;
mod parts;
mod summary;

pub(super) use names::{
    NamedFile, check_name, naming_the_other_run, refuse_clashes, rejects_beside,
};
pub(super) use parts::{
    InputFile, OutputDirectory, UnfinishedFiles, WrittenNames, find_inputs, is_finished, rejects_of,
};
pub(super) use summary::SummaryFile;
