//! The settings of a reader.

use std::path::PathBuf;

use crate::base::encoding::TextEncoding;
use crate::base::error::shown;
use crate::fields::{Assignments, PhoneRules};
use crate::layout::{AddedColumns, Existing};
use crate::selection::Selection;

/// Where rows come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// Standard input.
    Stdin,
    /// A file.
    File(PathBuf),
}

impl Input {
    /// Its name in sentences for people: the path, or standard input.
    #[must_use]
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Stdin => "standard input".to_owned(),
            Self::File(path) => shown(path),
        }
    }
}

/// The format as the user gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FormatChoice {
    /// Detected by the file extension or the first bytes.
    #[default]
    Detect,
    /// Comma or another delimiter.
    Csv,
    /// Tab.
    Tsv,
    /// One JSON object per line.
    Jsonl,
}

/// Which file is read, and how its rows are written.
#[derive(Debug, Clone)]
pub struct FileSettings {
    /// Where rows come from.
    pub input: Input,
    /// The format, or that it is to be detected.
    pub format: FormatChoice,
    /// The encoding of the text.
    pub encoding: TextEncoding,
    /// The delimiter, if it was given.
    pub delimiter: Option<u8>,
    /// There is no header: columns are named by number.
    pub no_header: bool,
    /// The largest record in bytes. A quote that is never closed must not fill the memory.
    pub max_record: usize,
}

/// The settings of a reader of users.
#[derive(Debug, Clone)]
pub struct ReaderSettings {
    /// The file.
    pub file: FileSettings,
    /// What `--map`, `--set` and `--phone-region-column` say.
    pub assignments: Assignments,
    /// What to do with phone numbers that are not international.
    pub phones: PhoneRules,
    /// What to do with columns that have our names.
    pub existing: Existing,
    /// The columns that we write.
    pub columns: AddedColumns,
    /// Whether to reject a file whose first rows all fail for the same reason.
    pub judges_first_rows: bool,
    /// Which rows are read.
    pub selection: Selection,
}

#[cfg(test)]
impl ReaderSettings {
    /// The settings of a run without options over this input.
    pub(crate) fn without_options(input: Input) -> Self {
        Self {
            file: FileSettings {
                input,
                format: FormatChoice::Detect,
                encoding: TextEncoding::UTF_8,
                delimiter: None,
                no_header: false,
                max_record: 1 << 20,
            },
            assignments: Assignments::default(),
            phones: PhoneRules::default(),
            existing: Existing::Replace,
            columns: AddedColumns::new("", [], None),
            judges_first_rows: true,
            selection: Selection::default(),
        }
    }
}
