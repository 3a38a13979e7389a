//! The bytes that were read and are not yet rows.

use std::time::Duration;

use bytes::BytesMut;
use tokio::time::Instant;

use super::source::Source;
use super::text::{HEAD, NotText, TextCheck};
use crate::base::encoding::TextEncoding;
use crate::base::error::{Error, Result};
use crate::row::{Earlier, Row, RowNumber, Span};

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
    /// Checks that the input is text.
    check: TextCheck,
    /// Whether the head, which is checked before the first call, has been read.
    has_head: bool,
}

impl Buffer {
    /// A buffer with nothing read yet.
    pub(super) fn new(source: Source, encoding: TextEncoding) -> Self {
        Self {
            bytes: BytesMut::new(),
            source,
            at_end: false,
            line: 1,
            check: TextCheck::new(encoding),
            has_head: false,
        }
    }

    /// Reads another block; sets `at_end` if there is none.
    ///
    /// # Errors
    /// It cannot be read, or is not text.
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
            let new = self.bytes.get(before..).unwrap_or_default();
            let taken = self.check.add(new, self.at_end);
            let judged = taken.and_then(|()| {
                if self.has_head {
                    self.check.result()
                } else {
                    Ok(())
                }
            });
            self.refuse(judged)?;
        }
        Ok(())
    }

    /// Reads until there is a line that is not blank, by which the file can be judged.
    pub(super) fn fill_first_line(&mut self, max_record: usize) -> Result<()> {
        loop {
            let text = self.bytes.trim_ascii_start();
            let whole = memchr::memchr2(b'\n', b'\r', text).is_some();
            if whole || self.at_end || self.bytes.len() > max_record {
                return Ok(());
            }
            self.fill()?;
        }
    }

    /// Reads the head, which is checked before the first call. The second row of a pipe may come in
    /// an hour: the rest of its head is checked as it comes.
    pub(super) fn fill_head(&mut self) -> Result<()> {
        let started = Instant::now();
        while self.bytes.len() < HEAD && !self.at_end {
            let left = HEAD_WAIT.saturating_sub(started.elapsed());
            if !self.source.has_more(left) {
                break;
            }
            self.read(self.bytes.len() + 1, HEAD)?;
        }
        self.has_head = true;
        self.refuse(self.check.result())
    }

    fn refuse(&self, judged: std::result::Result<(), NotText>) -> Result<()> {
        judged.map_err(|wrong| wrong.error(self.source.name(), &self.bytes))
    }

    /// Takes a record off the front, without copying it.
    #[inline]
    pub(super) fn take(&mut self, extent: &Extent, number: RowNumber) -> Row {
        let raw = self
            .bytes
            .split_to(extent.end.min(self.bytes.len()))
            .freeze();
        self.line += extent.lines_before + extent.lines;
        Row {
            number,
            raw,
            content: extent.content,
            existing: Box::default(),
            earlier: Earlier::default(),
        }
    }

    /// Fails if there are only blank lines, and too many to keep.
    pub(super) fn check_blank_lines(&self, most: usize) -> Result<()> {
        if self.at_end || self.bytes.len() <= most {
            return Ok(());
        }
        Err(Error::usage(format!(
            "{} has more than {} of blank lines, starting at line {}",
            self.source.name(),
            size(most),
            self.line
        ))
        .hint("`--max-record-bytes` raises the limit"))
    }

    /// Fails if the record of `length` bytes at the front, or its part so far, is larger than
    /// allowed.
    #[inline]
    pub(super) fn check_size(&self, length: usize, max_record: usize, line: u64) -> Result<()> {
        if length <= max_record {
            return Ok(());
        }
        Err(Error::usage(format!(
            "a record in {} at line {line} is larger than {}",
            self.source.name(),
            size(max_record)
        ))
        .hint("`--max-record-bytes` raises the limit"))
    }
}

/// A limit in the words of its option: `16M`, `64K`.
fn size(bytes: usize) -> String {
    match (bytes % (1 << 20), bytes % (1 << 10)) {
        (0, _) => format!("{}M", bytes >> 20),
        (_, 0) => format!("{}K", bytes >> 10),
        _ => format!("{bytes} bytes"),
    }
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
