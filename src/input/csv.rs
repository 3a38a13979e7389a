//! Delimited text to records, keeping every byte.
//!
//! The csv crate hands out cells, not the bytes that they came from, and reads a broken quote as best it can. Here the
//! bytes are the point and a broken quote must not reach a paid call, so this file finds the cells itself, by the same
//! rules (the tests hold it against the csv crate).

use std::borrow::Cow;

use bytes::Bytes;
use memchr::{memchr, memchr2_iter, memchr3};

use super::existing::{self, Conflict, Found as Ours};
use super::{Bodies, Buffer, Extent, Settings, line_end};
use crate::base::error::{Error, Result, quoted};
use crate::fields::{self, ColumnSource, InvalidPhone, Mapping, UserRequest};
use crate::layout::{DECISION_COLUMN, Existing, PREVIOUS, SCORE_COLUMN};
use crate::row::{Earlier, Row, RowNumber, Span};
use crate::verdict::{Failure, Reason};

/// Finds records and makes requests of them.
pub(super) struct Parser {
    delimiter: u8,
    /// The cells of the record that was scanned last, relative to its first byte.
    cells: Vec<Span>,
    /// How many cells the header has, or without one the first row.
    width: usize,
    no_header: bool,
    mapping: Mapping<usize>,
    /// Names of the columns that we write.
    columns: Vec<String>,
    /// The header's cells that hold our columns, in our order; empty when there are none to replace.
    replaced: Box<[Option<usize>]>,
    /// The header's cells that hold an earlier score and decision, replaced or not.
    score: Option<usize>,
    decision: Option<usize>,
}

impl Parser {
    /// Reads the header and holds the mapping against it. Without one, the first row tells how many columns there are.
    pub(super) fn open(
        delimiter: u8,
        settings: &Settings,
        buffer: &mut Buffer,
    ) -> Result<(Self, Option<Row>, String)> {
        let mut cells = Vec::new();
        let extent = loop {
            match scan(buffer, delimiter, settings.max_record, &mut cells)? {
                Some(extent) => break extent,
                None if buffer.at_end => {
                    return Ok((Self::of_nothing(delimiter, settings), None, String::new()));
                }
                None => buffer.fill()?,
            }
        };
        let (names, mut header) = if settings.no_header {
            let numbers = (1..=cells.len()).map(|number| number.to_string());
            (numbers.collect(), None)
        } else if extent.malformed {
            return Err(Error::usage(format!(
                "the header of {} has text after a closing quote",
                buffer.source.name()
            )));
        } else {
            let header = buffer.take(&extent, RowNumber::FIRST);
            let name =
                |cell: &Span| String::from_utf8_lossy(&unquote(header.slice(*cell))).into_owned();
            let names: Vec<String> = cells.iter().map(name).collect();
            (names, Some(header))
        };
        let file = buffer.source.name();
        let mapping = Mapping::of_header(&names, &settings.assignments, file)
            // What would be shown of it may be a person.
            .map_err(|error| no_header(&names, file).unwrap_or(error))?;
        let ours = existing(&names, &mapping, settings, file)?;
        if let Some(header) = &mut header {
            header.existing = spans(&ours, &cells);
        }
        let described = mapping.described.clone();
        let ours_at = |column: usize| ours.get(column).copied().flatten();
        let (score, decision) = (ours_at(SCORE_COLUMN), ours_at(DECISION_COLUMN));
        let replaced = if settings.existing == Existing::Replace {
            ours
        } else {
            Box::default()
        };
        let mut parser = Self {
            delimiter,
            width: names.len(),
            no_header: settings.no_header,
            cells,
            mapping,
            columns: settings.columns.clone(),
            replaced,
            score,
            decision,
        };
        parser.judge_first_rows(buffer)?;
        Ok((parser, header, described))
    }

    /// A file without a header and without rows, as of a nightly export that had nothing to say.
    fn of_nothing(delimiter: u8, settings: &Settings) -> Self {
        Self {
            delimiter,
            width: 0,
            no_header: true,
            cells: Vec::new(),
            mapping: Mapping::nothing(),
            columns: settings.columns.clone(),
            replaced: Box::default(),
            score: None,
            decision: None,
        }
    }

    /// The names of the columns that are replaced.
    pub(super) fn replaced(&self) -> Vec<String> {
        let places = self.columns.iter().zip(&self.replaced);
        let there = places.filter(|(_, place)| place.is_some());
        there.map(|(name, _)| name.clone()).collect()
    }

