//! Rows to files.
//!
//! A [`Writer`] gets rows in input order and writes the bytes of each with the cells of its verdict added. Rows without a verdict
//! are also written to the rejects, and rows that had another decision before to the changes. The writer runs on its own thread
//! and must not know where verdicts come from.

mod encoder;
mod file;
mod target;
#[cfg(test)]
mod tests;
mod writer;

pub(crate) use file::{Document, DurableFile, WriteError, Written};
pub use file::{OutputFile, RowFiles};
pub(crate) use target::{PARTIAL, end_of_links, is_same_file, partial_of};
pub use target::{Replace, Target};
pub use writer::Writer;
