//! Makes requests of records.

use std::borrow::Cow;

use bytes::Bytes;

use super::super::bodies::Bodies;
use super::super::buffer::{Buffer, Extent};
use super::super::existing::{self, Conflict};
use super::super::settings::ReaderSettings;
use super::columns::{mapped, ours, spans};
use super::scan::{RecordScan, find_record, scan, unquote, unquoted};
use crate::base::encoding::TextEncoding;
use crate::base::error::{Error, Result};
use crate::fields::{self, ColumnSource, Field, Mapping, PhoneRules, UserRequest};
use crate::layout::{AddedColumns, DECISION_COLUMN, Existing, SCORE_COLUMN};
use crate::row::{Earlier, Row, RowNumber, Span};
use crate::verdict::{Failure, Reason};

/// Finds records and makes requests of them.
pub(in crate::input) struct CsvParser {
    delimiter: u8,
    encoding: TextEncoding,
    /// The cells of the last record that was scanned, relative to its first byte.
    cells: Vec<Span>,
    /// The number of cells in the header, or without a header in the first row.
    width: usize,
    no_header: bool,
    mapping: Mapping<usize>,
    /// The names of the columns that we write.
    columns: AddedColumns,
    /// The header's cells with our columns, in our order; empty if there are none to replace.
    replaced: Box<[Option<usize>]>,
    /// The header's cells with an earlier score and decision, replaced or not.
    score: Option<usize>,
    decision: Option<usize>,
}

impl CsvParser {
    /// Reads the header and maps the columns. Without a header, the first row tells how many
    /// columns there are.
    pub(in crate::input) fn open(
        delimiter: u8,
        settings: &ReaderSettings,
        buffer: &mut Buffer,
    ) -> Result<(Self, Option<Row>)> {
        let mut cells = Vec::new();
        let extent = loop {
            match scan(buffer, delimiter, settings.file.max_record, &mut cells)? {
                Some(extent) => break extent,
                None if buffer.at_end => {
                    return Ok((Self::of_nothing(delimiter, settings), None));
                }
                None => buffer.fill()?,
            }
        };
        let (names, mut header) = if settings.file.no_header {
            let numbers = (1..=cells.len()).map(|number| number.to_string());
            (numbers.collect(), None)
        } else if extent.malformed {
            return Err(Error::usage(format!(
                "the header of {} has text after a closing quote",
                buffer.source.name()
            )));
        } else {
            let header = buffer.take(&extent, RowNumber::FIRST);
            let name = |cell: &Span| {
                let name = unquote(header.slice(*cell));
                settings.file.encoding.decode_lossy(&name).into_owned()
            };
            let names: Vec<String> = cells.iter().map(name).collect();
            (names, Some(header))
        };
        let file = buffer.source.name();
        let mapping = mapped(&names, header.is_some(), settings, file).map_err(|error| {
            match settings.file.delimiter {
                // With a wrong delimiter, values are cut anywhere.
                Some(_) => error,
                None => hint_at_title(error, &names, delimiter, buffer),
            }
        })?;
        let ours = ours(&names, &mapping, settings, file)?;
        if let Some(header) = &mut header {
            header.existing = spans(&ours, &cells);
        }
        let ours_at = |column: usize| ours.get(column).copied().flatten();
        let (score, decision) = (ours_at(SCORE_COLUMN), ours_at(DECISION_COLUMN));
        let replaced = if settings.existing == Existing::Replace {
            ours
        } else {
            Box::default()
        };
        let mut parser = Self {
            delimiter,
            encoding: settings.file.encoding,
            width: names.len(),
            no_header: settings.file.no_header,
            cells,
            mapping,
            columns: settings.columns.clone(),
            replaced,
            score,
            decision,
        };
        parser.judge_first_rows(buffer)?;
        Ok((parser, header))
    }

