//! Delimited text to rows, keeping every byte: records and their cells, which columns are fields, which ones an earlier run
//! wrote, and the request that a record makes.
//!
//! The csv crate returns cells, not the bytes that they came from, and reads a broken quote as well as it can. Here the
//! bytes are what matters, and a broken quote must not reach a paid call. So cells are found here, by the same rules (a
//! property test compares them with the csv crate).

use std::borrow::Cow;

use memchr::{memchr, memchr_iter, memchr2_iter, memchr3};

use super::scored_columns::{self, Conflict};
use super::settings::{Compose, ReaderSettings};
use super::source::{Buffer, Extent, MAX_RECORD, line_end, marks_at};
use crate::base::error::{Error, Result};
use crate::base::numbers::counted;
use crate::base::text::{TextEncoding, quoted};
use crate::fields::{self, ColumnSource, Field, FieldRules, Mapping, NoColumn, UserRequest};
use crate::layout::{AddedColumns, VERDICT_COLUMNS, unquote_if};
use crate::row::{RawRow, Span};
use crate::row_state::RowState;
use crate::selection::Condition;
use crate::verdict::{Failure, Reason};

/// Finds records and makes requests of them.
pub(super) struct CsvParser {
    format: CellFormat,
    encoding: TextEncoding,
    /// The cells of the last record that was scanned, relative to its first byte.
    cells: Vec<Span>,
    /// The number of cells in the header, or without a header in the first row.
    width: usize,
    no_header: bool,
    /// `None` for a scored file, of whose rows no requests are made.
    mapping: Option<Mapping<usize>>,
    /// The names of the columns that rescore adds.
    columns: AddedColumns,
    /// Where the header has each of them from an earlier run; empty if it has none.
    scored_columns: Box<[Option<usize>]>,
    /// Where the header has the columns that are read besides the fields: those that a command wants of a scored file, or those
    /// of `only` and the key.
    extra_columns: Box<[usize]>,
    /// Only rows for which all of these hold are sent.
    only: Vec<Condition>,
    /// The column by which rows are compared with an earlier output.
    key: Option<usize>,
}

impl CsvParser {
    /// Reads the header and maps the columns. Without a header, the first row tells how many columns there are.
    ///
    /// # Errors
    /// Exit code 2: a column is missing, appears twice, or must not be replaced.
    pub(super) fn open(
        delimiter: u8,
        settings: &ReaderSettings,
        buffer: &mut Buffer,
    ) -> Result<(Self, Option<RawRow>)> {
        let quotes = settings.file.quotes;
        let mut parser = Self {
            format: CellFormat { delimiter, quotes },
            encoding: settings.file.encoding,
            cells: Vec::new(),
            width: 0,
            no_header: settings.file.no_header,
            mapping: settings.scored.is_none().then(Mapping::nothing),
            columns: settings.columns.clone(),
            scored_columns: Box::default(),
            extra_columns: Box::default(),
            only: settings.only.clone(),
            key: None,
        };
        let extent = loop {
            match parser.scan(buffer)? {
                Some(extent) => break extent,
                // An empty file, such as a nightly export without news.
                None if buffer.at_end => return Ok((parser, None)),
                None => buffer.fill()?,
            }
        };
        parser.width = parser.cells.len();
        let (names, mut header) = parser.header(&extent, buffer)?;
        let file = &*buffer.source.name;
        let hide_user = |error| match header {
            Some(_) => {
                let fix = scored_columns::HINT_PREFIX;
                fields::without_user(error, &names, "", fix)
            }
            None => error,
        };
        if settings.scored.is_some() {
            let scored = parser.find_scored_columns(&names, file);
            parser.scored_columns = scored.map_err(hide_user)?;
        } else {
            let mapping = mapped(&names, header.is_some(), settings, file);
            let mapping = mapping.map_err(|error| {
                let has_title = header.is_some() && has_few_names(&names);
                let below = header_below(&buffer.bytes, parser.encoding);
                match below.filter(|_| has_title) {
                    Some(lines) => no_header_yet(buffer.line + lines as u64, file),
                    None => error,
                }
            })?;
            parser.scored_columns = columns_to_replace(&names, &mapping, settings, file)?;
            parser.mapping = Some(mapping);
        }
        let extra = settings.extra_columns();
        let extra = extra.iter().map(|name| extra_column(name, &names, file));
        parser.extra_columns = extra.collect::<Result<_>>().map_err(hide_user)?;
        if settings.key.is_some() {
            parser.key = parser.extra_columns.last().copied();
        }
        if let Some(header) = &mut header {
            header.scored_cells = scored_cells(&parser.scored_columns, &parser.cells);
        }
        parser.judge_first_rows(buffer)?;
        Ok((parser, header))
    }

