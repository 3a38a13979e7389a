//! What the reader must know.

use std::path::PathBuf;

use crate::fields::{Assignments, InvalidPhone};
use crate::layout::Existing;

/// Where rows come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// Standard input.
    Stdin,
    /// A file.
    File(PathBuf),
}

/// The format as a person gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FormatChoice {
    /// By the name's end or a look at the first bytes.
    #[default]
    Detect,
    /// Comma or another delimiter.
    Csv,
    /// Tab.
    Tsv,
    /// One JSON object a line.
    Jsonl,
}

/// What the reader must know.
#[derive(Debug, Clone)]
pub struct ReaderSettings {
    /// Where rows come from.
    pub input: Input,
    /// The format, or that it is to be found out.
    pub format: FormatChoice,
    /// The delimiter, where it was given.
    pub delimiter: Option<u8>,
    /// There is no header: columns are known by their numbers.
    pub no_header: bool,
    /// What `--map` and `--set` asked for.
    pub assignments: Assignments,
    /// What to do with a bad phone number.
    pub invalid_phone: InvalidPhone,
    /// What to do with columns of our names.
    pub existing: Existing,
    /// Names of the columns that we write.
    pub columns: Vec<String>,
    /// The largest record in bytes. A quote that is never closed must not swallow the memory.
    pub max_record: usize,
    /// Refuse the file when its first rows all fail for one reason.
    pub judges_first_rows: bool,
}
