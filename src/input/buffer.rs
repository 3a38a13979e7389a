//! The bytes that were read and are not yet rows.

use std::time::Duration;

use bytes::BytesMut;
use tokio::time::Instant;

use super::source::Source;
use super::text::{self, BYTE_ORDER_MARK, HEAD};
use crate::base::encoding::TextEncoding;
use crate::base::error::{Error, Result};
use crate::row::{RawRow, Span};

/// The largest record, or series of blank lines, in bytes. A quote that is never closed must not fill the memory.
pub(super) const MAX_RECORD: usize = 16 * 1024 * 1024;

/// How much is read in one go: large enough that reading costs little per row, small enough to keep
/// memory use flat.
const BLOCK: usize = 128 * 1024;

/// How long to wait for the first MiB of a pipe, so that it is checked before the first call. A
/// program that passes on a file takes less. If a program waits for events, its first rows are
/// delayed by this time, once.
const HEAD_WAIT: Duration = Duration::from_millis(500);

/// The position of a record at the front of the buffer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extent {
    pub(super) content: Span,
    pub(super) end: usize,
    pub(super) lines_before: u64,
    /// The number of lines of the record itself.
    pub(super) lines: u64,
    /// Whether there is text after a closing quote.
    pub(super) malformed: bool,
}

impl Extent {
    /// The record's lines in words, in a buffer that starts at line `start`.
    pub(super) fn lines(&self, start: u64) -> String {
        let first = start + self.lines_before;
        let ends = self.end > self.content.range().end;
        match self.lines - u64::from(ends) {
            0 => format!("line {first}"),
            further => format!("lines {first} to {}", first + further),
        }
    }
}

/// The bytes that were read and are not yet rows.
pub(super) struct Buffer {
    pub(super) bytes: BytesMut,
    pub(super) source: Source,
    pub(super) at_end: bool,
    /// The line number of the buffer's first byte.
    pub(super) line: u64,
}

impl Buffer {
    /// A buffer with nothing read yet.
    pub(super) fn new(source: Source) -> Self {
        Self {
            bytes: BytesMut::new(),
            source,
            at_end: false,
            line: 1,
        }
    }

    /// Reads another block; sets `at_end` if there is none.
    ///
    /// # Errors
    /// It cannot be read.
    pub(super) fn fill(&mut self) -> Result<()> {
        let held = self.bytes.len();
        // For a record larger than a block the amount doubles each time, so that it is scanned
        // again a few times and not hundreds of times: a pipe returns little per read.
        let enough = if held <= BLOCK { held + 1 } else { 2 * held };
        self.read(enough, held + BLOCK.max(held))
    }

    /// Reads until there are `enough` bytes, and at most `most`.
    fn read(&mut self, enough: usize, most: usize) -> Result<()> {
        while !self.at_end && self.bytes.len() < enough {
            let before = self.bytes.len();
            self.bytes.resize(most, 0);
            let free = self.bytes.get_mut(before..).unwrap_or_default();
            let read = self.source.read(free);
            self.bytes.truncate(before + *read.as_ref().unwrap_or(&0));
            self.at_end = read? == 0;
        }
        Ok(())
    }

    /// Reads until there is a line that is not blank, by which the file can be judged.
    pub(super) fn fill_first_line(&mut self) -> Result<()> {
        loop {
            let text = self.bytes.trim_ascii_start();
            let whole = memchr::memchr2(b'\n', b'\r', text).is_some();
            if whole || self.at_end || self.bytes.len() > MAX_RECORD {
                return Ok(());
            }
            self.fill()?;
        }
    }

    /// Reads the head, and checks that it is text. The second row of a pipe may come in an hour: then the head is what is
    /// there.
    ///
    /// # Errors
    /// It cannot be read, or is not text.
    pub(super) fn fill_head(&mut self, encoding: TextEncoding) -> Result<()> {
        let started = Instant::now();
        while self.bytes.len() < HEAD && !self.at_end {
            let left = HEAD_WAIT.saturating_sub(started.elapsed());
            if !self.source.has_more(left) {
                break;
            }
            self.read(self.bytes.len() + 1, HEAD)?;
        }
        let head = self.bytes.get(..HEAD).unwrap_or(&self.bytes);
        let whole = self.at_end && head.len() == self.bytes.len();
        text::check(head, encoding, whole)
            .map_err(|wrong| wrong.error(&self.source.name, &self.bytes))
    }

    /// Takes a record off the front, without copying it.
    #[inline]
    pub(super) fn take(&mut self, extent: &Extent) -> RawRow {
        let bytes = self
            .bytes
            .split_to(extent.end.min(self.bytes.len()))
            .freeze();
        self.line += extent.lines_before + extent.lines;
        RawRow {
            bytes,
            content: extent.content,
            ..RawRow::default()
        }
    }

    /// Fails if there are only blank lines, and too many to keep.
    pub(super) fn check_blank_lines(&self) -> Result<()> {
        if self.at_end || self.bytes.len() <= MAX_RECORD {
            return Ok(());
        }
        Err(Error::usage(format!(
            "{} has more than 16 MiB of blank lines, starting at line {}",
            self.source.name, self.line
        )))
    }

    /// Fails if the record of `length` bytes at the front, or its part so far, is larger than
    /// allowed.
    #[inline]
    pub(super) fn check_size(&self, length: usize, line: u64) -> Result<()> {
        if length <= MAX_RECORD {
            return Ok(());
        }
        Err(Error::usage(format!(
            "a record in {} at line {line} is larger than 16 MiB",
            self.source.name
        )))
    }
}

/// The length of the byte order marks that these bytes start with.
#[inline]
pub(super) fn marks_at(bytes: &[u8]) -> usize {
    let starts = bytes.chunks(BYTE_ORDER_MARK.len());
    let marks = starts.take_while(|start| *start == BYTE_ORDER_MARK);
    marks.count() * BYTE_ORDER_MARK.len()
}

/// The length of the line end at `at`: 1 for LF or CR, 2 for CRLF, `None` if the byte after a CR is
/// not there yet.
#[inline]
pub(super) fn line_end(bytes: &[u8], at: usize, at_end: bool) -> Option<usize> {
    match (bytes.get(at), bytes.get(at + 1)) {
        (Some(b'\r'), Some(b'\n')) => Some(2),
        (Some(b'\r'), None) if !at_end => None,
        _ => Some(1),
    }
}