    /// The names of the columns, or their numbers, and the header if there is one.
    fn header(
        &self,
        extent: &Extent,
        buffer: &mut Buffer,
    ) -> Result<(Vec<String>, Option<RawRow>)> {
        if self.no_header {
            let numbers = (1..=self.width).map(|number| number.to_string());
            return Ok((numbers.collect(), None));
        }
        if extent.malformed {
            return Err(Error::usage(format!(
                "the header of {} has text after a closing quote",
                buffer.source.name
            )));
        }
        let header = buffer.take(extent);
        let name = |cell: &Span| {
            let name = self.value(header.slice(*cell));
            self.encoding.decode_lossy(&name).into_owned()
        };
        Ok((self.cells.iter().map(name).collect(), Some(header)))
    }

    /// Where a scored file has the columns that a run adds. Without a header, they are the last three, as a run writes them.
    fn find_scored_columns(&self, names: &[String], file: &str) -> Result<Box<[Option<usize>]>> {
        if !self.no_header {
            let find = |name: &String| match column_of(name, names, file)? {
                None => Err(scored_columns::lacks_scored(name, "column", names, file)),
                index => Ok(index),
            };
            return self.columns.iter().map(find).collect();
        }
        let first = names.len().checked_sub(VERDICT_COLUMNS.len());
        let first = first.ok_or_else(|| {
            Error::usage(format!(
                "{file} is not a scored file: its first row has fewer than three cells"
            ))
        })?;
        Ok((first..names.len()).map(Some).collect())
    }

    /// Which column is which field, as one line for people.
    pub(super) fn mapping(&self) -> &str {
        let mapping = self.mapping.as_ref();
        mapping.map_or("", |mapping| &mapping.described)
    }

    /// The names of the columns that are replaced.
    pub(super) fn replaced(&self) -> Vec<String> {
        let columns = self.columns.iter().zip(&self.scored_columns);
        let replaced = columns.filter(|(_, index)| index.is_some());
        replaced.map(|(name, _)| name.clone()).collect()
    }

    /// Fails if a row in the buffer has a value that rescore never writes in a column that would be replaced.
    fn judge_first_rows(&mut self, buffer: &Buffer) -> Result<()> {
        let (mut rest, file) = (buffer.bytes.as_ref(), &*buffer.source.name);
        for row in 1.. {
            if self.scored_columns.is_empty() {
                break;
            }
            let found = find_record(rest, self.format, buffer.at_end, &mut self.cells);
            let RecordScan::Record(extent) = found else {
                break;
            };
            if let Some(column) = self.foreign_value(|cell| rest.get(cell.range())) {
                return Err(match self.mapping {
                    None => scored_columns::has_foreign(&self.columns, column, row, file),
                    Some(_) => {
                        Conflict::Foreign(column).refuses(&self.columns, "column", file, row)
                    }
                });
            }
            rest = rest.get(extent.end..).unwrap_or_default();
        }
        Ok(())
    }

