//! Files to rows.
//!
//! A [`Reader`] opens the source, detects its format, finds the columns, and then returns rows in batches. Each row has
//! all of its raw bytes, and the request that its fields make as its state. Of a file that an earlier run wrote, it finds our columns
//! and those that a command asks for instead. The reader runs on its own thread and must not know what happens to a row.

mod buffer;
mod cells;
mod csv;
mod jsonl;
mod members;
mod ours;
mod reader;
mod settings;
mod sniff;
mod source;
#[cfg(test)]
mod tests;
mod text;

pub(crate) use reader::Opened;
pub use reader::Reader;
pub use settings::{Compose, FileSettings, FormatChoice, Input, ReaderSettings};
pub(crate) use source::{refuse_missing, stdin_file};
