//! Finds records and cells.

use std::borrow::Cow;

use memchr::{memchr, memchr2_iter, memchr3};

use super::super::buffer::{Buffer, Extent, line_end};
use crate::base::error::{Error, Result};
use crate::row::Span;

/// The value of a cell: without its quotes, and with doubled quotes made single.
pub(in crate::input) fn unquote(cell: &[u8]) -> Cow<'_, [u8]> {
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

/// The value of a cell that only has to lose its quotes, if it has any; `None` if a quote within it is doubled.
#[inline]
pub(super) fn unquoted(cell: &str) -> Option<&str> {
    match { cell.strip_prefix('"') }.and_then(|rest| rest.strip_suffix('"')) {
        None => Some(cell),
        Some(inner) => memchr(b'"', inner.as_bytes()).is_none().then_some(inner),
    }
}

#[inline]
pub(in crate::input) fn scan(
    buffer: &Buffer,
    delimiter: u8,
    max_record: usize,
    cells: &mut Vec<Span>,
) -> Result<Option<Extent>> {
    match find_record(&buffer.bytes, delimiter, buffer.at_end, cells) {
        RecordScan::Record(extent) => Ok(Some(extent)),
        RecordScan::Nothing => buffer.check_blank_lines(max_record).map(|()| None),
        RecordScan::Partial {
            lines_before,
            open_quote,
        } => {
            let line = buffer.line + lines_before;
            match open_quote {
                Some(lines) if buffer.at_end || buffer.bytes.len() > max_record => {
                    Err(Error::usage(format!(
                        "{}: the quote that opens at line {} is never closed",
                        buffer.source.name(),
                        line + lines
                    ))
                    .hint(
                        "close it; if it belongs to the value, double it and put the value in quotes",
                    ))
                }
                _ => buffer
                    .check_size(buffer.bytes.len(), max_record, line)
                    .map(|()| None),
            }
        }
    }
}

#[derive(Debug)]
pub(in crate::input) enum RecordScan {
    Record(Extent),
    /// A record starts, but more bytes are needed; with `open_quote`, it ends within a quote that
    /// was opened this many lines after the start of the record.
    Partial {
        lines_before: u64,
        open_quote: Option<u64>,
    },
    /// Nothing, except perhaps blank lines.
    Nothing,
}

/// Finds the first record of `bytes` and its cells.
#[inline]
pub(in crate::input) fn find_record(
    bytes: &[u8],
    delimiter: u8,
    at_end: bool,
    cells: &mut Vec<Span>,
) -> RecordScan {
    cells.clear();
    let Some((start, lines_before)) = skip_blank_lines(bytes, at_end) else {
        return RecordScan::Nothing;
    };
    let partial = |open_quote| RecordScan::Partial {
        lines_before,
        open_quote,
    };
    let lines_up_to = |end: usize| lines_in(bytes.get(start..end).unwrap_or_default());
    let (mut at, mut malformed, mut quoted) = (start, false, false);
    loop {
        let cell = at;
        if bytes.get(at) == Some(&b'"') {
            quoted = true;
            let Some(closed) = closing_quote(bytes, at + 1, at_end) else {
                return partial(Some(lines_up_to(at)));
            };
            at = closed;
            malformed |= bytes
                .get(at)
                .is_some_and(|byte| *byte != delimiter && *byte != b'\n' && *byte != b'\r');
        }
        let rest = bytes.get(at..).unwrap_or_default();
        let stop = memchr3(delimiter, b'\n', b'\r', rest);
        let end = match stop {
            Some(offset) => at + offset,
            None if at_end => bytes.len(),
            None => return partial(None),
        };
        cells.push(Span::new(cell, end));
        if stop.is_some() && bytes.get(end) == Some(&delimiter) {
            at = end + 1;
            continue;
        }
        let after = match stop {
            None => 0,
            Some(_) => match line_end(bytes, end, at_end) {
                Some(length) => length,
                None => return partial(None),
            },
        };
        let inside = if quoted { lines_up_to(end) } else { 0 };
        return RecordScan::Record(Extent {
            content: Span::new(start, end),
            end: end + after,
            lines_before,
            lines: inside + u64::from(after > 0),
            malformed,
        });
    }
}

/// The start of the first record and the number of blank lines before it; `None` if there is no record yet.
#[inline]
fn skip_blank_lines(bytes: &[u8], at_end: bool) -> Option<(usize, u64)> {
    let (mut at, mut lines) = (0, 0);
    while let Some(b'\n' | b'\r') = bytes.get(at) {
        at += line_end(bytes, at, at_end)?;
        lines += 1;
    }
    (at < bytes.len()).then_some((at, lines))
}

/// The offset after the quote that closes the cell whose text starts at `from`; `None` if it is not
/// there (yet).
#[inline]
fn closing_quote(bytes: &[u8], from: usize, at_end: bool) -> Option<usize> {
    let mut at = from;
    loop {
        at += memchr(b'"', bytes.get(at..)?)? + 1;
        match bytes.get(at) {
            Some(b'"') => at += 1,
            None if !at_end => return None,
            _ => return Some(at),
        }
    }
}

/// The number of line ends within a record.
#[inline]
fn lines_in(bytes: &[u8]) -> u64 {
    memchr2_iter(b'\n', b'\r', bytes)
        .filter(|at| {
            bytes.get(*at) == Some(&b'\r')
                || !bytes
                    .get(..*at)
                    .is_some_and(|before| before.ends_with(b"\r"))
        })
        .map(|_| 1)
        .sum()
}