    /// The first of the columns to replace in which the record has a value that rescore never writes. Where a record has the wrong
    /// number of cells, nobody knows which of them are in these columns.
    fn foreign_value<'a>(&self, bytes: impl Fn(Span) -> Option<&'a [u8]>) -> Option<usize> {
        if self.cells.len() != self.width {
            return None;
        }
        let is_possible = |column: usize, index: usize| {
            let text = self.value(bytes(self.cell(index)).unwrap_or_default());
            let text = self.encoding.decode(text);
            scored_columns::could_be_written(self.columns.content(column), text.as_deref())
        };
        let mut columns = self.scored_columns.iter().enumerate();
        columns.find_map(|(column, index)| (!is_possible(column, (*index)?)).then_some(column))
    }

    /// Finds the record at the front of the buffer and its cells; `None` if it is not complete yet.
    ///
    /// # Errors
    /// Its quote is never closed, or it is too large.
    #[inline]
    pub(super) fn scan(&mut self, buffer: &Buffer) -> Result<Option<Extent>> {
        let (lines_before, open_quote) =
            match find_record(&buffer.bytes, self.format, buffer.at_end, &mut self.cells) {
                RecordScan::Record(extent) => return Ok(Some(extent)),
                RecordScan::Nothing => return buffer.check_blank_lines().map(|()| None),
                RecordScan::Partial {
                    lines_before,
                    open_quote,
                } => (lines_before, open_quote),
            };
        let line = buffer.line + lines_before;
        if let Some(lines) = open_quote
            && (buffer.at_end || buffer.bytes.len() > MAX_RECORD)
        {
            return Err(Error::usage(format!(
                "{}: the quote that opens at line {} is never closed",
                buffer.source.name,
                line + lines
            ))
            .hint("close it; `--quotes off` reads quotes as ordinary characters"));
        }
        buffer.check_size(buffer.bytes.len(), line).map(|()| None)
    }

    /// Whether the record that was scanned last has fewer cells than it should.
    pub(super) const fn lacks_cells(&self) -> bool {
        self.cells.len() < self.width
    }

    /// The value of a cell with these bytes.
    #[inline]
    fn value<'r>(&self, cell: &'r [u8]) -> Cow<'r, [u8]> {
        unquote_if(self.format.quotes, cell)
    }

    /// Whether a quoted cell that extends over several lines has swallowed rows: each of its lines has the delimiters of a whole
    /// row. With two columns this may be a text with a comma in each line.
    fn swallows_rows(&self, record: &[u8]) -> bool {
        let CellFormat { delimiter, quotes } = self.format;
        let lines = record.split(|byte| *byte == b'\n' || *byte == b'\r');
        let mut lines = lines.filter(|line| !line.is_empty());
        let is_row = |line: &[u8]| memchr_iter(delimiter, line).count() + 1 == self.width;
        quotes && (self.width > 2 || delimiter == b'\t' && self.width > 1) && lines.all(is_row)
    }

    /// The failure of the record that was scanned last, which has another number of cells than the header.
    fn wrong_number_of_cells(&self) -> Failure {
        let cells = counted(self.cells.len() as u64, "cell");
        let first = if self.no_header {
            "first row"
        } else {
            "header"
        };
        let message = format!("{cells} where the {first} has {}", self.width);
        Failure::new(Reason::Ragged, message)
    }

    /// The cell of this column in the record that was scanned last; empty if there is none.
    fn cell(&self, index: usize) -> Span {
        self.cells.get(index).copied().unwrap_or_default()
    }

    /// The text of a cell of the record that was scanned last; `None` if there is no such cell.
    #[inline]
    fn text<'r>(
        &self,
        row: &'r RawRow,
        index: usize,
        field: Field,
    ) -> Result<Option<Cow<'r, str>>, Failure> {
        let cell = self.cells.get(index).map(|cell| row.slice(*cell));
        cell.map(|cell| fields::text(self.value(cell), self.encoding, field))
            .transpose()
    }

    /// Whether `--only` chooses the record that was scanned last.
    #[inline]
    fn is_chosen(&self, row: &RawRow) -> bool {
        let mut conditions = self.only.iter().zip(&self.extra_columns);
        conditions.all(|(condition, index)| {
            let value = self.value(row.slice(self.cell(*index)));
            condition.holds(&self.encoding.decode_lossy(&value))
        })
    }

    /// The body of the request that the record makes; in a scored file, where it has the columns that a command wants. It also
    /// notes where the row has the columns of an earlier run.
    #[inline]
    pub(super) fn state(
        &mut self,
        row: &mut RawRow,
        extent: &Extent,
        rules: &FieldRules,
        compose: &mut Compose,
    ) -> Result<RowState, Failure> {
        let is_whole = self.cells.len() == self.width;
        if extent.lines > 1 && self.swallows_rows(row.content()) {
            return Err(Failure::new(
                Reason::StrayQuotes,
                "a quote opens a cell that has whole rows in it; `--quotes off` reads quotes as ordinary characters",
            ));
        }
        if !self.scored_columns.is_empty() && is_whole {
            if let Some(column) = self.foreign_value(|cell| Some(row.slice(cell))) {
                return Err(Conflict::Foreign(column).fails(&self.columns));
            }
            // Also for a row that fails: it must not keep last night's verdict. A row with the wrong number of cells stays as it is.
            row.scored_cells = scored_cells(&self.scored_columns, &self.cells);
        }
        if extent.malformed {
            let by_backslash = row.content().windows(2).any(|two| two == b"\\\"");
            return Err(Failure::new(
                Reason::TextAfterQuote,
                if by_backslash {
                    "text after a closing quote with a backslash before it: in CSV, a quote within a value is doubled"
                } else {
                    "text after a closing quote"
                },
            ));
        }
        if !is_whole {
            return Err(self.wrong_number_of_cells());
        }
        let Some(mapping) = &self.mapping else {
            let extra = self.extra_columns.iter().map(|index| self.cell(*index));
            return Ok(RowState::Scored(extra.collect()));
        };
        if let Some(key) = self.key {
            row.key = self.cell(key);
        }
        if !self.is_chosen(row) {
            return Ok(RowState::Passed);
        }
        let find = |field| match mapping.sources.get(field) {
            ColumnSource::Absent => Ok(None),
            ColumnSource::Constant(value) => Ok(Some(Cow::Borrowed(value.as_str()))),
            // Nearly every field has one column: this is the path that must be short.
            ColumnSource::Columns(template) => match template.column() {
                Some(index) => self.text(row, *index, field),
                None => template.text(|index| rules.cell(self.text(row, *index, field))),
            },
        };
        let region = || {
            let code = self.value(row.slice(self.cell(mapping.region?)));
            // Bytes that are not text name no region.
            Some(self.encoding.decode(code).unwrap_or_default())
        };
        let request = UserRequest::new(find, rules, region, &mut compose.noticed)?;
        Ok(RowState::Asked(compose.body(&request)))
    }
}