    /// Fails when a row that has been read already has a value in our columns that is not ours.
    fn judge_first_rows(&mut self, buffer: &Buffer) -> Result<()> {
        if self.replaced.is_empty() {
            return Ok(());
        }
        let mut rest = buffer.bytes.as_ref();
        for row in 1.. {
            let found = find_record(rest, self.delimiter, buffer.at_end, &mut self.cells);
            let Found::Record(extent) = found else {
                break;
            };
            if let Some(conflict) = self.foreign(|cell| rest.get(cell.range())) {
                return Err(conflict.refuses(&self.columns, buffer.source.name(), row));
            }
            rest = rest.get(extent.end..).unwrap_or_default();
        }
        Ok(())
    }

    /// The first of our columns with a value in the record that we never write. Of a ragged one nobody knows which of its
    /// cells are ours.
    fn foreign<'a>(&self, bytes: impl Fn(Span) -> Option<&'a [u8]>) -> Option<Conflict> {
        if self.cells.len() != self.width {
            return None;
        }
        let fits = |column: usize, place: usize| {
            let cell = self.cells.get(place).copied().and_then(&bytes);
            let text = unquote(cell.unwrap_or_default());
            existing::fits(column, std::str::from_utf8(&text).ok())
        };
        let mut places = self.replaced.iter().enumerate();
        places.find_map(|(column, place)| {
            (!fits(column, (*place)?)).then_some(Conflict::Foreign(column))
        })
    }

    /// Finds the record at the front of the buffer; `None` when it is not whole yet.
    pub(super) fn scan(&mut self, buffer: &Buffer, max_record: usize) -> Result<Option<Extent>> {
        scan(buffer, self.delimiter, max_record, &mut self.cells)
    }

    /// The request that the record asks for; marks where the row holds our columns.
    pub(super) fn request(
        &self,
        row: &mut Row,
        extent: &Extent,
        invalid_phone: InvalidPhone,
        bodies: &mut Bodies,
    ) -> Result<Bytes, Failure> {
        if let Some(conflict) = self.foreign(|cell| Some(row.slice(cell))) {
            return Err(conflict.fails(&self.columns));
        }
        if self.cells.len() == self.width {
            // Also of a row that fails: it must not keep a verdict of last night. A ragged row stays as it is, as nobody
            // knows which of its cells are ours.
            row.existing = spans(&self.replaced, &self.cells);
            let cell =
                |index: Option<usize>| index.and_then(|index| self.cells.get(index).copied());
            row.earlier = Earlier {
                score: cell(self.score).unwrap_or_default(),
                decision: cell(self.decision).unwrap_or_default(),
            };
        }
        if extent.malformed {
            return Err(Failure::new(
                Reason::TextAfterQuote,
                "text after a closing quote",
            ));
        }
        if self.cells.len() != self.width {
            let first = if self.no_header {
                "first row"
            } else {
                "header"
            };
            let message = format!(
                "{} cells where the {first} has {}",
                self.cells.len(),
                self.width
            );
            return Err(Failure::new(Reason::Ragged, message));
        }
        let find = |field| match self.mapping.sources.get(field) {
            ColumnSource::Absent => Ok(None),
            ColumnSource::Constant(value) => Ok(Some(Cow::Borrowed(value.as_str()))),
            ColumnSource::Columns(template) => template
                .value(|index| self.cells.get(*index).map(|cell| unquote(row.slice(*cell))))
                .map(|bytes| fields::text(bytes, field))
                .transpose(),
        };
        UserRequest::new(find, invalid_phone).map(|request| bodies.body(&request))
    }
}

/// The error for a header that has what only a row of users has; `None` where it has none of it.
fn no_header(names: &[String], file: &str) -> Option<Error> {
    let mut values = { (1..).zip(names) }
        .filter_map(|(number, name)| fields::value_in(name).map(|field| (number, field)));
    let (number, field) = values.next()?;
    Some(
        Error::usage(format!("row 1 of {file} does not look like a header"))
            .detail(format!("column {number} holds what looks like a value for `{field}`"))
            .hint(format!(
                "if there is no header, add `--no-header` and name columns by number, as in `--map {field}={number}`"
            )),
    )
}

fn spans(columns: &[Option<usize>], cells: &[Span]) -> Box<[(Span, usize)]> {
    let cell = |index: &Option<usize>| index.and_then(|index| cells.get(index).copied());
    let mut spans: Vec<_> = columns
        .iter()
        .enumerate()
        .filter_map(|(column, index)| Some((cell(index)?, column)))
        .collect();
    spans.sort_unstable_by_key(|(span, _)| span.start);
    spans.into()
}

