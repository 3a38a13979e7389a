//! The reader: opens a source and returns its rows in batches.

use std::collections::VecDeque;
use std::num::NonZeroU64;

use bytes::Bytes;

use super::buffer::Buffer;
use super::csv::CsvParser;
use super::first_rows::{self, FirstRows};
use super::jsonl::{self, JsonlParser};
use super::settings::{Compose, ReaderSettings};
use super::sniff;
use super::source::{Source, TrailingGarbage};
use crate::base::error::{Error, Result};
use crate::layout::{Format, Layout};
use crate::row::{Row, RowNumber, Span};
use crate::telemetry::event::InputEnd;
use crate::verdict::Failure;

/// A row and its request, or why it has none.
#[derive(Debug)]
pub struct ReadRow {
    /// The row.
    pub row: Row,
    /// The request's body, or the rule that the row breaks. In a scored file, requests are empty.
    pub request: Result<Bytes, Failure>,
    /// Where the row has the columns that are asked for in a scored file; an empty span where it has none.
    pub(crate) asked: Box<[Span]>,
}

/// Some consecutive rows.
#[derive(Debug)]
pub struct RowBatch {
    /// The rows.
    pub rows: Vec<ReadRow>,
    /// The position in the source after these rows, in bytes, for the progress.
    pub(crate) position: u64,
    /// Blank lines after the last row; empty except in the last batch.
    pub trailer: Bytes,
    /// How many of the rows have a request without a value that is invalid.
    pub(crate) dropped: u64,
}

/// A batch is complete with this many rows, so that the first rows do not have to wait for a whole block …
const BATCH_ROWS: usize = 512;
/// … or with this many bytes, so that large records do not pile up before the calls.
const BATCH_BYTES: usize = 1024 * 1024;
/// The least that a usual row has, in bytes.
const SMALL_ROW: usize = 128;

/// Reads rows from a source.
pub struct Reader {
    buffer: Buffer,
    parser: FormatParser,
    settings: ReaderSettings,
    compose: Compose,
    number: RowNumber,
    first_rows: FirstRows,
    /// How many more rows are taken.
    left: u64,
    /// Whether a row was left out of a sample.
    passed_over: bool,
    /// The rows that were read to check the source: the next ones.
    early: VecDeque<RowBatch>,
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
            Self::Jsonl(parser) => parser.mapping(),
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
    /// Our columns from an earlier run that are replaced.
    pub(crate) replaced: Vec<String>,
    /// The source's size in bytes, if it has one.
    pub(crate) size: Option<u64>,
    /// The source's permission bits. A pipe does not restrict them.
    pub(crate) mode: u32,
    /// Whether bytes after compressed data are ignored. For a large file or a stream this is known
    /// at its end.
    pub(crate) ignored: TrailingGarbage,
}

impl Reader {
    /// Opens the source and reads up to the first rows.
    ///
    /// # Errors
    /// Exit code 2: the source cannot be read, has an unknown format, or a header that does not
    /// fit.
    pub fn open(settings: ReaderSettings, compose: Compose) -> Result<(Self, Opened)> {
        Self::of_source(Source::open(&settings.file.input)?, settings, compose)
    }

