//! The reader: opens a source and returns its rows in batches.

use std::collections::VecDeque;

use super::batch::{ReadRow, RowBatch};
use super::bodies::{Bodies, Compose};
use super::buffer::Buffer;
use super::csv::CsvParser;
use super::decompress::TrailingGarbage;
use super::first_rows::{self, FirstRows};
use super::gather::{Records, gather};
use super::jsonl::{self, JsonlParser};
use super::selector::Selector;
use super::settings::ReaderSettings;
use super::sniff;
use super::source::Source;
use crate::base::error::{Error, Result};
use crate::layout::{Format, Layout};
use crate::row::{Row, RowNumber};
use crate::telemetry::event::InputEnd;

/// Reads rows from a source.
pub struct Reader {
    buffer: Buffer,
    parser: FormatParser,
    settings: ReaderSettings,
    bodies: Bodies,
    number: RowNumber,
    first_rows: FirstRows,
    selector: Selector,
    /// The rows that were read to check the source: the next ones.
    early: VecDeque<RowBatch>,
}

enum FormatParser {
    Csv(CsvParser),
    Jsonl(JsonlParser),
}

impl FormatParser {
    /// The parser for a format, and the header if there is one.
    fn open(
        format: Format,
        settings: &ReaderSettings,
        buffer: &mut Buffer,
    ) -> Result<(Self, Option<Row>)> {
        match format {
            Format::Delimited { delimiter } => {
                let (parser, header) = CsvParser::open(delimiter, settings, buffer)?;
                Ok((Self::Csv(parser), header))
            }
            Format::Jsonl if settings.file.no_header => Err(Error::usage(format!(
                "`--no-header` is for CSV and TSV, but {} is JSONL",
                buffer.source.name()
            ))
            .hint("leave it out")),
            Format::Jsonl => Ok((Self::Jsonl(JsonlParser::open(settings, buffer)?), None)),
        }
    }

    /// Which column is which field, as one line for people.
    fn mapping(&self) -> &str {
        match self {
            Self::Csv(parser) => parser.mapping(),
            Self::Jsonl(parser) => parser.mapping(),
        }
    }

    /// The names of the columns that are replaced.
    fn replaced(&self) -> Vec<String> {
        match self {
            Self::Csv(parser) => parser.replaced(),
            Self::Jsonl(parser) => parser.replaced(),
        }
    }
}

/// What opening the source found out, for the writer and for messages.
#[derive(Debug)]
pub struct Opened {
    /// The file's layout.
    pub layout: Layout,
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
        let (size, mode, ignored) = (source.size(), source.mode(), source.ignored());
        let mut buffer = Buffer::new(source, settings.file.encoding);
        buffer.fill_first_line(settings.file.max_record)?;
        buffer.fill_head()?;
        let (detected, preamble) = sniff::detect(&settings.file, &mut buffer)?;
        let (parser, header) = FormatParser::open(detected, &settings, &mut buffer)?;
        let layout = Layout {
            format: detected,
            encoding: settings.file.encoding,
            preamble,
            header,
            columns: settings.columns.clone(),
            existing: settings.existing,
        };
        let (mapping, replaced) = (parser.mapping().to_owned(), parser.replaced());
        let mut reader = Self {
            buffer,
            parser,
            first_rows: FirstRows::new(settings.judges_first_rows),
            selector: Selector::new(settings.selection, compose.marks()),
            settings,
            bodies: Bodies::new(compose),
            number: RowNumber::FIRST,
            early: VecDeque::new(),
        };
        // What is wrong with all of them is found before any file is touched.
        reader.early = gather(&mut reader, false)?.into_iter().collect();
        Ok((
            reader,
            Opened {
                layout,
                mapping,
                replaced,
                size,
                mode,
                ignored,
            },
        ))
    }

    /// What was read of the source. Known when there are no more rows.
    #[must_use]
    pub(crate) const fn end(&self) -> InputEnd {
        self.selector.end()
    }

    /// The next rows; `None` at the end.
    ///
    /// # Errors
    /// The source cannot be read further, or a record is broken in such a way that nothing after it
    /// can be trusted.
    pub fn next_batch(&mut self) -> Result<Option<RowBatch>> {
        match self.early.pop_front() {
            Some(early) => Ok(Some(early)),
            None => gather(self, true),
        }
    }
}

impl Records for Reader {
    type Record = ReadRow;

    #[inline]
    fn next_record(&mut self) -> Result<Option<ReadRow>> {
        loop {
            let row = self.next_row()?;
            match &row {
                Some(taken) if !self.selector.takes(taken) => {}
                _ => return Ok(row),
            }
        }
    }

    #[inline]
    fn length(record: &ReadRow) -> usize {
        record.row.raw.len()
    }

    fn is_full(&self) -> bool {
        self.selector.is_full()
    }

    fn buffer(&mut self) -> &mut Buffer {
        &mut self.buffer
    }
}

impl Reader {
    /// The row of the next complete record in the buffer, selected or not.
    #[inline]
    fn next_row(&mut self) -> Result<Option<ReadRow>> {
        let extent = match &mut self.parser {
            FormatParser::Csv(parser) => {
                parser.scan(&self.buffer, self.settings.file.max_record)?
            }
            FormatParser::Jsonl(_) => jsonl::scan(&self.buffer, self.settings.file.max_record)?,
        };
        let Some(extent) = extent else {
            return Ok(None);
        };
        let start = self.buffer.line;
        let line = start + extent.lines_before;
        self.buffer.check_size(
            extent.content.range().len(),
            self.settings.file.max_record,
            line,
        )?;
        let mut row = self.buffer.take(&extent, self.number);
        self.number = self.number.next();
        let mut request = match &mut self.parser {
            FormatParser::Csv(parser) => {
                parser.request(&mut row, &extent, self.settings.phones, &mut self.bodies)
            }
            FormatParser::Jsonl(parser) => {
                parser.request(&mut row, self.settings.phones, &mut self.bodies)
            }
        };
        if let Some(reason) = self.first_rows.take(&request) {
            let name = self.buffer.source.name();
            return Err(first_rows::hopeless(name, reason, self.parser.mapping()));
        }
        // In place: nearly every row has a request, which would be moved otherwise.
        if let Err(failure) = &mut request {
            failure.message = format!("{}: {}", extent.lines(start), failure.message).into();
        }
        Ok(Some(ReadRow { row, request }))
    }
}
