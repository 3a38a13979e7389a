//! Finds our columns in delimited text.

use super::super::buffer::{Buffer, Extent};
use super::super::csv::{RecordScan, find_record, scan, unquote};
use super::super::existing::{self, Conflict};
use super::super::settings::FileSettings;
use super::columns::{PREFIX, ScoredColumns};
use crate::base::encoding::TextEncoding;
use crate::base::error::{Error, Result};
use crate::fields;
use crate::layout::ColumnContent;
use crate::row::{Row, RowNumber, Span};
use crate::verdict::{Failure, Reason};

/// Finds records and, in them, the columns.
pub(super) struct ScoredCsv {
    delimiter: u8,
    encoding: TextEncoding,
    /// The cells of the last record that was scanned, relative to its first byte.
    cells: Vec<Span>,
    /// The number of cells that a row has.
    width: usize,
    columns: ScoredColumns,
    /// The index of each column's cell.
    places: Box<[usize]>,
}

impl ScoredCsv {
    /// Reads the header and finds the columns. Without a header, ours are the last three, as a run writes them.
    ///
    /// # Errors
    /// Exit code 2: a column is missing or occurs twice, or one of ours has a value that we never write.
    pub(super) fn open(
        delimiter: u8,
        settings: &FileSettings,
        columns: ScoredColumns,
        buffer: &mut Buffer,
    ) -> Result<(Self, Option<Row>)> {
        let mut cells = Vec::new();
        let extent = loop {
            match scan(buffer, delimiter, settings.max_record, &mut cells)? {
                Some(extent) => break extent,
                None if buffer.at_end => {
                    return Ok((
                        Self::of_nothing(delimiter, settings.encoding, columns),
                        None,
                    ));
                }
                None => buffer.fill()?,
            }
        };
        let header = (!settings.no_header).then(|| buffer.take(&extent, RowNumber::FIRST));
        let file = buffer.source.name();
        let places = match &header {
            Some(header) => {
                let name = |cell: &Span| {
                    let name = unquote(header.slice(*cell));
                    settings.encoding.decode_lossy(&name).trim().to_owned()
                };
                let names: Vec<_> = cells.iter().map(name).collect();
                by_name(&columns, &names, file).map_err(|error| {
                    fields::without_user(error, &names, file, |_, _| String::new(), PREFIX)
                })?
            }
            None => by_number(&columns, cells.len(), file)?,
        };
        let mut parser = Self {
            delimiter,
            encoding: settings.encoding,
            width: cells.len(),
            cells,
            columns,
            places,
        };
        parser.judge_first_rows(buffer)?;
        Ok((parser, header))
    }

    /// The parser of an empty file: what a run writes for an empty input.
    fn of_nothing(delimiter: u8, encoding: TextEncoding, columns: ScoredColumns) -> Self {
        Self {
            delimiter,
            encoding,
            cells: Vec::new(),
            width: 0,
            columns,
            places: Box::default(),
        }
    }

    /// Fails if a row in the buffer has a value in our columns that is not ours.
    fn judge_first_rows(&mut self, buffer: &Buffer) -> Result<()> {
        let mut rest = buffer.bytes.as_ref();
        for row in 1.. {
            let found = find_record(rest, self.delimiter, buffer.at_end, &mut self.cells);
            let RecordScan::Record(extent) = found else {
                break;
            };
            if let Some(column) = self.foreign(|cell| rest.get(cell.range())) {
                return Err(self.columns.foreign(column, row, buffer.source.name()));
            }
            rest = rest.get(extent.end..).unwrap_or_default();
        }
        Ok(())
    }

    /// The first of our columns with a value that we never write. In a ragged record, nobody knows which cells are ours.
    fn foreign<'a>(&self, bytes: impl Fn(Span) -> Option<&'a [u8]>) -> Option<usize> {
        if self.cells.len() != self.width {
            return None;
        }
        let ours = self.places.iter().take(ScoredColumns::OURS);
        ours.enumerate().find_map(|(column, place)| {
            let cell = self.cells.get(*place).copied().and_then(&bytes);
            let text = unquote(cell.unwrap_or_default());
            let content = ColumnContent::of_answer(column);
            (!existing::fits(content, self.encoding.decode(text).as_deref())).then_some(column)
        })
    }

    /// Finds the record at the front of the buffer; `None` if it is not complete yet.
    pub(super) fn scan(&mut self, buffer: &Buffer, max_record: usize) -> Result<Option<Extent>> {
        scan(buffer, self.delimiter, max_record, &mut self.cells)
    }

    /// Where the columns are in the record that was scanned last.
    pub(super) fn cells(&self, row: &Row, extent: &Extent) -> Result<Box<[Span]>, Failure> {
        if extent.malformed {
            return Err(Failure::new(
                Reason::TextAfterQuote,
                "text after a closing quote",
            ));
        }
        if self.cells.len() != self.width {
            let (cells, width) = (self.cells.len(), self.width);
            let s = if cells == 1 { "" } else { "s" };
            let message = format!("{cells} cell{s} instead of {width}");
            return Err(Failure::new(Reason::Ragged, message));
        }
        if let Some(column) = self.foreign(|cell| Some(row.slice(cell))) {
            return Err(Conflict::Foreign(column).fails(self.columns.names()));
        }
        let cell = |place: &usize| self.cells.get(*place).copied().unwrap_or_default();
        Ok(self.places.iter().map(cell).collect())
    }
}

/// The place of a column that the file lacks: no row has so many cells.
const NOWHERE: usize = usize::MAX;

/// The places of the columns in a header.
fn by_name(columns: &ScoredColumns, names: &[String], file: &str) -> Result<Box<[usize]>> {
    let place = |(index, column): (usize, &String)| {
        let mut found = names.iter().enumerate().filter(|(_, name)| *name == column);
        match (found.next(), found.next()) {
            (Some((place, _)), None) => Ok(place),
            (None, _) if columns.may_lack(index) => Ok(NOWHERE),
            (None, _) => Err(columns.missing(index, ("column", names), file)),
            (Some(_), Some(_)) => Err(columns.twice(index, file)),
        }
    };
    columns.names().iter().enumerate().map(place).collect()
}

/// The places of the columns in a file without a header: ours are the last, and others are named by number.
fn by_number(columns: &ScoredColumns, width: usize, file: &str) -> Result<Box<[usize]>> {
    let Some(first) = width.checked_sub(ScoredColumns::OURS) else {
        return Err(Error::usage(format!(
            "{file} is not a scored file: its first row has fewer than three cells"
        )));
    };
    let numbers: Vec<_> = (1..=width).map(|number| number.to_string()).collect();
    let place = |(index, column): (usize, &String)| match index.checked_sub(ScoredColumns::OURS) {
        None => Ok(first + index),
        Some(_) if columns.may_lack(index) => Ok(NOWHERE),
        Some(_) => { numbers.iter().position(|number| number == column) }
            .ok_or_else(|| columns.missing(index, ("column", &numbers), file)),
    };
    columns.names().iter().enumerate().map(place).collect()
}
