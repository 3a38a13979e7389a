//! Files to rows.
//!
//! A [`Reader`] opens the source, detects its format, finds the columns, and then returns rows in batches. Each row has
//! all of its raw bytes and the request that its fields make. Of a file that an earlier run wrote, it finds our columns
//! and those that a command asks for instead. The reader runs on its own thread and must not know what happens to a row.

mod buffer;
mod cells;
mod csv;
mod existing;
mod first_rows;
mod jsonl;
mod members;
mod reader;
mod scored;
mod settings;
mod sniff;
mod source;
#[cfg(test)]
mod tests;
mod text;

pub(crate) use first_rows::{FirstRows, fix};
pub(crate) use reader::{Opened, RowBatch};
pub use reader::{ReadRow, Reader};
pub(crate) use scored::AskedColumns;
pub use settings::{Compose, FileSettings, FormatChoice, Input, ReaderSettings};
pub(crate) use source::{TrailingGarbage, is_checked_for_long, refuse_missing, stdin_file};
