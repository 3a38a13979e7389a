//! Files to rows.
//!
//! A [`Reader`] opens the source, detects its format, finds the columns, and then returns rows in batches. Each row has
//! all of its raw bytes and the request that its fields make. The reader runs on its own thread and must not know what
//! happens to a row.

mod batch;
mod bodies;
mod buffer;
mod csv;
mod decompress;
mod existing;
mod first_rows;
mod gather;
mod jsonl;
mod magic;
mod reader;
mod scored;
mod selector;
mod settings;
mod sniff;
mod source;
#[cfg(test)]
mod tests;
mod text;

pub use batch::ReadRow;
pub(crate) use batch::RowBatch;
pub use bodies::Compose;
pub(crate) use decompress::TrailingGarbage;
pub(crate) use first_rows::FirstRows;
pub(crate) use reader::Opened;
pub use reader::Reader;
pub(crate) use scored::{OpenedScored, ScoredColumns, ScoredReader, ScoredRow};
pub use settings::{FileSettings, FormatChoice, Input, ReaderSettings};
pub(crate) use source::{is_checked_for_long, stdin_file};
