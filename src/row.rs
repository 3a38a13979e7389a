//! A row as it was read: its number and its raw bytes.
//!
//! Rows are made by `input` and travel unchanged through the engine to `output`, so nothing has
//! to look up their order, messages or bytes. This file knows nothing about formats: `input` finds
//! out which bytes of a record are its content.

use std::fmt;
use std::num::NonZeroU64;
use std::ops::Range;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// The number of a row in its file: 1 for the first row after the header (CSV) or the first object (JSONL).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RowNumber(NonZeroU64);

impl RowNumber {
    /// The number of the first row.
    pub const FIRST: Self = Self(NonZeroU64::MIN);

    /// The number after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// The number as an integer, for messages and arithmetic.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Display for RowNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A part of a record's raw bytes. Records are limited to far below 4 GiB, so 32 bits are enough
/// and halve the size of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    /// Offset of the first byte.
    pub(crate) start: u32,
    /// Offset after the last byte.
    pub(crate) end: u32,
}

impl Span {
    /// The span from `start` up to `end`. It saturates instead of wrapping if a caller ignored the
    /// limit on records.
    #[must_use]
    #[inline]
    pub fn new(start: usize, end: usize) -> Self {
        let narrow = |offset: usize| u32::try_from(offset).unwrap_or(u32::MAX);
        Self {
            start: narrow(start),
            end: narrow(end),
        }
    }

    /// The span as a range for slicing.
    #[must_use]
    #[inline]
    pub const fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// Where a row has the verdict of an earlier run; empty spans if it has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Earlier {
    /// The score as written: a cell with its quotes, a JSON value.
    pub(crate) score: Span,
    /// The decision, likewise.
    pub(crate) decision: Span,
}

/// One row of the input with all of its bytes.
#[derive(Debug, Clone)]
pub struct Row {
    /// Its position among the rows.
    pub number: RowNumber,
    /// The blank lines before the row, its content and its line end, exactly as read.
    pub raw: Bytes,
    /// The content within `raw`, without the blank lines before it and the line end after it.
    pub content: Span,
    /// Where this row already has values of the columns that we write, as span and column, sorted
    /// by span. A column that the row has twice is listed twice.
    pub existing: Box<[(Span, usize)]>,
    /// The user's verdict from an earlier run, if the row has one, also when those columns are not
    /// replaced.
    pub earlier: Earlier,
}

impl Row {
    /// The bytes of `span` within this row; empty if the span is outside of it.
    #[must_use]
    #[inline]
    pub fn slice(&self, span: Span) -> &[u8] {
        self.raw.get(span.range()).unwrap_or_default()
    }

    /// The blank lines before the row.
    #[must_use]
    #[inline]
    pub fn before(&self) -> &[u8] {
        self.raw
            .get(..self.content.start as usize)
            .unwrap_or_default()
    }

    /// The content, without line end.
    #[must_use]
    #[inline]
    pub fn content(&self) -> &[u8] {
        self.slice(self.content)
    }

    /// The line end; empty for a last row without one.
    #[must_use]
    #[inline]
    pub fn line_end(&self) -> &[u8] {
        self.raw
            .get(self.content.end as usize..)
            .unwrap_or_default()
    }

    /// The line end, where more rows may follow: a last row without one gets one.
    #[must_use]
    pub(crate) fn line_end_or_new(&self) -> &[u8] {
        match self.line_end() {
            [] => b"\n",
            end => end,
        }
    }

    /// Whether the row already has a cell or member for this column of ours.
    #[must_use]
    #[inline]
    pub(crate) fn has(&self, column: usize) -> bool {
        self.existing.iter().any(|(_, there)| *there == column)
    }
}
