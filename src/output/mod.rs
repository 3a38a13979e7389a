//! Rows to files.
//!
//! A [`Writer`] gets rows in input order and writes the bytes of each with our cells added. Rows
//! without a verdict are also written to the rejects, and rows that had another decision before to
//! the changes. The writer runs on its own thread and must not know where verdicts come from.

mod columns;
mod csv;
mod document;
mod done_row;
mod earlier;
mod encoder;
mod jsonl;
mod name;
mod outcome;
mod paths;
mod rejects;
mod row_files;
mod side;
mod sink;
mod target;
#[cfg(test)]
mod tests;
mod writer;

pub(crate) use document::Document;
pub use done_row::DoneRow;
pub(crate) use outcome::{Unfinished, WriteError, Written};
pub(crate) use paths::{PARTIAL, is_same_file, partial_of};
pub(crate) use rejects::RejectsWriter;
pub(crate) use row_files::RowFiles;
pub use side::Sides;
pub(crate) use sink::Sealed;
pub use sink::Sink;
pub use target::{Replace, Target};
pub use writer::Writer;
