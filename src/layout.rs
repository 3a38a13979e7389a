//! The layout of a file: its format and the columns that rescore adds.
//!
//! `input` detects it before the first row, `output` writes accordingly. It must not know how either of them works.

use std::borrow::Cow;
use std::ops::Deref;

use bytes::Bytes;
use memchr::memchr;

use crate::base::text::TextEncoding;
use crate::raw_json;
use crate::row::RawRow;

/// The format of the file's records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Delimited text with a header.
    Delimited {
        /// The byte between cells.
        delimiter: u8,
        /// A cell may be in quotes, and then contain delimiters and line ends.
        quotes: bool,
    },
    /// One JSON object per line.
    Jsonl,
}

impl Format {
    /// All that [`Self::extension`] can be.
    pub(crate) const EXTENSIONS: [&str; 3] = ["csv", "tsv", "jsonl"];

    /// The usual file name extension.
    pub(crate) const fn extension(self) -> &'static str {
        match self {
            Self::Delimited {
                delimiter: b'\t', ..
            } => "tsv",
            Self::Delimited { .. } => "csv",
            Self::Jsonl => "jsonl",
        }
    }
}

/// How a file is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compression {
    /// `.gz`
    Gzip,
    /// `.zst`
    Zstd,
}

impl Compression {
    /// A file's name without the extension for its compression, and the compression. Case does not matter.
    pub(crate) fn split_name(name: &str) -> (&str, Option<Self>) {
        match name.rsplit_once('.') {
            Some((stem, end)) if end.eq_ignore_ascii_case("gz") => (stem, Some(Self::Gzip)),
            Some((stem, end)) if end.eq_ignore_ascii_case("zst") => (stem, Some(Self::Zstd)),
            _ => (name, None),
        }
    }
}

/// The three columns that every output has.
pub const VERDICT_COLUMNS: [&str; 3] = ["transaction_id", "risk_score", "decision"];
/// The index of the id among the columns that rescore adds.
pub(crate) const ID_COLUMN: usize = 0;
/// The index of the score among them.
pub(crate) const SCORE_COLUMN: usize = 1;
/// The index of the decision among them.
pub(crate) const DECISION_COLUMN: usize = 2;

/// The columns that rescore adds: a list of their names. The verdict's three come first, then the captured ones, and at the end
/// perhaps the one for the reason of a row without a verdict. By default the list is empty, and nothing is added.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AddedColumns {
    names: Vec<String>,
    has_reason: bool,
    /// Whether only decisions are written, as in a file whose rows are decided again, and the other columns stay as they are.
    pub(crate) only_decisions: bool,
}

impl AddedColumns {
    /// The verdict's columns, and these for captured fields and reasons, with `prefix` before all names.
    pub fn new<'a>(
        prefix: &str,
        captured: impl IntoIterator<Item = &'a str>,
        reason: Option<&'a str>,
    ) -> Self {
        let names = VERDICT_COLUMNS.into_iter().chain(captured).chain(reason);
        Self {
            names: names.map(|name| format!("{prefix}{name}")).collect(),
            has_reason: reason.is_some(),
            only_decisions: false,
        }
    }

    /// The prefix of all names.
    pub(crate) fn prefix(&self) -> &str {
        let id = self.names.get(ID_COLUMN).map_or("", String::as_str);
        id.strip_suffix(VERDICT_COLUMNS[ID_COLUMN]).unwrap_or("")
    }

    /// What is in the column with this index.
    #[inline]
    pub fn content(&self, column: usize) -> ColumnContent {
        if self.has_reason && column + 1 == self.names.len() {
            return ColumnContent::Reason;
        }
        match column {
            ID_COLUMN => ColumnContent::TransactionId,
            SCORE_COLUMN => ColumnContent::Score,
            DECISION_COLUMN => ColumnContent::Decision,
            _ => ColumnContent::Captured(column - VERDICT_COLUMNS.len()),
        }
    }
}

impl Deref for AddedColumns {
    type Target = [String];

    fn deref(&self) -> &[String] {
        &self.names
    }
}

/// The content of a column that rescore adds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnContent {
    /// The answer's transaction id.
    TransactionId,
    /// The answer's score.
    Score,
    /// The decision.
    Decision,
    /// The captured field of the answer with this index.
    Captured(usize),
    /// The word for why the row has no verdict.
    Reason,
}

/// Everything about a file that is known before its first row.
#[derive(Debug, Clone)]
pub struct Layout {
    /// The format.
    pub format: Format,
    /// The encoding of the rows, and of what is added to them.
    pub encoding: TextEncoding,
    /// The bytes before the header, which are kept: a byte order mark, and Excel's line that names the delimiter.
    pub preamble: Bytes,
    /// The header, with the cells that already have the names of added columns. JSONL has none.
    pub header: Option<RawRow>,
    /// The columns that rescore adds.
    pub columns: AddedColumns,
}

impl Layout {
    /// The value of a column as it is written in a row: a cell without its quotes, a JSON string's text, or another JSON value
    /// as it is, and nothing for null. Bytes that are not text are replaced: the value is only compared or shown.
    pub(crate) fn value<'a>(&self, written: &'a [u8]) -> Cow<'a, str> {
        match self.format {
            Format::Delimited { quotes, .. } => match unquote_if(quotes, written) {
                Cow::Borrowed(bytes) => self.encoding.decode_lossy(bytes),
                Cow::Owned(bytes) => Cow::Owned(self.encoding.decode_lossy(&bytes).into_owned()),
            },
            Format::Jsonl => match String::from_utf8_lossy(written) {
                Cow::Borrowed(json) => raw_json::text(json),
                Cow::Owned(json) => Cow::Owned(raw_json::text(&json).into_owned()),
            },
        }
    }
}

/// The value of a cell: in a format that has quotes, without its quotes, and with doubled quotes made single.
pub(crate) fn unquote_if(quotes: bool, cell: &[u8]) -> Cow<'_, [u8]> {
    let opened = cell.strip_prefix(b"\"").filter(|_| quotes);
    let Some(inner) = opened.and_then(|rest| rest.strip_suffix(b"\"")) else {
        return Cow::Borrowed(cell);
    };
    if memchr(b'"', inner).is_none() {
        return Cow::Borrowed(inner);
    }
    let mut after_quote = false;
    let value = inner.iter().copied().filter(|byte| {
        after_quote = *byte == b'"' && !after_quote;
        after_quote || *byte != b'"'
    });
    Cow::Owned(value.collect())
}
