//! How a file is built: its format and the columns that we put into it.
//!
//! `input` finds it out before the first row, `output` writes by it. It must not know how either is done.

use bytes::Bytes;

use crate::row::Row;

/// What a record of the file looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Delimited text with a header.
    Delimited {
        /// The byte between cells.
        delimiter: u8,
    },
    /// One JSON object a line.
    Jsonl,
}

impl Format {
    /// The usual end of a file's name.
    #[must_use]
    pub(crate) const fn extension(self) -> &'static str {
        match self {
            Self::Delimited { delimiter: b'\t' } => "tsv",
            Self::Delimited { .. } => "csv",
            Self::Jsonl => "jsonl",
        }
    }
}

/// How a file is compressed, as its name's end says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Packing {
    /// `.gz`
    Gzip,
    /// `.zst`
    Zstd,
}

impl Packing {
    /// A file's name without the end that says how it is compressed, and what it says; in any case of letters.
    #[must_use]
    pub(crate) fn split(name: &str) -> (&str, Option<Self>) {
        let packing = match name.rsplit_once('.') {
            Some((stem, end)) if end.eq_ignore_ascii_case("gz") => Some((stem, Self::Gzip)),
            Some((stem, end)) if end.eq_ignore_ascii_case("zst") => Some((stem, Self::Zstd)),
            _ => None,
        };
        packing.map_or((name, None), |(stem, packing)| (stem, Some(packing)))
    }
}

/// What to do where the input already has columns of our names: last night's output is the usual input of a rescoring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Existing {
    /// Put the new values in their place.
    #[default]
    Replace,
    /// Leave the old values under `previous_*` names and append the new ones.
    Keep,
    /// Refuse the file (CSV) or the row (JSONL).
    Error,
}

/// What the name of an old column gets in front with [`Existing::Keep`].
pub const PREVIOUS: &str = "previous_";

/// The three columns that every output has.
pub const VERDICT_COLUMNS: [&str; 3] = ["transaction_id", "risk_score", "decision"];
/// Where the score stands among our columns.
pub(crate) const SCORE_COLUMN: usize = 1;
/// Where the decision stands among our columns.
pub(crate) const DECISION_COLUMN: usize = 2;

/// Everything about a file that is known before its first row.
#[derive(Debug, Clone)]
pub struct Layout {
    /// The format.
    pub format: Format,
    /// What stands before everything else and stays there: a byte order mark, Excel's line that names the delimiter.
    pub preamble: Bytes,
    /// The header as a row, with the cells that already have our columns' names; none for JSONL.
    pub header: Option<Row>,
    /// Names of the columns that we write: the three, then the captured ones.
    pub columns: Vec<String>,
    /// What happens to columns of these names that are there already.
    pub existing: Existing,
}
