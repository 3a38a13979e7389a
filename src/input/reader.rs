//! The reader: opens a source and returns its rows in batches. It refuses a file whose first rows all fail for the same reason
//! before any is sent: then the file or a setting is wrong, and not the rows.

use std::collections::VecDeque;
use std::num::NonZeroU64;

use bytes::Bytes;

use super::csv::CsvParser;
use super::jsonl::{self, JsonlParser};
use super::settings::{Compose, ReaderSettings};
use super::sniff;
use super::source::{Buffer, Source};
use crate::base::error::{Error, Result};
use crate::base::meter::Meter;
use crate::base::private_file::Readers;
use crate::fields::{FieldRules, Noticed, Quality};
use crate::layout::{Format, Layout};
use crate::row::RowNumber;
use crate::row_state::{Row, RowBatch, RowState};
use crate::telemetry::event::InputEnd;
use crate::verdict::{Failure, Reason};

/// A batch is complete with this many rows, so that the first rows do not wait for a whole block …
const BATCH_ROWS: usize = 512;
/// … or with this many bytes, so that large records do not pile up before the calls.
const BATCH_BYTES: usize = 1024 * 1024;
/// The size of a small row, in bytes: a batch gets room for as many rows as there may be.
const SMALL_ROW: usize = 128;

/// Reads rows from a source.
pub struct Reader {
    buffer: Buffer,
    parser: FormatParser,
    settings: ReaderSettings,
    compose: Compose,
    number: RowNumber,
    first_rows: FirstRows,
    /// How many more rows the selection takes.
    rows_left: u64,
    /// Whether the sample lacks a row.
    is_sampled: bool,
    /// The first rows, which were read to check the source.
    first_batches: VecDeque<RowBatch>,
}

enum FormatParser {
    Csv(CsvParser),
    Jsonl(JsonlParser),
}

impl FormatParser {
    /// Which column is which field, as one line for people.
    fn mapping(&self) -> &str {
        match self {
            Self::Csv(parser) => parser.mapping(),
            Self::Jsonl(parser) => &parser.mapping,
        }
    }
}

/// What opening the source found out, for the writer and for messages.
#[derive(Debug)]
pub struct Opened {
    /// The file's layout.
    pub layout: Layout,
    /// The source's name in messages: its path in backticks, or standard input.
    pub(crate) name: String,
    /// Which column is which field, as one line for people.
    pub(crate) mapping: String,
    /// The columns of an earlier run that are replaced.
    pub(crate) replaced: Vec<String>,
    /// The source's size in bytes, if it has one.
    pub(crate) size: Option<u64>,
    /// Who may read the source. A pipe does not restrict them.
    pub(crate) readers: Readers,
    /// Counts and hashes what is read of the source: all of it once there are no more rows, unless `--limit` leaves some out.
    pub(crate) meter: Meter,
}

impl Reader {
    /// Opens the source and reads up to the first rows.
    ///
    /// # Errors
    /// Exit code 2: the source cannot be read, has an unknown format, or its header lacks a column.
    pub fn open(settings: ReaderSettings, compose: Compose) -> Result<(Self, Opened)> {
        Self::of_source(Source::open(&settings.file.input)?, settings, compose)
    }

    /// Like [`Self::open`], but with any reader instead of a pipe: the fuzz targets choose how the bytes arrive.
    ///
    /// # Errors
    /// As for [`Self::open`].
    #[doc(hidden)]
    pub fn over(
        reader: impl std::io::Read + Send + 'static,
        settings: ReaderSettings,
        compose: Compose,
    ) -> Result<(Self, Opened)> {
        Self::of_source(Source::of_reader(reader)?, settings, compose)
    }

    fn of_source(
        source: Source,
        settings: ReaderSettings,
        mut compose: Compose,
    ) -> Result<(Self, Opened)> {
        compose.quality = settings.notes_quality.then(Quality::default);
        let (name, size, readers) = (source.name.clone(), source.size, source.readers);
        let meter = source.meter.clone();
        // Rows that are only counted are read again when they are paid for, and no summary has the hash of a scored file.
        if settings.notes_quality || settings.scored.is_some() {
            meter.only_count();
        }
        let mut buffer = Buffer::new(source);
        buffer.fill_first_line()?;
        buffer.fill_head()?;
        let (format, preamble) = sniff::detect(&settings.file, &mut buffer)?;
        let (parser, header, replaced) = match format {
            Format::Delimited { delimiter, .. } => {
                let (parser, header) = CsvParser::open(delimiter, &settings, &mut buffer)?;
                let replaced = parser.replaced();
                (FormatParser::Csv(parser), header, replaced)
            }
            Format::Jsonl if settings.file.no_header => {
                return Err(Error::usage(format!(
                    "`--no-header` is for CSV and TSV, but {name} is JSONL"
                ))
                .hint("leave it out"));
            }
            Format::Jsonl => {
                let parser = JsonlParser::open(&settings, &mut buffer)?;
                let replaced = parser.replaced();
                (FormatParser::Jsonl(parser), None, replaced)
            }
        };
        let opened = Opened {
            layout: Layout {
                format,
                encoding: settings.file.encoding,
                preamble,
                header,
                columns: settings.columns.clone(),
            },
            name,
            mapping: parser.mapping().to_owned(),
            replaced,
            size,
            readers,
            meter,
        };
        let limit = settings.selection.limit;
        let mut reader = Self {
            buffer,
            parser,
            first_rows: FirstRows::new(settings.judges_first_rows),
            rows_left: limit.map_or(u64::MAX, NonZeroU64::get),
            is_sampled: false,
            settings,
            compose,
            number: RowNumber::FIRST,
            first_batches: VecDeque::new(),
        };
        // A fault that all rows share is found before any file is touched.
        reader.first_batches = reader.gather(false)?.into_iter().collect();
        Ok((reader, opened))
    }

