//! Delimited text to records and cells, keeping every byte.
//!
//! The csv crate returns cells, not the bytes that they came from, and reads a broken quote as well as it can. Here the
//! bytes are what matters, and a broken quote must not reach a paid call. So cells are found here, by the same rules (a
//! property test compares them with the csv crate).

use memchr::{memchr, memchr2_iter, memchr3};

use super::buffer::{Buffer, Extent, MAX_RECORD, line_end, marks_at};
use crate::base::error::{Error, Result};
use crate::row::Span;

/// Finds the record at the front of the buffer and its cells; `None` if it is not complete yet.
///
/// # Errors
/// Its quote is never closed, or it is too large.
#[inline]
pub(super) fn scan(
    buffer: &Buffer,
    format: CellFormat,
    cells: &mut Vec<Span>,
) -> Result<Option<Extent>> {
    match find_record(&buffer.bytes, format, buffer.at_end, cells) {
        RecordScan::Record(extent) => Ok(Some(extent)),
        RecordScan::Nothing => buffer.check_blank_lines().map(|()| None),
        RecordScan::Partial {
            lines_before,
            open_quote,
        } => {
            let line = buffer.line + lines_before;
            match open_quote {
                Some(lines) if buffer.at_end || buffer.bytes.len() > MAX_RECORD => {
                    Err(Error::usage(format!(
                        "{}: the quote that opens at line {} is never closed",
                        buffer.source.name,
                        line + lines
                    ))
                    .hint(
                        "close it; if quotes are ordinary characters in this file, `--quotes off` reads it so",
                    ))
                }
                _ => buffer
                    .check_size(buffer.bytes.len(), line)
                    .map(|()| None),
            }
        }
    }
}

/// How cells are written.
#[derive(Debug, Clone, Copy)]
pub(super) struct CellFormat {
    pub(super) delimiter: u8,
    /// A cell that starts with a quote ends at the next one.
    pub(super) quotes: bool,
}

/// What is at the start of some bytes.
#[derive(Debug)]
pub(super) enum RecordScan {
    /// A complete record.
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
pub(super) fn find_record(
    bytes: &[u8],
    format: CellFormat,
    at_end: bool,
    cells: &mut Vec<Span>,
) -> RecordScan {
    cells.clear();
    let CellFormat { delimiter, quotes } = format;
    let Some((start, lines_before)) = skip_blank_lines(bytes, format, at_end) else {
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
        if quotes && bytes.get(at) == Some(&b'"') {
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
fn skip_blank_lines(bytes: &[u8], format: CellFormat, at_end: bool) -> Option<(usize, u64)> {
    let (mut at, mut lines) = (0, 0);
    loop {
        // Files with byte order marks follow each other after `cat`.
        at += marks_at(bytes.get(at..)?);
        let rest = bytes.get(at..).filter(|rest| !rest.is_empty())?;
        let end = at + blank_cells(rest, format);
        match bytes.get(end) {
            Some(b'\n' | b'\r') => at = end + line_end(bytes, end, at_end)?,
            None => return None,
            // The mark that DOS puts behind a text.
            Some(0x1a) if end + 1 == bytes.len() => return None,
            Some(_) => return Some((at, lines)),
        }
        lines += 1;
    }
}

/// The length of what is at the start and has nothing but empty cells, as table programs write them below a table; 0 if there
/// is no delimiter.
#[inline]
fn blank_cells(bytes: &[u8], format: CellFormat) -> usize {
    let (mut at, mut delimiters) = (0, 0);
    loop {
        match bytes.get(at..).unwrap_or_default() {
            [first, ..] if *first == format.delimiter => {
                (at, delimiters) = (at + 1, delimiters + 1);
            }
            [b'"', b'"', b'"', ..] => break,
            [b'"', b'"', ..] if format.quotes => at += 2,
            _ => break,
        }
    }
    if delimiters > 0 { at } else { 0 }
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

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::layout::unquote_if;

    const COMMA: CellFormat = CellFormat {
        delimiter: b',',
        quotes: true,
    };

    /// All records of a text: the cells, and whether quotes were broken.
    fn records(text: &[u8]) -> Vec<(Vec<Vec<u8>>, bool)> {
        let (mut rest, mut cells, mut records) = (text, Vec::new(), Vec::new());
        while let RecordScan::Record(extent) = find_record(rest, COMMA, true, &mut cells) {
            let values = cells
                .iter()
                .map(|cell| unquote_if(true, &rest[cell.range()]).into_owned())
                .collect();
            records.push((values, extent.malformed));
            rest = &rest[extent.end..];
        }
        records
    }

    fn by_the_csv_crate(text: &[u8]) -> Vec<Vec<Vec<u8>>> {
        ::csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .from_reader(text)
            .byte_records()
            .map(|record| record.unwrap().iter().map(<[u8]>::to_vec).collect())
            .collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(800))]

        #[test]
        fn cells_are_the_same_as_with_the_csv_crate(text in "([ab,\"\r\n]|\"[a,\n]{0,3}\",?|\n){0,24}") {
            let ours = records(text.as_bytes());
            let closed = !matches!(
                find_record(text.as_bytes(), COMMA, true, &mut Vec::new()),
                RecordScan::Partial { .. }
            );
            let broken = ours.iter().any(|(_, malformed)| *malformed);
            let theirs = by_the_csv_crate(text.as_bytes());
            let all = theirs.len();
            // A line of empty cells is a blank line here.
            let is_row = |cells: &Vec<Vec<u8>>| cells.len() == 1 || cells.iter().any(|cell| !cell.is_empty());
            let theirs: Vec<_> = theirs.into_iter().filter(is_row).collect();
            if !broken && closed && ours.len() == theirs.len() {
                let ours: Vec<_> = ours.into_iter().map(|(cells, _)| cells).collect();
                prop_assert_eq!(ours, theirs);
            } else {
                // We find fewer records if a quote is never closed. Broken quotes are reported, not
                // interpreted.
                prop_assert!(broken || ours.len() < all);
            }
        }

        #[test]
        fn a_record_does_not_depend_on_how_the_bytes_arrive(
            text in "([ab,\r\n]|\"[a,\"\"\r\n]{0,4}\"){1,20}",
            cut in 0_usize..40,
        ) {
            let whole = text.as_bytes();
            let cut = cut.min(whole.len());
            let (mut early, mut late) = (Vec::new(), Vec::new());
            if let RecordScan::Record(extent) = find_record(&whole[..cut], COMMA, false, &mut early) {
                let again = find_record(whole, COMMA, true, &mut late);
                let RecordScan::Record(again) = again else { panic!("lost a record") };
                prop_assert_eq!((extent.content, extent.end, early), (again.content, again.end, late));
            }
        }
    }

    #[test]
    fn a_broken_quote_is_found() {
        assert_eq!(
            records(b"\"a\"b,c\n"),
            vec![(vec![b"\"a\"b".to_vec(), b"c".to_vec()], true)]
        );
        let found = find_record(b"\na,\"b\nc", COMMA, true, &mut Vec::new());
        assert!(
            matches!(
                found,
                RecordScan::Partial {
                    lines_before: 1,
                    open_quote: Some(0)
                }
            ),
            "{found:?}"
        );
    }

    #[test]
    fn an_empty_quoted_value_is_a_row_and_a_blank_line_is_not() {
        assert_eq!(records(b"\"\"\n\n\"\"\n").len(), 2);
    }
}
