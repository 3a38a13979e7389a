//! A row of a scored file, with the places of the columns that are read.

use std::borrow::Cow;

use crate::base::encoding::TextEncoding;
use crate::layout::Format;
use crate::row::{Row, Span};
use crate::verdict::Failure;

use super::super::csv::unquote;

/// A row of a scored file.
#[derive(Debug)]
pub(crate) struct ScoredRow {
    /// The row.
    pub(crate) row: Row,
    /// Where each column is, in the order in which they were asked for, or why the row cannot be read. A member that a JSON
    /// object lacks has an empty span.
    pub(crate) cells: Result<Box<[Span]>, Failure>,
    /// The encoding of the file.
    pub(super) encoding: TextEncoding,
}

impl ScoredRow {
    /// The bytes of a column as they are written, with their quotes; empty where the row has none.
    #[must_use]
    pub(crate) fn written(&self, column: usize) -> &[u8] {
        let cells = self.cells.as_deref().unwrap_or_default();
        cells
            .get(column)
            .map_or(&[][..], |span| self.row.slice(*span))
    }

    /// The value of a column: a cell without its quotes, a JSON string's text, or another JSON value as it is written. JSON's
    /// null is empty. Bytes that are not text are replaced: this is for comparing and for showing.
    #[must_use]
    pub(crate) fn value(&self, column: usize, format: Format) -> Cow<'_, str> {
        value(self.written(column), format, self.encoding)
    }
}

/// The value of what is written.
fn value(written: &[u8], format: Format, encoding: TextEncoding) -> Cow<'_, str> {
    match format {
        Format::Delimited { .. } => text_of(unquote(written), encoding),
        Format::Jsonl => match text_of(Cow::Borrowed(written), encoding) {
            Cow::Borrowed(text) => json_text(text),
            Cow::Owned(text) => Cow::Owned(json_text(&text).into_owned()),
        },
    }
}

/// Bytes as text, with what is not text replaced.
fn text_of(bytes: Cow<'_, [u8]>, encoding: TextEncoding) -> Cow<'_, str> {
    match bytes {
        Cow::Borrowed(bytes) => encoding.decode_lossy(bytes),
        Cow::Owned(bytes) => Cow::Owned(encoding.decode_lossy(&bytes).into_owned()),
    }
}

/// A JSON string's text, or another JSON value as it is written; null is empty.
fn json_text(written: &str) -> Cow<'_, str> {
    let inner = written
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'));
    match inner {
        None if written == "null" => Cow::Borrowed(""),
        None => Cow::Borrowed(written),
        Some(inner) if inner.contains('\\') => {
            serde_json::from_str(written).map_or(Cow::Borrowed(inner), Cow::Owned)
        }
        Some(inner) => Cow::Borrowed(inner),
    }
}