    /// Whether all of the source was read, once there are no more rows. After `--limit`, no further row is read to find out
    /// whether there is one.
    pub(crate) const fn end(&self) -> InputEnd {
        if self.is_sampled || self.rows_left == 0 {
            InputEnd::Part
        } else {
            InputEnd::Whole
        }
    }

    /// The next rows; `None` at the end.
    ///
    /// # Errors
    /// The source cannot be read further, or a record is so broken that nothing after it can be trusted.
    pub fn next_batch(&mut self) -> Result<Option<RowBatch>> {
        match self.first_batches.pop_front() {
            Some(batch) => Ok(Some(batch)),
            None => self.gather(true),
        }
    }

    /// Some rows; `None` at the end, and if there are none yet and `waits` is false.
    fn gather(&mut self, waits: bool) -> Result<Option<RowBatch>> {
        let (mut rows, mut bytes, mut noticed) = (Vec::new(), 0, Noticed::default());
        let end = loop {
            if rows.len() >= BATCH_ROWS || bytes >= BATCH_BYTES || self.rows_left == 0 {
                break false;
            }
            match self.next_row()? {
                Some(row) if !self.takes(&row) => {}
                Some(row) => {
                    let length = row.raw.bytes.len();
                    if rows.is_empty() {
                        // A batch that grows step by step moves each of its rows twice. A slow pipe has few bytes at a
                        // time, and its batches must not take much more memory than their rows.
                        let room = (length + self.buffer.bytes.len()).div_ceil(SMALL_ROW);
                        rows.reserve_exact(room.min(BATCH_ROWS));
                    }
                    bytes += length;
                    noticed += self.compose.noticed;
                    rows.push(row);
                }
                None if self.buffer.at_end => break true,
                // Existing rows are passed on before waiting for more: a pipe may be slow.
                None if !rows.is_empty() => break false,
                None if !waits => return Ok(None),
                None => self.buffer.fill()?,
            }
        };
        let trailer = if end {
            self.buffer.source.meter.end();
            self.buffer.bytes.split().freeze()
        } else {
            Bytes::new()
        };
        let quality = self.compose.quality.take_if(|_| end || self.rows_left == 0);
        if rows.is_empty() && trailer.is_empty() && quality.is_none() {
            return Ok(None);
        }
        let position = self.buffer.source.position(self.buffer.bytes.len());
        Ok(Some(RowBatch {
            rows,
            position,
            trailer,
            noticed,
            quality: quality.map_or_else(Vec::new, |it| it.findings()),
        }))
    }

    /// Whether the row is one of those that are selected.
    #[inline]
    fn takes(&mut self, row: &Row) -> bool {
        let is_selected = self.settings.selection.sample.is_none_or(|sample| {
            sample.has(match &row.state {
                RowState::Asked(body) => body,
                _ => row.raw.content(),
            })
        });
        self.rows_left -= u64::from(is_selected && !matches!(row.state, RowState::Passed));
        self.is_sampled |= !is_selected;
        is_selected
    }

    /// The row of the next complete record in the buffer, selected or not.
    #[inline]
    fn next_row(&mut self) -> Result<Option<Row>> {
        let extent = match &mut self.parser {
            FormatParser::Csv(parser) => parser.scan(&self.buffer)?,
            FormatParser::Jsonl(_) => jsonl::scan(&self.buffer)?,
        };
        let Some(extent) = extent else {
            return Ok(None);
        };
        let start = self.buffer.line;
        let length = extent.content.range().len();
        self.buffer
            .check_size(length, start + extent.lines_before)?;
        let number = self.number;
        self.number = number.next();
        let mut raw = self.buffer.take(&extent);
        let (rules, compose) = (&self.settings.rules, &mut self.compose);
        compose.noticed = Noticed::default();
        compose.number = number.get();
        let state = match &mut self.parser {
            FormatParser::Csv(parser) => parser.state(&mut raw, &extent, rules, compose),
            FormatParser::Jsonl(parser) => parser.state(&mut raw, rules, compose),
        };
        let failure = state.as_ref().err();
        if !matches!(state, Ok(RowState::Passed))
            && self.first_rows.add(failure)
            && let Some(failure) = failure
        {
            let (name, mapping) = (&*self.buffer.source.name, self.parser.mapping());
            return Err(all_fail(name, failure, mapping, &self.settings.rules));
        }
        // The rows of a stream are paid for while it is read.
        if let Err(failure) = &state
            && self.settings.refuses_cut
            && self.buffer.source.size.is_some()
            && raw.line_end().is_empty()
            && match &self.parser {
                FormatParser::Csv(parser) => parser.lacks_cells(),
                FormatParser::Jsonl(_) => jsonl::lacks_end(raw.content()),
            }
        {
            return Err(cut_off(&self.buffer.source.name, failure));
        }
        let state = state.unwrap_or_else(|failure| {
            let lines = extent.lines_for_people(start);
            let message = format!("{lines}: {}", failure.message);
            RowState::Invalid(Failure::new(failure.reason, message))
        });
        Ok(Some(Row { number, raw, state }))
    }
}

