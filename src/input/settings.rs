//! What a command tells a reader: which file, which columns, and how requests are made of its rows.

use std::path::{Path, PathBuf};

use bytes::{Bytes, BytesMut};

use crate::base::text::{TextEncoding, display};
use crate::fields::{Assignments, FieldRules, Noticed, Quality, UserRequest};
use crate::layout::AddedColumns;
use crate::selection::{Condition, Selection};

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
    pub(crate) fn display(&self) -> String {
        self.path()
            .map_or_else(|| "standard input".to_owned(), display)
    }

    /// Its path; `None` is standard input.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Self::Stdin => None,
            Self::File(path) => Some(path),
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
    /// A quote at the start of a cell is a mark, and not a character of the cell.
    pub quotes: bool,
}

/// The settings of a reader.
#[derive(Debug, Clone)]
pub struct ReaderSettings {
    /// The file.
    pub file: FileSettings,
    /// What `--map`, `--set` and `--phone-region-column` say.
    pub assignments: Assignments,
    /// What values must be like, and what stands for one that is empty.
    pub rules: FieldRules,
    /// The columns that rescore adds.
    pub columns: AddedColumns,
    /// Whether to reject a file whose first rows all fail for the same reason.
    pub judges_first_rows: bool,
    /// Whether to note what is odd about the values of rows, which is of use only before a row is paid for.
    pub notes_quality: bool,
    /// Whether to reject a file whose last row is cut off, which is of use only before a row is paid for.
    pub refuses_cut: bool,
    /// Which rows are read.
    pub selection: Selection,
    /// Only rows for which all of these hold are sent; the others are passed on.
    pub only: Vec<Condition>,
    /// The column by which rows are compared with an earlier output.
    pub key: Option<String>,
    /// An earlier run wrote the file: it must have the columns that a run adds and these, which are found in each row, and no
    /// requests are made of its rows. In JSONL, a name may be a JSON pointer.
    pub scored: Option<Vec<String>>,
}

impl ReaderSettings {
    /// The settings for a file that an earlier run wrote, with this prefix of its columns' names. A command wants the `extra`
    /// columns of it.
    pub(crate) fn of_scored(file: &FileSettings, prefix: &str, extra: Vec<String>) -> Self {
        Self {
            file: file.clone(),
            assignments: Assignments::default(),
            rules: FieldRules::default(),
            columns: AddedColumns::new(prefix, [], None),
            judges_first_rows: false,
            notes_quality: false,
            refuses_cut: false,
            selection: Selection::default(),
            only: Vec::new(),
            key: None,
            scored: Some(extra),
        }
    }

    /// The same for all rows of another file with the same columns, such as the output of an earlier run.
    pub(crate) fn all_rows_of(&self, file: &Path) -> Self {
        let mut all = Self {
            selection: Selection::default(),
            only: Vec::new(),
            key: None,
            judges_first_rows: false,
            notes_quality: false,
            refuses_cut: false,
            ..self.clone()
        };
        all.file.input = Input::File(file.to_owned());
        all
    }

    /// The same for a list of people, of whom a row may have any of the fields.
    pub(crate) fn of_list(mut self) -> Self {
        self.assignments = self.assignments.of_list();
        self.rules = FieldRules {
            region: self.rules.region,
            nulls: self.rules.nulls,
            is_list: true,
            ..FieldRules::default()
        };
        self
    }

    /// The names of the columns that are read besides the fields: those that a command wants of a scored file, or those of the
    /// conditions, and then that of the key.
    pub(super) fn extra_columns(&self) -> Vec<String> {
        let of_conditions = self.only.iter().map(|condition| &condition.column);
        let of_run = || of_conditions.chain(&self.key).cloned().collect();
        self.scored.clone().unwrap_or_else(of_run)
    }

    /// The settings of a run without options over this input.
    #[cfg(test)]
    pub(crate) fn without_options(input: Input) -> Self {
        Self {
            file: FileSettings {
                input,
                format: FormatChoice::Detect,
                encoding: TextEncoding::UTF_8,
                delimiter: None,
                no_header: false,
                quotes: true,
            },
            assignments: Assignments::default(),
            rules: FieldRules::default(),
            columns: AddedColumns::new("", [], None),
            judges_first_rows: true,
            notes_quality: true,
            refuses_cut: true,
            selection: Selection::default(),
            only: Vec::new(),
            key: None,
            scored: None,
        }
    }
}

/// A function that writes the body of a valid request.
type WriteBody = dyn Fn(&UserRequest<'_>, &mut BytesMut) + Send;

/// The size of a block, for about 250 bodies. A body that waits keeps its whole block in memory.
const BODY_BLOCK: usize = 64 * 1024;

/// Writes the bodies of valid requests, many in one block: an allocation for each would be freed by another thread, which
/// is the most expensive way. It runs on the reader's thread to save the thread that makes the calls from it.
pub struct Compose {
    write: Box<WriteBody>,
    block: BytesMut,
    /// What was noticed of the row that was read last.
    pub(super) noticed: Noticed,
    /// The number of the row that is read.
    pub(super) number: u64,
    /// What was found in the values of all rows, also of those outside a sample, if that is noted.
    pub(super) quality: Option<Quality>,
}

impl Compose {
    /// Writes bodies as this function does.
    pub fn new(write: impl Fn(&UserRequest<'_>, &mut BytesMut) + Send + 'static) -> Self {
        Self {
            write: Box::new(write),
            block: BytesMut::with_capacity(BODY_BLOCK),
            noticed: Noticed::default(),
            number: 0,
            quality: None,
        }
    }

    /// The body of a request.
    #[inline]
    pub(crate) fn body(&mut self, request: &UserRequest<'_>) -> Bytes {
        (self.write)(request, &mut self.block);
        if let Some(quality) = &mut self.quality {
            quality.count(self.number, request);
        }
        self.block.split().freeze()
    }
}
