//! Delimited records to rows: which columns are fields, which are ours, and the request that a record makes.

use std::borrow::Cow;

use memchr::memchr_iter;

use super::buffer::{Buffer, Extent};
use super::cells::{CellFormat, RecordScan, find_record, scan};
use super::ours::{self, Conflict};
use super::settings::{Compose, ReaderSettings};
use super::sniff;
use crate::base::encoding::TextEncoding;
use crate::base::error::{Error, Result};
use crate::base::text::quoted;
use crate::fields::{self, ColumnSource, Field, FieldRules, Mapping, NoColumn, UserRequest};
use crate::layout::{AddedColumns, Compression, VERDICT_COLUMNS, unquote_if};
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
    /// Whether the last name of the header is empty.
    has_loose_end: bool,
    /// A record had as many cells as the header.
    has_whole: bool,
    /// `None` for a scored file, of whose rows no requests are made.
    mapping: Option<Mapping<usize>>,
    /// The names of the columns that we write.
    columns: AddedColumns,
    /// The place of each of our columns in the header; empty if it has none.
    ours: Box<[Option<usize>]>,
    /// The places of the columns that are looked at besides: those that are asked for in a scored file, or those of `only` and
    /// of the key.
    asked: Box<[usize]>,
    /// Rows for which one of these does not hold are not sent.
    only: Vec<Condition>,
    /// The place of the key by which rows are compared with an earlier output.
    key: Option<usize>,
}

impl CsvParser {
    /// Reads the header and maps the columns. Without a header, the first row tells how many columns there are.
    ///
    /// # Errors
    /// Exit code 2: a column is missing, is there twice, or must not be replaced.
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
            has_loose_end: false,
            has_whole: false,
            mapping: settings.scored.is_none().then(Mapping::nothing),
            columns: settings.columns.clone(),
            ours: Box::default(),
            asked: Box::default(),
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
        parser.has_loose_end = names.last().is_some_and(|name| name.trim().is_empty());
        let file = &*buffer.source.name;
        if let (Some(header), None) = (&header, settings.file.delimiter) {
            let line = parser.encoding.decode_lossy(header.content());
            sniff::refuse_other_cells(&line, &names, file)?;
        }
        let shown = |error| match header {
            Some(_) => {
                fields::without_user(error, &names, file, |_, _| String::new(), ours::PREFIX)
            }
            None => error,
        };
        if settings.scored.is_some() {
            parser.find_ours_in_scored(&names, file).map_err(shown)?;
        } else {
            let with_name = names.iter().filter(|name| !name.trim().is_empty()).count();
            let mapping = mapped(&names, header.is_some(), settings, file).map_err(|error| {
                let below = sniff::header_in(&buffer.bytes, parser.encoding);
                match below.filter(|_| header.is_some() && with_name < CLEAR_HEADER) {
                    Some(below) => no_header_yet(buffer.line + below as u64, file),
                    None => error,
                }
            })?;
            parser.ours = places_of_ours(&names, &mapping, settings, file)?;
            parser.mapping = Some(mapping);
        }
        let asked = settings.asked();
        let places = asked.iter().map(|name| place_of_asked(name, &names, file));
        parser.asked = places.collect::<Result<_>>().map_err(shown)?;
        parser.key = { settings.key.as_ref() }.and(parser.asked.last().copied());
        if let Some(header) = &mut header {
            header.ours = spans(&parser.ours, &parser.cells);
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

    /// Finds our columns in a scored file. Without a header, they are the last three, as a run writes them.
    fn find_ours_in_scored(&mut self, names: &[String], file: &str) -> Result<()> {
        let columns = ("column", names);
        self.ours = if self.no_header {
            let first = { names.len() }
                .checked_sub(VERDICT_COLUMNS.len())
                .ok_or_else(|| {
                    Error::usage(format!(
                        "{file} is not a scored file: its first row has fewer than three cells"
                    ))
                })?;
            (first..names.len()).map(Some).collect()
        } else {
            let place = |name: &String| match place_of(name, names, file)? {
                None => Err(ours::lacks_ours(name, columns, file)),
                place => Ok(place),
            };
            self.columns.iter().map(place).collect::<Result<_>>()?
        };
        Ok(())
    }

    /// Whether the record that was scanned last is one to send.
    #[inline]
    fn is_chosen(&self, row: &RawRow) -> bool {
        { self.only.iter().zip(&self.asked) }.all(|(only, place)| {
            let value = self.value(row.slice(self.cell(*place)));
            only.holds(&self.encoding.decode_lossy(&value))
        })
    }

    /// Which column is which field, as one line for people.
    pub(super) fn mapping(&self) -> &str {
        { self.mapping.as_ref() }.map_or("", |mapping| &mapping.described)
    }

    /// The names of the columns that are replaced.
    pub(super) fn replaced(&self) -> Vec<String> {
        let places = self.columns.iter().zip(&self.ours);
        let there = places.filter(|(_, place)| place.is_some());
        there.map(|(name, _)| name.clone()).collect()
    }

    /// Fails if a row in the buffer has a value in our columns that is not ours.
    fn judge_first_rows(&mut self, buffer: &Buffer) -> Result<()> {
        let (mut rest, file) = (buffer.bytes.as_ref(), &*buffer.source.name);
        for row in 1.. {
            if self.ours.is_empty() {
                break;
            }
            let found = find_record(rest, self.format, buffer.at_end, &mut self.cells);
            let RecordScan::Record(extent) = found else {
                break;
            };
            if let Some(column) = self.foreign(|cell| rest.get(cell.range())) {
                return Err(match self.mapping {
                    None => ours::has_foreign(&self.columns, column, row, file),
                    Some(_) => {
                        Conflict::Foreign(column).refuses(&self.columns, "column", file, row)
                    }
                });
            }
            rest = rest.get(extent.end..).unwrap_or_default();
        }
        Ok(())
    }

    /// The first of the columns to replace in which the record has a value that we never write. In a ragged record it is
    /// not known which cells are ours.
    fn foreign<'a>(&self, bytes: impl Fn(Span) -> Option<&'a [u8]>) -> Option<usize> {
        if self.cells.len() != self.width {
            return None;
        }
        let fits = |column: usize, place: usize| {
            let cell = self.cells.get(place).copied().and_then(&bytes);
            let text = self.value(cell.unwrap_or_default());
            ours::fits(
                self.columns.content(column),
                self.encoding.decode(text).as_deref(),
            )
        };
        let mut places = self.ours.iter().enumerate();
        places.find_map(|(column, place)| (!fits(column, (*place)?)).then_some(column))
    }

