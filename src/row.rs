//! A row as it was read: its number, its place and its raw bytes.
//!
//! Rows are made by `input` and travel unchanged through the pipeline to `output`; order, messages and bytes need no
//! look-up anywhere. This file knows nothing of formats: which bytes of a record are its content is found by whoever
//! made the row.

use std::fmt;
use std::num::NonZeroU64;
use std::ops::Range;

use bytes::Bytes;

/// The number of a row in its file: 1 for the first row after the header (CSV) or the first object (JSONL).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowNumber(NonZeroU64);

impl RowNumber {
    /// The number of the first row.
    pub const FIRST: Self = Self(NonZeroU64::MIN);

    /// The number after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// The number itself, for messages and arithmetic.
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

/// A part of a record's raw bytes. Records are capped far below 4 GiB, so 32 bits do and halve a row's size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    /// Offset of the first byte.
    pub(crate) start: u32,
    /// Offset after the last byte.
    pub(crate) end: u32,
}

impl Span {
    /// The span from `start` up to `end`; saturates instead of wrapping where a caller broke the cap on records.
    #[must_use]
    pub fn new(start: usize, end: usize) -> Self {
        let narrow = |offset: usize| u32::try_from(offset).unwrap_or(u32::MAX);
        Self {
            start: narrow(start),
            end: narrow(end),
        }
    }

    /// The span as a range for slicing.
    #[must_use]
    pub const fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// Where a row's earlier verdict stands; empty spans where there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Earlier {
    /// The score as written: a cell with its quotes, a JSON value.
    pub(crate) score: Span,
    /// The decision, likewise.
    pub(crate) decision: Span,
}

/// One row of the input, with every byte that it came with.
#[derive(Debug, Clone)]
pub struct Row {
    /// Its place among the rows.
    pub number: RowNumber,
    /// Blank lines before the row, its content and its line end, exactly as read.
    pub raw: Bytes,
    /// The content within `raw`: what is left without the blank lines before and the line end after.
    pub content: Span,
    /// Where this row already holds values of the columns that we write: place and column, in the order of places. A
    /// column that the row has twice stands here twice.
    pub existing: Box<[(Span, usize)]>,
    /// What was said of the user the last time, where the row tells; also where these columns are not replaced.
    pub earlier: Earlier,
}

impl Row {
    /// The bytes of `span` within this row; empty where the span is outside of it.
    #[must_use]
    pub fn slice(&self, span: Span) -> &[u8] {
        self.raw.get(span.range()).unwrap_or_default()
    }

    /// Blank lines that stood before the row.
    #[must_use]
    pub fn before(&self) -> &[u8] {
        self.raw
            .get(..self.content.start as usize)
            .unwrap_or_default()
    }

    /// The content, without line end.
    #[must_use]
    pub fn content(&self) -> &[u8] {
        self.slice(self.content)
    }

    /// The line end; empty for a last row without one.
    #[must_use]
    pub fn line_end(&self) -> &[u8] {
        self.raw
            .get(self.content.end as usize..)
            .unwrap_or_default()
    }
}