/// So many rows do not all share a fault by chance.
const FIRST_ROWS: u32 = 100;

/// The rows before the first valid one, as long as all fail for the same reason.
#[derive(Debug)]
struct FirstRows {
    /// How many there were, and why they fail; `None` once a row is different.
    failing: Option<(u32, Option<Reason>)>,
}

impl FirstRows {
    /// Judges the first rows if `is_on`.
    fn new(is_on: bool) -> Self {
        Self {
            failing: is_on.then_some((0, None)),
        }
    }

    /// Adds the next row, with its failure if it has one. Whether enough rows have failed now, all for the same reason.
    fn add(&mut self, failure: Option<&Failure>) -> bool {
        let (Some((rows, first)), Some(failure)) = (self.failing, failure) else {
            self.failing = None;
            return false;
        };
        let is_same = first.is_none_or(|first| first == failure.reason);
        let is_last = rows + 1 == FIRST_ROWS;
        self.failing = (is_same && !is_last).then_some((rows + 1, Some(failure.reason)));
        is_same && is_last
    }
}

/// The error for a file whose first rows all fail for the reason of this one. `mapping` says which column is which field.
fn all_fail(name: &str, failure: &Failure, mapping: &str, rules: &FieldRules) -> Error {
    let reason = failure.reason;
    let error = Error::usage(format!(
        "the first {FIRST_ROWS} rows of {name} all fail for the same reason, `{reason}`, and none was sent"
    ));
    let cells = Some(&*failure.message).filter(|_| reason.is_about_cells());
    let mapping = Some(mapping).filter(|mapping| !mapping.is_empty());
    let error = cells.into_iter().chain(mapping).fold(error, Error::detail);
    error.hint(fix(reason, rules))
}

/// The error for a file whose last row lacks its end, and fails for that.
fn cut_off(name: &str, failure: &Failure) -> Error {
    let what = &failure.message;
    let message = format!("the last line of {name} is cut off: {what}, and no line end");
    Error::usage(message + "; the file is incomplete, or still being written")
        .hint("make or copy it again; `--keep-going` continues anyway, and this row fails")
}

/// The hint if the first rows all fail for this reason.
fn fix(reason: Reason, rules: &FieldRules) -> String {
    let fix = match reason {
        Reason::NotJson | Reason::NotAnObject => {
            "put each object on one line, with `jq -c '.[]'` for an array and with `jq -c .` otherwise"
        }
        Reason::Ragged | Reason::TextAfterQuote => {
            "compare the header with a row: one of them may end with a delimiter; check the quotes and `--delimiter`"
        }
        Reason::StrayQuotes => {
            "in CSV, no space comes between a delimiter and a quote; `--quotes off` reads quotes as ordinary characters"
        }
        Reason::NotUtf8 | Reason::Undecodable => "check `--encoding`",
        Reason::ExistingColumns => "`--prefix` writes the new columns under other names",
        Reason::InvalidPhone if rules.region.is_some() => {
            "`--invalid drop` leaves out the number if the row has an email address"
        }
        Reason::InvalidPhone => {
            "`--phone-region` reads national numbers, as in `--phone-region DE`, and `--invalid drop` leaves out the number if the row has an email address"
        }
        Reason::WrongType => {
            "`--map FIELD=/POINTER` reads a nested member; a number must be in quotes"
        }
        _ => "name the right columns with `--map FIELD=COLUMN`",
    };
    format!("{fix}; `--keep-going` continues anyway")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundred_rows_with_the_same_fault_are_enough_and_one_other_row_lets_all_pass() {
        let [ip, other] = [Reason::InvalidIp, Reason::MissingIp].map(Some);
        for (rows, looks, rejected_at) in [
            (&[(500, ip)][..], true, Some(100)),
            (&[(500, ip)], false, None),
            (&[(99, ip)], true, None),
            (&[(1, None), (500, ip)], true, None),
            (&[(99, ip), (1, None), (500, ip)], true, None),
            (&[(99, ip), (500, other)], true, None),
        ] {
            let mut first = FirstRows::new(looks);
            let mut all = rows.iter().flat_map(|(rows, reason)| vec![reason; *rows]);
            let found = all.position(|reason| {
                let failure = reason.map(|reason| Failure::new(reason, ""));
                first.add(failure.as_ref())
            });
            assert_eq!(found.map(|index| index + 1), rejected_at, "{rows:?}");
        }
    }
}
