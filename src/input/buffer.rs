//! The bytes that were read and are not yet rows.

use std::time::Duration;

use bytes::BytesMut;
use tokio::time::Instant;

use super::source::Source;
use super::text::{HEAD, Judge, NotText};
use crate::base::error::{Error, Result};
use crate::row::{Earlier, Row, RowNumber, Span};

/// How much is read at once: large enough that reading costs little a row, small enough to keep memory flat.
const BLOCK: usize = 128 * 1024;

/// How long the first MiB of a pipe may take, to be judged before the first call: a program that passes on a file takes
/// less. The first rows of one that waits for events are held up for so long, once.
const HEAD_WAIT: Duration = Duration::from_millis(500);

/// Where a record lies at the front of the buffer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extent {
    pub(super) content: Span,
    pub(super) end: usize,
    pub(super) lines_before: u64,
    /// Lines that the record itself takes.
    pub(super) lines: u64,
    /// Text stands after a closing quote.
    pub(super) malformed: bool,
}

/// The bytes that were read and not yet handed out.
pub(super) struct Buffer {
    pub(super) bytes: BytesMut,
    pub(super) source: Source,
    pub(super) at_end: bool,
    /// The physical line that the buffer's first byte stands on.
    pub(super) line: u64,
    /// Whether it is text.
    judge: Judge,
    /// As much of the head has been read as is judged before the first call.
    has_head: bool,
}

impl Buffer {
    /// A buffer with nothing read yet.
    pub(super) fn new(source: Source) -> Self {
        Self {
            bytes: BytesMut::new(),
            source,
            at_end: false,
            line: 1,
            judge: Judge::default(),
            has_head: false,
        }
    }

    /// Reads another block; sets `at_end` when there is none.
    ///
    /// # Errors
    /// It cannot be read, or is not text.
    pub(super) fn fill(&mut self) -> Result<()> {
        let held = self.bytes.len();
        // What a record larger than a block still needs is doubled each time, so that it is scanned again a few times
        // and not hundreds; pipes give little at once.
        let enough = if held <= BLOCK { held + 1 } else { 2 * held };
        self.read(enough, held + BLOCK.max(held))
    }

    /// Reads until there are `enough` bytes, and no more than `most`.
    fn read(&mut self, enough: usize, most: usize) -> Result<()> {
        while !self.at_end && self.bytes.len() < enough {
            let before = self.bytes.len();
            self.bytes.resize(most, 0);
            let free = self.bytes.get_mut(before..).unwrap_or_default();
            let read = self.source.read(free);
            self.bytes.truncate(before + *read.as_ref().unwrap_or(&0));
            self.at_end = read? == 0;
            let new = self.bytes.get(before..).unwrap_or_default();
            let taken = self.judge.take(new, self.at_end);
            let judged = taken.and_then(|()| {
                if self.has_head {
                    self.judge.verdict()
                } else {
                    Ok(())
                }
            });
            self.refuse(judged)?;
        }
        Ok(())
    }

    /// Reads until there is a line that says something, so that the file can be judged by it.
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

    /// Reads what is judged before the first call. A pipe may have its second row in an hour: the rest of it is judged as it
    /// comes.
    pub(super) fn fill_head(&mut self) -> Result<()> {
        let begin = Instant::now();
        while self.bytes.len() < HEAD && !self.at_end {
            let left = HEAD_WAIT.saturating_sub(begin.elapsed());
            if !self.source.has_more(left) {
                break;
            }
            self.read(self.bytes.len() + 1, HEAD)?;
        }
        self.has_head = true;
        self.refuse(self.judge.verdict())
    }

    fn refuse(&self, judged: std::result::Result<(), NotText>) -> Result<()> {
        judged.map_err(|wrong| wrong.error(self.source.name(), &self.bytes))
    }

    /// Takes a record off the front, without copying it.
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

    /// Fails when there is nothing but blank lines, and too many of them to hold.
    pub(super) fn check_blank_lines(&self, most: usize) -> Result<()> {
        if self.at_end || self.bytes.len() <= most {
            return Ok(());
        }
        Err(Error::usage(format!(
            "{} has more than {most} bytes of blank lines from line {} on",
            self.source.name(),
            self.line
        ))
        .hint("`--max-record-bytes` raises the limit"))
    }

    /// Fails when the record of `length` bytes at the front, or what there is of it, is larger than allowed.
    pub(super) fn check_size(&self, length: usize, max_record: usize, line: u64) -> Result<()> {
        if length <= max_record {
            return Ok(());
        }
        Err(Error::usage(format!(
            "a record in {} at line {line} is larger than {max_record} bytes",
            self.source.name()
        ))
        .hint("`--max-record-bytes` raises the limit"))
    }
}

/// Length of the line end at `at`: 1 for LF or CR, 2 for CRLF, `None` when the byte after a CR is not there yet.
pub(super) fn line_end(bytes: &[u8], at: usize, at_end: bool) -> Option<usize> {
    match (bytes.get(at), bytes.get(at + 1)) {
        (Some(b'\r'), Some(b'\n')) => Some(2),
        (Some(b'\r'), None) if !at_end => None,
        _ => Some(1),
    }
}