    /// Like [`Self::open`], but with any reader instead of a pipe: the fuzz targets choose how the
    /// bytes arrive.
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
        compose: Compose,
    ) -> Result<(Self, Opened)> {
        let (name, size, mode) = (source.name().to_owned(), source.size(), source.mode());
        let ignored = source.ignored();
        let mut buffer = Buffer::new(source, settings.file.encoding);
        buffer.fill_first_line(settings.file.max_record)?;
        buffer.fill_head()?;
        let (format, preamble) = sniff::detect(&settings.file, &mut buffer)?;
        let (parser, header, replaced) = match format {
            Format::Delimited { delimiter } => {
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
                existing: settings.existing,
            },
            name,
            mapping: parser.mapping().to_owned(),
            replaced,
            size,
            mode,
            ignored,
        };
        let mut reader = Self {
            buffer,
            parser,
            first_rows: FirstRows::new(settings.judges_first_rows),
            left: { settings.selection.limit }.map_or(u64::MAX, NonZeroU64::get),
            passed_over: false,
            settings,
            compose,
            number: RowNumber::FIRST,
            early: VecDeque::new(),
        };
        // What is wrong with all of them is found before any file is touched.
        reader.early = reader.gather(false)?.into_iter().collect();
        Ok((reader, opened))
    }

    /// What was read of the source. Known when there are no more rows. After a limit, no further row is read to find out
    /// whether there is one.
    #[must_use]
    pub(crate) const fn end(&self) -> InputEnd {
        if self.passed_over || self.left == 0 {
            InputEnd::Part
        } else {
            InputEnd::Whole
        }
    }

    /// The next rows; `None` at the end.
    ///
    /// # Errors
    /// The source cannot be read further, or a record is broken in such a way that nothing after it
    /// can be trusted.
    pub fn next_batch(&mut self) -> Result<Option<RowBatch>> {
        match self.early.pop_front() {
            Some(early) => Ok(Some(early)),
            None => self.gather(true),
        }
    }

    /// Some rows; `None` at the end, and if there are none yet and `waits` is false.
    fn gather(&mut self, waits: bool) -> Result<Option<RowBatch>> {
        let (mut rows, mut bytes, mut dropped) = (Vec::new(), 0, 0);
        let end = loop {
            if rows.len() >= BATCH_ROWS || bytes >= BATCH_BYTES || self.left == 0 {
                break false;
            }
            match self.next_row()? {
                Some(row) if !self.takes(&row) => {}
                Some(row) => {
                    let length = row.row.raw.len();
                    if rows.is_empty() {
                        // A batch that grows step by step moves each of its rows twice. A slow pipe has few bytes at a
                        // time, and its batches must not take much more memory than their rows.
                        let room = (length + self.buffer.bytes.len()).div_ceil(SMALL_ROW);
                        rows.reserve_exact(room.min(BATCH_ROWS));
                    }
                    bytes += length;
                    dropped += u64::from(row.request.is_ok() && self.compose.dropped);
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
            self.buffer.bytes.split().freeze()
        } else {
            Bytes::new()
        };
        if rows.is_empty() && trailer.is_empty() {
            return Ok(None);
        }
        let position = self.buffer.source.position(self.buffer.bytes.len());
        Ok(Some(RowBatch {
            rows,
            position,
            trailer,
            dropped,
        }))
    }

    /// Whether the row is one of those that are selected.
    #[inline]
    fn takes(&mut self, row: &ReadRow) -> bool {
        let is_in = self.settings.selection.sample.is_none_or(|sample| {
            sample.has(match &row.request {
                Ok(request) => self.compose.sent(request),
                Err(_) => row.row.content(),
            })
        });
        self.left -= u64::from(is_in);
        self.passed_over |= !is_in;
        is_in
    }

    /// The row of the next complete record in the buffer, selected or not.
    #[inline]
    fn next_row(&mut self) -> Result<Option<ReadRow>> {
        let most = self.settings.file.max_record;
        let extent = match &mut self.parser {
            FormatParser::Csv(parser) => parser.scan(&self.buffer, most)?,
            FormatParser::Jsonl(_) => jsonl::scan(&self.buffer, most)?,
        };
        let Some(extent) = extent else {
            return Ok(None);
        };
        let start = self.buffer.line;
        let line = start + extent.lines_before;
        self.buffer
            .check_size(extent.content.range().len(), most, line)?;
        let mut row = self.buffer.take(&extent, self.number);
        self.number = self.number.next();
        let (rules, compose) = (&self.settings.rules, &mut self.compose);
        let mut asked = Box::default();
        let mut request = match &mut self.parser {
            FormatParser::Csv(parser) => {
                parser.request(&mut row, &mut asked, &extent, rules, compose)
            }
            FormatParser::Jsonl(parser) => parser.request(&mut row, &mut asked, rules, compose),
        };
        if let Some(reason) = self.first_rows.take(&request) {
            let name = self.buffer.source.name();
            return Err(first_rows::hopeless(name, reason, self.parser.mapping()));
        }
        // In place: nearly every row has a request, which would be moved otherwise.
        if let Err(failure) = &mut request {
            failure.message = format!("{}: {}", extent.lines(start), failure.message).into();
        }
        Ok(Some(ReadRow {
            row,
            request,
            asked,
        }))
    }
}