    /// The parser of an empty file, such as a nightly export without news.
    fn of_nothing(delimiter: u8, settings: &ReaderSettings) -> Self {
        Self {
            delimiter,
            encoding: settings.file.encoding,
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

    /// Which column is which field, as one line for people.
    pub(in crate::input) fn mapping(&self) -> &str {
        &self.mapping.described
    }

    /// The names of the columns that are replaced.
    pub(in crate::input) fn replaced(&self) -> Vec<String> {
        let places = self.columns.iter().zip(&self.replaced);
        let there = places.filter(|(_, place)| place.is_some());
        there.map(|(name, _)| name.clone()).collect()
    }

    /// Fails if a row in the buffer has a value in our columns that is not ours.
    fn judge_first_rows(&mut self, buffer: &Buffer) -> Result<()> {
        if self.replaced.is_empty() {
            return Ok(());
        }
        let mut rest = buffer.bytes.as_ref();
        for row in 1.. {
            let found = find_record(rest, self.delimiter, buffer.at_end, &mut self.cells);
            let RecordScan::Record(extent) = found else {
                break;
            };
            if let Some(conflict) = self.foreign(|cell| rest.get(cell.range())) {
                return Err(conflict.refuses(&self.columns, "column", buffer.source.name(), row));
            }
            rest = rest.get(extent.end..).unwrap_or_default();
        }
        Ok(())
    }

    /// The first of our columns in which the record has a value that we never write. In a ragged
    /// record, nobody knows which cells are ours.
    fn foreign<'a>(&self, bytes: impl Fn(Span) -> Option<&'a [u8]>) -> Option<Conflict> {
        if self.cells.len() != self.width {
            return None;
        }
        let fits = |column: usize, place: usize| {
            let cell = self.cells.get(place).copied().and_then(&bytes);
            let text = unquote(cell.unwrap_or_default());
            existing::fits(
                self.columns.content(column),
                self.encoding.decode(text).as_deref(),
            )
        };
        let mut places = self.replaced.iter().enumerate();
        places.find_map(|(column, place)| {
            (!fits(column, (*place)?)).then_some(Conflict::Foreign(column))
        })
    }

    /// Finds the record at the front of the buffer; `None` if it is not complete yet.
    pub(in crate::input) fn scan(
        &mut self,
        buffer: &Buffer,
        max_record: usize,
    ) -> Result<Option<Extent>> {
        scan(buffer, self.delimiter, max_record, &mut self.cells)
    }

    /// The text of a cell of the record that was scanned last; `None` if there is no such cell. `whole` is the row as text,
    /// if all of it is UTF-8: that is checked sooner for a row than cell by cell.
    #[inline]
    fn text<'r>(
        &self,
        row: &'r Row,
        whole: Option<&'r str>,
        index: usize,
        field: Field,
    ) -> Result<Option<Cow<'r, str>>, Failure> {
        let Some(cell) = self.cells.get(index) else {
            return Ok(None);
        };
        match whole.and_then(|text| unquoted(text.get(cell.range())?)) {
            Some(text) => Ok(Some(Cow::Borrowed(text))),
            None => fields::text(unquote(row.slice(*cell)), self.encoding, field).map(Some),
        }
    }

    /// The record's request. It also notes where the row has our columns.
    pub(in crate::input) fn request(
        &self,
        row: &mut Row,
        extent: &Extent,
        phones: PhoneRules,
        bodies: &mut Bodies,
    ) -> Result<Bytes, Failure> {
        if let Some(conflict) = self.foreign(|cell| Some(row.slice(cell))) {
            return Err(conflict.fails(&self.columns));
        }
        if self.cells.len() == self.width {
            // Also for a row that fails: it must not keep last night's verdict. A ragged row stays
            // as it is, as nobody knows which of its cells are ours.
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
            let (cells, width) = (self.cells.len(), self.width);
            let s = if cells == 1 { "" } else { "s" };
            let message = format!("{cells} cell{s} where the {first} has {width}");
            return Err(Failure::new(Reason::Ragged, message));
        }
        let whole = { self.encoding.is_utf8() }
            .then(|| std::str::from_utf8(&row.raw).ok())
            .flatten();
        let find = |field| match self.mapping.sources.get(field) {
            ColumnSource::Absent => Ok(None),
            ColumnSource::Constant(value) => Ok(Some(Cow::Borrowed(value.as_str()))),
            // Nearly every field has one column: this is the path that must be short.
            ColumnSource::Columns(template) => match template.column() {
                Some(index) => self.text(row, whole, *index, field),
                None => template.text(|index| self.text(row, whole, *index, field)),
            },
        };
        let region = || {
            let cell = self.cells.get(self.mapping.region?).copied();
            let code = unquote(row.slice(cell.unwrap_or_default()));
            // What is not text names no region.
            Some(self.encoding.decode(code).unwrap_or_default())
        };
        UserRequest::new(find, phones, region).map(|request| bodies.body(&request))
    }
}

/// Adds to an error about the header that it is perhaps a title, if the next record has far more values: spreadsheets have
/// titles, and pad them with empty cells.
fn hint_at_title(error: Error, names: &[String], delimiter: u8, buffer: &Buffer) -> Error {
    let mut cells = Vec::new();
    let RecordScan::Record(_) = find_record(&buffer.bytes, delimiter, buffer.at_end, &mut cells)
    else {
        return error;
    };
    let has_value = |cell: &&Span| {
        let value = buffer.bytes.get(cell.range());
        value.is_some_and(|value| !unquote(value).trim_ascii().is_empty())
    };
    let in_first = names.iter().filter(|name| !name.trim().is_empty()).count();
    if cells.iter().filter(has_value).count() < 2 * in_first.max(1) {
        return error;
    }
    error.hint(
        "the first line has far fewer values than the next: \
         if it is a title, remove all lines above the header",
    )
}