/// Maps the columns. `names` are those of a header, or else numbers.
///
/// # Errors
/// A column is missing or ambiguous. A header that may be a user is not shown.
fn mapped(
    names: &[String],
    is_header: bool,
    settings: &ReaderSettings,
    file: &str,
) -> Result<Mapping<usize>> {
    Mapping::of_header(names, &settings.assignments, file).map_err(|error| {
        let error = match (names, settings.file.delimiter) {
            ([_], None) => error.hint(
                "only one column was found; if there are more, `--delimiter` says what is between them",
            ),
            ([_], Some(_)) => error.hint(
                "only one column was found; without `--delimiter`, it is found automatically",
            ),
            _ => error,
        };
        if !is_header {
            return error;
        }
        let by_number = " and give columns by number, as in `--map name=1`";
        let otherwise = "name the columns with `--map FIELD=COLUMN`";
        fields::without_user(error, names, by_number, otherwise)
    })
}

/// Delimiters that are tried, the likeliest first.
pub(super) const DELIMITERS: [u8; 4] = [b',', b';', b'\t', b'|'];
/// How many lines may be above a header.
const MAX_LINES_ABOVE: usize = 20;
/// A line with this number of names is hardly a title.
const CLEAR_HEADER: usize = 3;

fn has_few_names(names: &[String]) -> bool {
    let filled = names.iter().filter(|name| !name.trim().is_empty());
    filled.count() < CLEAR_HEADER
}

/// The number of lines above the first one that looks like a header, as it has names of fields. Some exports have titles and
/// comments there.
fn header_below(text: &[u8], encoding: TextEncoding) -> Option<usize> {
    let is_field = |cell: &&[u8]| {
        let name = encoding.decode_lossy(cell);
        fields::rank(name.trim_matches(['"', ' ', '\r'])).is_some()
    };
    let mut lines = text.split(|byte| *byte == b'\n').take(MAX_LINES_ABOVE);
    lines.position(|line| {
        let cells = line.split(|byte| DELIMITERS.contains(byte));
        cells.filter(is_field).count() >= 2
    })
}

/// The error for a file whose header is in this line, and not the first.
fn no_header_yet(line: u64, file: &str) -> Error {
    Error::usage(format!(
        "the header of {file} is not at its start: line {line} looks like it"
    ))
    .hint(format!(
        "leave out what is above: `tail -n +{line} FILE | rescore run - -o scored.csv`"
    ))
}

/// The index of a column that an option names.
///
/// # Errors
/// There is none with this name, or two.
fn extra_column(name: &str, names: &[String], file: &str) -> Result<usize> {
    fields::find_column(name, names).map_err(|error| match error {
        NoColumn::Missing => scored_columns::lacks(name, "column", names, file),
        NoColumn::Ambiguous(first, second) => twice(name, first, second, file),
    })
}

