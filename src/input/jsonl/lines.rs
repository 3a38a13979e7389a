//! Finds lines, and makes text of them.

use std::borrow::Cow;

use memchr::memchr2;

use super::super::buffer::{Buffer, Extent, line_end};
use crate::base::error::Result;
use crate::row::Span;

/// Lines that are not blank.
pub(in crate::input) fn lines_of(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == b'\n' || *byte == b'\r')
        .filter(|line| !line.trim_ascii().is_empty())
}

/// The bytes as text in which every byte keeps its position. Bytes that are not UTF-8 become
/// question marks: a member that is not sent may have any bytes, and one that is sent is compared
/// with the original bytes.
pub(in crate::input) fn readable(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| '?'));
    }
    Cow::Owned(text)
}

/// Finds the line at the front of the buffer; `None` if it is not complete yet.
pub(in crate::input) fn scan(buffer: &Buffer, max_record: usize) -> Result<Option<Extent>> {
    let bytes = &buffer.bytes;
    let (mut start, mut lines_before) = (0, 0);
    loop {
        let rest = bytes.get(start..).unwrap_or_default();
        let (end, after) = match memchr2(b'\n', b'\r', rest) {
            Some(offset) => match line_end(bytes, start + offset, buffer.at_end) {
                Some(length) => (start + offset, length),
                None => return Ok(None),
            },
            None if buffer.at_end && !rest.is_empty() => (bytes.len(), 0),
            None if rest.trim_ascii().is_empty() => {
                return buffer.check_blank_lines(max_record).map(|()| None);
            }
            None => {
                return buffer
                    .check_size(rest.len(), max_record, buffer.line + lines_before)
                    .map(|()| None);
            }
        };
        if bytes
            .get(start..end)
            .unwrap_or_default()
            .trim_ascii()
            .is_empty()
        {
            if after == 0 {
                return Ok(None);
            }
            start = end + after;
            lines_before += 1;
            continue;
        }
        let lines = u64::from(after > 0);
        return Ok(Some(Extent {
            content: Span::new(start, end),
            end: end + after,
            lines_before,
            lines,
            malformed: false,
        }));
    }
}
