//! The layout of a file: its format and the columns that we add.
//!
//! `input` detects it before the first row, `output` writes accordingly. It must not know how
//! either of them works.

use std::borrow::Cow;
use std::ops::Deref;

use bytes::Bytes;
use memchr::memchr;

use crate::base::encoding::TextEncoding;
use crate::raw_json;
use crate::row::RawRow;

/// The format of the file's records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Delimited text with a header.
    Delimited {
        /// The byte between cells.
        delimiter: u8,
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
            Self::Delimited { delimiter: b'\t' } => "tsv",
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
    /// A file's name without the extension for its compression, and the compression. Case does not
    /// matter.
    pub(crate) fn split_name(name: &str) -> (&str, Option<Self>) {
        let compression = match name.rsplit_once('.') {
            Some((stem, end)) if end.eq_ignore_ascii_case("gz") => Some((stem, Self::Gzip)),
            Some((stem, end)) if end.eq_ignore_ascii_case("zst") => Some((stem, Self::Zstd)),
            _ => None,
        };
        compression.map_or((name, None), |(stem, compression)| {
            (stem, Some(compression))
        })
    }
}

/// The three columns that every output has.
pub const VERDICT_COLUMNS: [&str; 3] = ["transaction_id", "risk_score", "decision"];
/// The index of the score among our columns.
pub(crate) const SCORE_COLUMN: usize = 1;
/// The index of the decision among our columns.
pub(crate) const DECISION_COLUMN: usize = 2;

/// The columns that we write: a list of their names. The verdict's three come first, then the captured ones, and at the end
/// perhaps the one for the reason of a row without a verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddedColumns {
    names: Vec<String>,
    has_reason: bool,
    /// Whether only decisions are written, and the other columns stay as they are.
    only_decisions: bool,
}

impl AddedColumns {
    /// The verdict's columns, and these for captured fields and reasons, with `prefix` before all names.
    #[must_use]
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

    /// No columns: nothing is written.
    pub(crate) const fn none() -> Self {
        Self {
            names: Vec::new(),
            has_reason: false,
            only_decisions: false,
        }
    }

    /// These columns in a file whose rows are decided again.
    pub(crate) fn decided_again(self) -> Self {
        Self {
            only_decisions: true,
            ..self
        }
    }

    /// Whether only decisions are written.
    #[inline]
    pub(crate) const fn only_decisions(&self) -> bool {
        self.only_decisions
    }

    /// What is in the column with this index.
    #[inline]
    #[must_use]
    pub fn content(&self, column: usize) -> ColumnContent {
        if self.has_reason && column + 1 == self.names.len() {
            return ColumnContent::Reason;
        }
        match column {
            0 => ColumnContent::TransactionId,
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

/// What is in a column that we write.
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
    /// What comes before everything else and is kept: a byte order mark, and Excel's line that
    /// names the delimiter.
    pub preamble: Bytes,
    /// The header, with the cells that already have our columns' names. JSONL has none.
    pub header: Option<RawRow>,
    /// The columns that we write.
    pub columns: AddedColumns,
}

impl Layout {
    /// The value of a column as it is written in a row: a cell without its quotes, a JSON string's text, or another JSON value
    /// as it is, and nothing for null. Bytes that are not text are replaced: this is for comparing and for showing.
    pub(crate) fn value<'a>(&self, written: &'a [u8]) -> Cow<'a, str> {
        let written = match self.format {
            Format::Delimited { .. } => unquote(written),
            Format::Jsonl => Cow::Borrowed(written),
        };
        let text = match written {
            Cow::Borrowed(bytes) => self.encoding.decode_lossy(bytes),
            Cow::Owned(bytes) => Cow::Owned(self.encoding.decode_lossy(&bytes).into_owned()),
        };
        match (self.format, text) {
            (Format::Delimited { .. }, text) => text,
            (Format::Jsonl, Cow::Borrowed(json)) => raw_json::text(json),
            (Format::Jsonl, Cow::Owned(json)) => Cow::Owned(raw_json::text(&json).into_owned()),
        }
    }
}

/// The value of a cell: without its quotes, and with doubled quotes made single.
pub(crate) fn unquote(cell: &[u8]) -> Cow<'_, [u8]> {
    let Some(inner) = cell
        .strip_prefix(b"\"")
        .and_then(|rest| rest.strip_suffix(b"\""))
    else {
        return Cow::Borrowed(cell);
    };
    if memchr(b'"', inner).is_none() {
        return Cow::Borrowed(inner);
    }
    let mut value = Vec::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(quote) = memchr(b'"', rest) {
        let (before, after) = rest.split_at(quote + 1);
        value.extend_from_slice(before);
        rest = after.strip_prefix(b"\"").unwrap_or(after);
    }
    value.extend_from_slice(rest);
    Cow::Owned(value)
}