/// The index of the column with this name; `None` if there is none.
///
/// # Errors
/// There are two.
fn column_of(name: &str, names: &[String], file: &str) -> Result<Option<usize>> {
    let columns = names.iter().enumerate();
    let mut found = columns.filter(|(_, other)| other.trim() == name);
    match (found.next(), found.next()) {
        (Some((first, _)), Some((second, _))) => Err(twice(name, first, second, file)),
        (first, _) => Ok(first.map(|(index, _)| index)),
    }
}

fn twice(name: &str, first: usize, second: usize, file: &str) -> Error {
    Error::usage(format!(
        "{file} has {} twice: columns {} and {}",
        quoted(name),
        first + 1,
        second + 1
    ))
}

/// Where the header has each of the columns that rescore adds; empty if it has none of them.
///
/// # Errors
/// A column that must not be changed.
fn columns_to_replace(
    names: &[String],
    mapping: &Mapping<usize>,
    settings: &ReaderSettings,
    file: &str,
) -> Result<Box<[Option<usize>]>> {
    let encoding = settings.file.encoding;
    let cannot_encode = |name: &&String| !encoding.has_all_of(name);
    if let Some(name) = settings.columns.iter().find(cannot_encode) {
        return Err(Error::usage(format!(
            "a new column cannot be named {} in {file}: {encoding} does not have all of its characters",
            quoted(name)
        ))
        .hint("give the column another name with `--column`, `--reason-column` or `--prefix`"));
    }
    let mut indexes = Vec::new();
    for name in settings.columns.iter() {
        let index = column_of(name, names, file)?;
        let field = index.and_then(|index| scored_columns::field_of(&mapping.sources, &index));
        if let Some(field) = field {
            return Err(scored_columns::is_source(name, field, "column", file));
        }
        indexes.push(index);
    }
    let columns = indexes.iter().enumerate();
    let found = columns.filter_map(|(column, index)| index.map(|_| column));
    if let Some(conflict) = Conflict::of(&found, None) {
        return Err(conflict.refuses(&settings.columns, "column", file, 0));
    }
    Ok(match found.count() {
        0 => Box::default(),
        _ => indexes.into(),
    })
}

/// The cells of these columns with the numbers of the columns, in the order in which the record has them.
fn scored_cells(columns: &[Option<usize>], cells: &[Span]) -> Box<[(Span, usize)]> {
    let cell = |index: &Option<usize>| index.and_then(|index| cells.get(index).copied());
    let found = columns.iter().enumerate();
    let mut found: Vec<_> = found
        .filter_map(|(column, index)| Some((cell(index)?, column)))
        .collect();
    found.sort_unstable_by_key(|(span, _)| span.start);
    found.into()
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
    let lines_up_to = |end: usize| line_ends(bytes.get(start..end).unwrap_or_default());
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
fn line_ends(bytes: &[u8]) -> u64 {
    let is_end = |at: &usize| {
        let before = bytes.get(..*at).unwrap_or_default();
        bytes.get(*at) == Some(&b'\r') || !before.ends_with(b"\r")
    };
    memchr2_iter(b'\n', b'\r', bytes).filter(is_end).count() as u64
}

#[cfg(test)]
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
            let found = records(text.as_bytes());
            let closed = !matches!(
                find_record(text.as_bytes(), COMMA, true, &mut Vec::new()),
                RecordScan::Partial { .. }
            );
            let broken = found.iter().any(|(_, malformed)| *malformed);
            let expected = by_the_csv_crate(text.as_bytes());
            let all = expected.len();
            // A line of empty cells is a blank line here.
            let is_row = |cells: &Vec<Vec<u8>>| cells.len() == 1 || cells.iter().any(|cell| !cell.is_empty());
            let expected: Vec<_> = expected.into_iter().filter(is_row).collect();
            if !broken && closed && found.len() == expected.len() {
                let found: Vec<_> = found.into_iter().map(|(cells, _)| cells).collect();
                prop_assert_eq!(found, expected);
            } else {
                // A quote that is never closed makes fewer records. Broken quotes are reported, not interpreted.
                prop_assert!(broken || found.len() < all);
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
