//! The number of a row, and its bytes as they were read.
//!
//! Nothing changes these bytes on their way to the output. This file knows nothing about formats: `input` finds out which bytes
//! of a record are its content.

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
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// The number as an integer, for messages and arithmetic.
    pub const fn get(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Display for RowNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A part of a record's raw bytes. Records are limited to far below 4 GiB, so 32 bits are enough and halve the size of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    /// Offset of the first byte.
    pub(crate) start: u32,
    /// Offset after the last byte.
    pub(crate) end: u32,
}

impl Span {
    /// The span from `start` up to `end`. It saturates instead of wrapping if a caller ignored the limit on records.
    #[inline]
    pub fn new(start: usize, end: usize) -> Self {
        let narrow = |offset: usize| u32::try_from(offset).unwrap_or(u32::MAX);
        Self {
            start: narrow(start),
            end: narrow(end),
        }
    }

    /// The span as a range for slicing.
    #[inline]
    pub const fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// The bytes of a row or a header, and the spans of its parts in them.
#[derive(Debug, Clone, Default)]
pub struct RawRow {
    /// The blank lines before the row, its content and its line end, exactly as read.
    pub bytes: Bytes,
    /// The content, without the blank lines before it and the line end after it.
    pub content: Span,
    /// The values that it already has for added columns, as span and number of the column, sorted by span. A column that it has
    /// twice is listed twice.
    pub scored_cells: Box<[(Span, usize)]>,
    /// Its value by which it is compared with an earlier output; empty if there is none.
    pub key: Span,
}

impl RawRow {
    /// The bytes of `span`; empty if the span is outside of the row.
    #[inline]
    pub fn slice(&self, span: Span) -> &[u8] {
        self.bytes.get(span.range()).unwrap_or_default()
    }

    /// The blank lines before the row.
    #[inline]
    pub fn before(&self) -> &[u8] {
        self.bytes
            .get(..self.content.start as usize)
            .unwrap_or_default()
    }

    /// The content, without line end.
    #[inline]
    pub fn content(&self) -> &[u8] {
        self.slice(self.content)
    }

    /// The line end; empty for a last row without one.
    #[inline]
    pub fn line_end(&self) -> &[u8] {
        self.bytes
            .get(self.content.end as usize..)
            .unwrap_or_default()
    }

    /// The line end of a row that others may follow: a last row without one gets one.
    pub(crate) fn line_end_or_new(&self) -> &[u8] {
        match self.line_end() {
            [] => b"\n",
            end => end,
        }
    }

    /// The span of the value that it already has for this added column; empty if it has none.
    #[inline]
    pub fn value_of(&self, column: usize) -> Span {
        let mut cells = self.scored_cells.iter();
        let found = cells.find(|(_, of_column)| *of_column == column);
        found.map_or_else(Span::default, |(span, _)| *span)
    }

    /// Whether it already has a cell or member for this added column.
    #[inline]
    pub(crate) fn has(&self, column: usize) -> bool {
        let mut cells = self.scored_cells.iter();
        cells.any(|(_, of_column)| *of_column == column)
    }
}
