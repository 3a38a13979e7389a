//! Files to rows.
//!
//! A [`Reader`] opens the source, detects its format, finds the columns, and then returns rows in batches. Each row has all of
//! its raw bytes, and the request that its fields make as its state. Of a file that an earlier run wrote, it finds the columns
//! that the run added and those that a command wants instead. The reader runs on its own thread and must not know what happens
//! to a row.

mod csv;
mod jsonl;
mod reader;
mod scored_columns;
mod settings;
mod sniff;
mod source;
#[cfg(test)]
mod tests;

pub(crate) use reader::Opened;
pub use reader::Reader;
pub use settings::{Compose, FileSettings, FormatChoice, Input, ReaderSettings};
pub(crate) use source::{refuse_missing, stdin_file};