/// The header's cells that have our columns' names; empty when none has.
///
/// # Errors
/// One that may not be touched.
fn existing(
    names: &[String],
    mapping: &Mapping<usize>,
    settings: &Settings,
    file: &str,
) -> Result<Box<[Option<usize>]>> {
    let place = |wanted: &str| names.iter().position(|name| name.trim() == wanted);
    let (mut ours, mut found, mut previous) = (Vec::new(), Vec::new(), Vec::new());
    for (column, name) in settings.columns.iter().enumerate() {
        let first = place(name);
        ours.push(first);
        let Some(first) = first else {
            continue;
        };
        let mut others = names.iter().skip(first + 1);
        if let Some(second) = others.position(|other| other.trim() == name) {
            return Err(Error::usage(format!(
                "{file} has {} twice: columns {} and {}",
                quoted(name),
                first + 1,
                first + second + 2
            )));
        }
        if let Some(field) = existing::field_of(&mapping.sources, &first) {
            return Err(existing::is_source(name, field, file));
        }
        found.push(Ours { column, fits: true });
        if place(&format!("{PREVIOUS}{name}")).is_some() {
            previous.push(column);
        }
    }
    if let Some(conflict) = Conflict::of(settings.existing, &found, &previous) {
        return Err(conflict.refuses(&settings.columns, file, 0));
    }
    Ok(if found.is_empty() {
        Box::default()
    } else {
        ours.into()
    })
}

/// The value of a cell: without its quotes, doubled quotes made single.
pub(super) fn unquote(cell: &[u8]) -> Cow<'_, [u8]> {
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

fn scan(
    buffer: &Buffer,
    delimiter: u8,
    max_record: usize,
    cells: &mut Vec<Span>,
) -> Result<Option<Extent>> {
    match find_record(&buffer.bytes, delimiter, buffer.at_end, cells) {
        Found::Record(extent) => Ok(Some(extent)),
        Found::Nothing => buffer.check_blank_lines(max_record).map(|()| None),
        Found::Partial {
            lines_before,
            open_quote,
        } => {
            let line = buffer.line + lines_before;
            match open_quote {
                Some(lines) if buffer.at_end || buffer.bytes.len() > max_record => {
                    Err(Error::usage(format!(
                        "{}: quote opened at line {} is never closed",
                        buffer.source.name(),
                        line + lines
                    )))
                }
                _ => buffer
                    .check_size(buffer.bytes.len(), max_record, line)
                    .map(|()| None),
            }
        }
    }
}

#[derive(Debug)]
pub(super) enum Found {
    Record(Extent),
    /// A record begins but more bytes are needed; within a quote that was opened so many lines after the record began.
    Partial {
        lines_before: u64,
        open_quote: Option<u64>,
    },
    /// Blank lines at most.
    Nothing,
}

/// Finds the first record of `bytes` and its cells.
pub(super) fn find_record(
    bytes: &[u8],
    delimiter: u8,
    at_end: bool,
    cells: &mut Vec<Span>,
) -> Found {
    cells.clear();
    let (mut at, mut lines_before) = (0, 0);
    while let Some(b'\n' | b'\r') = bytes.get(at) {
        let Some(length) = line_end(bytes, at, at_end) else {
            return Found::Nothing;
        };
        at += length;
        lines_before += 1;
    }
    if at >= bytes.len() {
        return Found::Nothing;
    }
    let start = at;
    let (mut malformed, mut quoted) = (false, false);
    loop {
        let cell = at;
        if bytes.get(at) == Some(&b'"') {
            quoted = true;
            let Some(closed) = closing_quote(bytes, at + 1, at_end) else {
                let lines = lines_in(bytes.get(start..at).unwrap_or_default());
                return Found::Partial {
                    lines_before,
                    open_quote: Some(lines),
                };
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
            None => {
                return Found::Partial {
                    lines_before,
                    open_quote: None,
                };
            }
        };
        cells.push(Span::new(cell, end));
        if stop.is_some() && bytes.get(end) == Some(&delimiter) {
            at = end + 1;
            continue;
        }
        let after = if stop.is_none() {
            0
        } else if let Some(length) = line_end(bytes, end, at_end) {
            length
        } else {
            return Found::Partial {
                lines_before,
                open_quote: None,
            };
        };
        let content = Span::new(start, end);
        let inside = if quoted {
            lines_in(bytes.get(start..end).unwrap_or_default())
        } else {
            0
        };
        let lines = inside + u64::from(after > 0);
        return Found::Record(Extent {
            content,
            end: end + after,
            lines_before,
            lines,
            malformed,
        });
    }
}

/// The offset after the quote that closes the cell whose text begins at `from`; `None` when it is not there (yet).
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

/// Line ends within a record.
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
mod tests;
