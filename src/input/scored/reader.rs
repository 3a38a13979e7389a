//! Reads rows from a scored file.

use super::super::batch::RowBatch;
use super::super::buffer::Buffer;
use super::super::decompress::TrailingGarbage;
use super::super::gather::{Records, gather};
use super::super::jsonl::scan;
use super::super::settings::FileSettings;
use super::super::sniff;
use super::super::source::Source;
use super::columns::ScoredColumns;
use super::csv::ScoredCsv;
use super::jsonl::ScoredJsonl;
use super::row::ScoredRow;
use crate::base::encoding::TextEncoding;
use crate::base::error::{Error, Result};
use crate::layout::{AddedColumns, Existing, Format, Layout};
use crate::row::RowNumber;
use crate::verdict::Failure;

/// Reads rows from a scored file.
pub(crate) struct ScoredReader {
    buffer: Buffer,
    parser: ScoredParser,
    max_record: usize,
    encoding: TextEncoding,
    number: RowNumber,
}

enum ScoredParser {
    Csv(ScoredCsv),
    Jsonl(ScoredJsonl),
}

/// What opening a scored file found out.
#[derive(Debug)]
pub(crate) struct OpenedScored {
    /// The file's layout.
    pub(crate) layout: Layout,
    /// Its name, for messages.
    pub(crate) name: String,
    /// Its permission bits. A pipe does not restrict them.
    pub(crate) mode: u32,
    /// Whether bytes after compressed data are ignored.
    pub(crate) ignored: TrailingGarbage,
}

impl ScoredReader {
    /// Opens a scored file and finds its columns.
    ///
    /// # Errors
    /// Exit code 2: it cannot be read, has an unknown format, or is not a scored file with these columns.
    pub(crate) fn open(
        settings: &FileSettings,
        columns: ScoredColumns,
    ) -> Result<(Self, OpenedScored)> {
        Self::of_source(Source::open(&settings.input)?, settings, columns)
    }

    pub(super) fn of_source(
        source: Source,
        settings: &FileSettings,
        columns: ScoredColumns,
    ) -> Result<(Self, OpenedScored)> {
        let (mode, ignored) = (source.mode(), source.ignored());
        let mut buffer = Buffer::new(source, settings.encoding);
        buffer.fill_first_line(settings.max_record)?;
        buffer.fill_head()?;
        let (format, preamble) = sniff::detect(settings, &mut buffer)?;
        let name = buffer.source.name().to_owned();
        let (parser, header) = match format {
            Format::Delimited { delimiter } => {
                let (csv, header) = ScoredCsv::open(delimiter, settings, columns, &mut buffer)?;
                (ScoredParser::Csv(csv), header)
            }
            Format::Jsonl if settings.no_header => {
                return Err(Error::usage(format!(
                    "`--no-header` is for CSV and TSV, but {name} is JSONL"
                ))
                .hint("leave it out"));
            }
            Format::Jsonl => {
                let jsonl = ScoredJsonl::open(settings.max_record, columns, &mut buffer)?;
                (ScoredParser::Jsonl(jsonl), None)
            }
        };
        let opened = OpenedScored {
            layout: Layout {
                format,
                encoding: settings.encoding,
                preamble,
                header,
                // Nothing is added to a scored file.
                columns: AddedColumns::none(),
                existing: Existing::Replace,
            },
            name,
            mode,
            ignored,
        };
        let reader = Self {
            buffer,
            parser,
            max_record: settings.max_record,
            encoding: settings.encoding,
            number: RowNumber::FIRST,
        };
        Ok((reader, opened))
    }

    /// The next rows; `None` at the end.
    ///
    /// # Errors
    /// The source cannot be read further, or a record is broken in such a way that nothing after it can be trusted.
    pub(crate) fn next_batch(&mut self) -> Result<Option<RowBatch<ScoredRow>>> {
        gather(self, true)
    }
}

impl Records for ScoredReader {
    type Record = ScoredRow;

    fn next_record(&mut self) -> Result<Option<ScoredRow>> {
        let extent = match &mut self.parser {
            ScoredParser::Csv(csv) => csv.scan(&self.buffer, self.max_record)?,
            ScoredParser::Jsonl(_) => scan(&self.buffer, self.max_record)?,
        };
        let Some(extent) = extent else {
            return Ok(None);
        };
        let start = self.buffer.line;
        let line = start + extent.lines_before;
        self.buffer
            .check_size(extent.content.range().len(), self.max_record, line)?;
        let row = self.buffer.take(&extent, self.number);
        self.number = self.number.next();
        let cells = match &self.parser {
            ScoredParser::Csv(csv) => csv.cells(&row, &extent),
            ScoredParser::Jsonl(jsonl) => jsonl.cells(&row),
        };
        let cells = cells.map_err(|failure| Failure {
            message: format!("{}: {}", extent.lines(start), failure.message).into(),
            ..failure
        });
        let encoding = self.encoding;
        let scored = ScoredRow {
            row,
            cells,
            encoding,
        };
        Ok(Some(scored))
    }

    #[inline]
    fn length(record: &ScoredRow) -> usize {
        record.row.raw.len()
    }

    fn buffer(&mut self) -> &mut Buffer {
        &mut self.buffer
    }
}