    /// Finds the record at the front of the buffer; `None` if it is not complete yet.
    #[inline]
    pub(super) fn scan(&mut self, buffer: &Buffer) -> Result<Option<Extent>> {
        scan(buffer, self.format, &mut self.cells)
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
        let is_line = |line: &&[u8]| !line.is_empty();
        let mut lines = record
            .split(|byte| *byte == b'\n' || *byte == b'\r')
            .filter(is_line);
        let is_row = |line: &[u8]| memchr_iter(delimiter, line).count() + 1 == self.width;
        quotes && (self.width > 2 || delimiter == b'\t' && self.width > 1) && lines.all(is_row)
    }

    /// The failure of the record that was scanned last, which has another number of cells than the header: that of the row with
    /// this number. One row among good ones has no reason that would be that of all.
    fn ragged(&self, row: &RawRow, number: u64) -> Failure {
        let (cells, width, number) = (self.cells.len(), self.width, number.to_string());
        let value = self.value(row.slice(self.cell(0)));
        let last = self.cell(cells.saturating_sub(1));
        let why = if self.has_whole {
            ""
        } else if cells + 1 == width && self.has_loose_end {
            ": there is a delimiter at the end of the header"
        } else if cells == width + 1 && last.range().is_empty() {
            ": there is a delimiter at the end of the row"
        } else if cells == width + 1 && *value == *number.as_bytes() {
            ": the first one is the number of the row, as R writes it without a name in the header"
        } else {
            ""
        };
        let s = if cells == 1 { "" } else { "s" };
        let first = if self.no_header {
            "first row"
        } else {
            "header"
        };
        let message = format!("{cells} cell{s} where the {first} has {width}{why}");
        Failure::new(Reason::Ragged, message)
    }

    /// The cell at this place of the header in the record that was scanned last; empty if there is none.
    fn cell(&self, place: usize) -> Span {
        self.cells.get(place).copied().unwrap_or_default()
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

    /// What asks for the record; in a scored file, where it has the columns that are asked for. It also notes where the row has
    /// our columns.
    #[inline]
    pub(super) fn state(
        &mut self,
        row: &mut RawRow,
        extent: &Extent,
        rules: &FieldRules,
        compose: &mut Compose,
    ) -> Result<RowState, Failure> {
        let is_whole = self.cells.len() == self.width;
        self.has_whole |= is_whole;
        if extent.lines > 1 && self.swallows_rows(row.content()) {
            return Err(Failure::new(
                Reason::StrayQuotes,
                "a quote opens a cell that has whole rows in it; `--quotes off` reads quotes as ordinary characters",
            ));
        }
        if !self.ours.is_empty() && is_whole {
            if let Some(column) = self.foreign(|cell| Some(row.slice(cell))) {
                return Err(Conflict::Foreign(column).fails(&self.columns));
            }
            // Also for a row that fails: it must not keep last night's verdict. A ragged row stays as it is, as it
            // is not known which of its cells are ours.
            row.ours = spans(&self.ours, &self.cells);
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
            return Err(self.ragged(row, compose.number));
        }
        let Some(mapping) = &self.mapping else {
            let asked = self.asked.iter().map(|place| self.cell(*place));
            return Ok(RowState::Scored(asked.collect()));
        };
        row.key = self
            .key
            .map_or_else(Span::default, |place| self.cell(place));
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
            // What is not text names no region.
            Some(self.encoding.decode(code).unwrap_or_default())
        };
        let request = UserRequest::new(find, rules, region, &mut compose.noticed)?;
        Ok(RowState::Asked(compose.body(&request)))
    }
}

/// Maps the columns. `names` are those of a header, or else numbers.
///
/// # Errors
/// A column is missing or ambiguous. What may be a user is not shown.
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
        let by_number =
            |field, number| format!(" and give columns by number, as in `--map {field}={number}`");
        let otherwise = "name the columns with `--map FIELD=COLUMN`";
        fields::without_user(error, names, file, by_number, otherwise)
    })
}

/// A line with this number of names is hardly a title.
const CLEAR_HEADER: usize = 3;

/// The error for a file with something above its header, which is in this line.
fn no_header_yet(line: u64, file: &str) -> Error {
    let error = Error::usage(format!(
        "the header of {file} is not at its start: line {line} looks like it"
    ));
    let tail = format!("tail -n +{line}");
    // Only a path is in backticks.
    let path = { file.strip_prefix('`') }.and_then(|path| path.strip_suffix('`'));
    let read = match path.map(|path| (path, Compression::split_name(path).1)) {
        Some((path, Some(Compression::Gzip))) => format!("zcat '{path}' | {tail}"),
        Some((path, Some(Compression::Zstd))) => format!("zstdcat '{path}' | {tail}"),
        Some((path, None)) => format!("{tail} '{path}'"),
        None => tail,
    };
    error.hint(format!(
        "leave out what is above: `{read} | rescore run - -o scored.csv`"
    ))
}

/// The place of a column that is asked for.
///
/// # Errors
/// There is none with this name, or two.
fn place_of_asked(name: &str, names: &[String], file: &str) -> Result<usize> {
    fields::find_column(name, names).map_err(|error| match error {
        NoColumn::Missing => ours::lacks(name, ("column", names), file),
        NoColumn::Ambiguous(first, second) => twice(name, first, second, file),
    })
}

/// The place of the column with this name; `None` if there is none.
///
/// # Errors
/// There are two.
fn place_of(name: &str, names: &[String], file: &str) -> Result<Option<usize>> {
    let places = names.iter().enumerate();
    let mut places = places.filter(|(_, there)| there.trim() == name);
    match (places.next(), places.next()) {
        (Some((first, _)), Some((second, _))) => Err(twice(name, first, second, file)),
        (first, _) => Ok(first.map(|(place, _)| place)),
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

/// The header's cells with our columns' names; empty if there are none.
///
/// # Errors
/// A column that must not be changed.
fn places_of_ours(
    names: &[String],
    mapping: &Mapping<usize>,
    settings: &ReaderSettings,
    file: &str,
) -> Result<Box<[Option<usize>]>> {
    let encoding = settings.file.encoding;
    let unfit = |name: &&String| !encoding.has_all_of(name);
    if let Some(name) = settings.columns.iter().find(unfit) {
        return Err(Error::usage(format!(
            "a new column cannot be named {} in {file}: {encoding} does not have all of its characters",
            quoted(name)
        ))
        .hint("give the column another name with `--column`, `--reason-column` or `--prefix`"));
    }
    let mut places = Vec::new();
    for name in settings.columns.iter() {
        let place = place_of(name, names, file)?;
        if let Some(field) = place.and_then(|place| ours::field_of(&mapping.sources, &place)) {
            return Err(ours::is_source(name, field, "column", file));
        }
        places.push(place);
    }
    let columns = places.iter().enumerate();
    let found = columns.filter_map(|(column, place)| place.map(|_| column));
    if let Some(conflict) = Conflict::of(&found, None) {
        return Err(conflict.refuses(&settings.columns, "column", file, 0));
    }
    Ok(match found.count() {
        0 => Box::default(),
        _ => places.into(),
    })
}

/// The cells with our columns, in the order in which they are written.
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
