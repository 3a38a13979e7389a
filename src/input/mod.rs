//! Files to rows.
//!
//! A [`Reader`] opens the source, finds out its format and mapping, and then hands out rows in batches, each row with
//! all of its raw bytes and with the request that its fields make. It runs on a thread of its own and must not know
//! what becomes of a row.

mod csv;
mod existing;
mod first_rows;
mod jsonl;
mod magic;
mod member;
mod members;
mod packed;
mod sniff;
mod source;
mod text;

use std::path::PathBuf;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::time::Instant;

pub(crate) use packed::Ignored;
pub use sniff::FormatChoice;
pub(crate) use source::is_checked_for_long;

use crate::base::error::{Error, Result};
use crate::fields::{Assignments, InvalidPhone, UserRequest};
use crate::layout::{Existing, Layout};
use crate::row::{Earlier, Row, RowNumber, Span};
use crate::verdict::Failure;
use first_rows::FirstRows;
use source::Source;
use text::{HEAD, Judge, NotText};

/// Where rows come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// Standard input.
    Stdin,
    /// A file.
    File(PathBuf),
}

/// What the reader must know.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where rows come from.
    pub input: Input,
    /// The format, or that it is to be found out.
    pub format: FormatChoice,
    /// The delimiter, where it was given.
    pub delimiter: Option<u8>,
    /// There is no header: columns are known by their numbers.
    pub no_header: bool,
    /// What `--map` and `--set` asked for.
    pub assignments: Assignments,
    /// What to do with a bad phone number.
    pub invalid_phone: InvalidPhone,
    /// What to do with columns of our names.
    pub existing: Existing,
    /// Names of the columns that we write.
    pub columns: Vec<String>,
    /// The largest record in bytes. A quote that is never closed must not swallow the memory.
    pub max_record: usize,
    /// Refuse the file when its first rows all fail for one reason.
    pub judges_first_rows: bool,
}

/// Writes the bytes that are sent for a valid request; it runs here so that the thread that makes calls need not.
pub type Compose = Box<dyn Fn(&UserRequest<'_>, &mut BytesMut) + Send>;

/// A row and what it asks, or why it can ask nothing.
#[derive(Debug)]
pub struct Prepared {
    /// The row.
    pub row: Row,
    /// The request's body, or the rule that the row breaks.
    pub request: Result<Bytes, Failure>,
}

/// Some rows in order.
#[derive(Debug, Default)]
pub struct Batch {
    /// The rows.
    pub rows: Vec<Prepared>,
    /// How many bytes of the source are used up with them; for progress by bytes.
    pub(crate) position: u64,
    /// Blank lines after the last row; empty but in the last batch.
    pub trailer: Bytes,
}

/// How much is read at once: large enough that reading costs little a row, small enough to keep memory flat.
const BLOCK: usize = 128 * 1024;
/// A batch is handed on with this many rows, so that the first ones need not wait for a whole block.
const BATCH_ROWS: usize = 512;
/// … or with this many bytes, so that large records do not pile up in front of the window.
const BATCH_BYTES: usize = 1024 * 1024;
/// A block of bodies: some 250 of them. One that waits holds the whole block.
const BODIES: usize = 64 * 1024;

/// How long the first MiB of a pipe may take, to be judged before the first call: a program that passes on a file takes
/// less. The first rows of one that waits for events are held up for so long, once.
const HEAD_WAIT: Duration = Duration::from_millis(500);

/// Reads rows from a source.
pub struct Reader {
    buffer: Buffer,
    format: Parser,
    settings: Settings,
    bodies: Bodies,
    number: RowNumber,
    first_rows: FirstRows,
    /// Which column is which field.
    mapping: String,
    /// Rows that were read to judge the file by them.
    early: Option<Batch>,
}

enum Parser {
    Csv(csv::Parser),
    Jsonl(jsonl::Parser),
}

/// What opening found out, for the writer and for people.
#[derive(Debug)]
pub struct Opened {
    /// The file's build.
    pub layout: Layout,
    /// One line for people: which column is which field.
    pub(crate) mapping: String,
    /// Columns of ours that an earlier run left in the input and that are replaced.
    pub(crate) replaced: Vec<String>,
    /// The source's size in bytes, where it has one.
    pub(crate) size: Option<u64>,
    /// Who may read and write the source, as a file's permission bits; a pipe says nothing.
    pub(crate) mode: u32,
    /// Whether bytes behind compressed data are ignored; of a large file or a stream it is known at its end.
    pub(crate) ignored: Ignored,
}

impl Reader {
    /// Opens the source and reads as far as the first row.
    ///
    /// # Errors
    /// A source that cannot be read, an unknown format, a header that does not fit: exit code 2.
    pub fn open(settings: Settings, compose: Compose) -> Result<(Self, Opened)> {
        Self::of_source(Source::open(&settings.input)?, settings, compose)
    }

    /// As [`Self::open`], with any reader in the place of a pipe: the fuzz targets choose how bytes arrive.
    ///
    /// # Errors
    /// As for [`Self::open`].
    #[doc(hidden)]
    pub fn over(
        reader: impl std::io::Read + Send + 'static,
        settings: Settings,
        compose: Compose,
    ) -> Result<(Self, Opened)> {
        Self::of_source(Source::of_reader(reader)?, settings, compose)
    }

    fn of_source(source: Source, settings: Settings, compose: Compose) -> Result<(Self, Opened)> {
        let (size, mode, ignored) = (source.size(), source.mode(), source.ignored());
        let mut buffer = Buffer {
            bytes: BytesMut::new(),
            source,
            at_end: false,
            line: 1,
            judge: Judge::default(),
            has_head: false,
        };
        buffer.fill_first_line(settings.max_record)?;
        buffer.fill_head()?;
        let (detected, preamble) = sniff::detect(&settings, &mut buffer)?;
        let (format, header, mapping) = match detected {
            crate::layout::Format::Delimited { delimiter } => {
                let (parser, header, mapping) =
                    csv::Parser::open(delimiter, &settings, &mut buffer)?;
                (Parser::Csv(parser), header, mapping)
            }
            crate::layout::Format::Jsonl if settings.no_header => {
                return Err(Error::usage(format!(
                    "`--no-header` is for CSV and TSV, and {} is JSONL",
                    buffer.source.name()
                ))
                .hint("leave it out"));
            }
            crate::layout::Format::Jsonl => {
                let (parser, mapping) = jsonl::Parser::open(&settings, &mut buffer)?;
                (Parser::Jsonl(parser), None, mapping)
            }
        };
        let layout = Layout {
            format: detected,
            preamble,
            header,
            columns: settings.columns.clone(),
            existing: settings.existing,
        };
        let replaced = match &format {
            Parser::Csv(parser) => parser.replaced(),
            Parser::Jsonl(parser) => parser.replaced(),
        };
        let mut reader = Self {
            buffer,
            format,
            first_rows: FirstRows::new(settings.judges_first_rows),
            settings,
            bodies: Bodies::new(compose),
            number: RowNumber::FIRST,
            mapping: mapping.clone(),
            early: None,
        };
        // Whatever is wrong with all of them is found before a file is touched.
        reader.early = reader.gather(false)?;
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

    /// The next rows; `None` when there are no more.
    ///
    /// # Errors
    /// The source cannot be read on, or a record is broken so that nothing after it can be trusted.
    pub fn next_batch(&mut self) -> Result<Option<Batch>> {
        match self.early.take() {
            Some(early) => Ok(Some(early)),
            None => self.gather(true),
        }
    }

    /// Some rows; `None` at the end, and where there are none yet and nobody `waits` for them.
    fn gather(&mut self, waits: bool) -> Result<Option<Batch>> {
        let mut batch = self.gather_rows(waits)?;
        if let Some(batch) = &mut batch {
            batch.position = self.buffer.source.position(self.buffer.bytes.len());
        }
        Ok(batch)
    }

    fn gather_rows(&mut self, waits: bool) -> Result<Option<Batch>> {
        let mut batch = Batch::default();
        let mut bytes = 0;
        loop {
            match self.next_record()? {
                Some(prepared) => {
                    bytes += prepared.row.raw.len();
                    batch.rows.push(prepared);
                    if batch.rows.len() >= BATCH_ROWS || bytes >= BATCH_BYTES {
                        return Ok(Some(batch));
                    }
                }
                None if self.buffer.at_end => {
                    batch.trailer = self.buffer.bytes.split().freeze();
                    let empty = batch.rows.is_empty() && batch.trailer.is_empty();
                    return Ok((!empty).then_some(batch));
                }
                // What is there goes on its way before more is awaited: a pipe may be slow.
                None if !batch.rows.is_empty() => return Ok(Some(batch)),
                None if !waits => return Ok(None),
                None => self.buffer.fill()?,
            }
        }
    }

    /// The next record that is whole in the buffer.
    fn next_record(&mut self) -> Result<Option<Prepared>> {
        let extent = match &mut self.format {
            Parser::Csv(parser) => parser.scan(&self.buffer, self.settings.max_record)?,
            Parser::Jsonl(_) => jsonl::scan(&self.buffer, self.settings.max_record)?,
        };
        let Some(extent) = extent else {
            return Ok(None);
        };
        let line = self.buffer.line + extent.lines_before;
        self.buffer
            .check_size(extent.content.range().len(), self.settings.max_record, line)?;
        let mut row = self.buffer.take(&extent, self.number);
        self.number = self.number.next();
        let request = match &mut self.format {
            Parser::Csv(parser) => parser.request(
                &mut row,
                &extent,
                self.settings.invalid_phone,
                &mut self.bodies,
            ),
            Parser::Jsonl(parser) => {
                parser.request(&mut row, self.settings.invalid_phone, &mut self.bodies)
            }
        };
        if let Some(reason) = self.first_rows.take(&request) {
            let name = self.buffer.source.name();
            return Err(first_rows::hopeless(name, reason, &self.mapping));
        }
        let request = request.map_err(|failure| Failure {
            message: format!("line {line}: {}", failure.message).into(),
            ..failure
        });
        Ok(Some(Prepared { row, request }))
    }
}

/// Makes requests' bodies, many to a block: an allocation for each would be freed by another thread, which is the dearest
/// way.
struct Bodies {
    compose: Compose,
    block: BytesMut,
}

impl Bodies {
    fn new(compose: Compose) -> Self {
        Self {
            compose,
            block: BytesMut::with_capacity(BODIES),
        }
    }

    fn body(&mut self, request: &UserRequest<'_>) -> Bytes {
        (self.compose)(request, &mut self.block);
        self.block.split().freeze()
    }
}

/// Where a record lies at the front of the buffer.
#[derive(Debug, Clone, Copy)]
struct Extent {
    content: Span,
    end: usize,
    lines_before: u64,
    /// Lines that the record itself takes.
    lines: u64,
    /// Text stands after a closing quote.
    malformed: bool,
}

/// The bytes that were read and not yet handed out.
struct Buffer {
    bytes: BytesMut,
    source: Source,
    at_end: bool,
    /// The physical line that the buffer's first byte stands on.
    line: u64,
    /// Whether it is text.
    judge: Judge,
    /// As much of the head has been read as is judged before the first call.
    has_head: bool,
}

impl Buffer {
    /// Reads another block; sets `at_end` when there is none.
    ///
    /// # Errors
    /// It cannot be read, or is not text.
    fn fill(&mut self) -> Result<()> {
        let held = self.bytes.len();
        // What a record larger than a block still needs is doubled each time, so that it is scanned again a few times
        // and not hundreds; pipes give little at once.
        let enough = if held <= BLOCK { held + 1 } else { 2 * held };
        self.read(enough, held + BLOCK.max(held))
    }

    /// Reads until there are `enough` bytes, and no more than `most`.
    fn read(&mut self, enough: usize, most: usize) -> Result<()> {
        while !self.at_end && self.bytes.len() < enough {
            let before = self.bytes.len();
            self.bytes.resize(most, 0);
            let free = self.bytes.get_mut(before..).unwrap_or_default();
            let read = self.source.read(free);
            self.bytes.truncate(before + *read.as_ref().unwrap_or(&0));
            self.at_end = read? == 0;
            let new = self.bytes.get(before..).unwrap_or_default();
            let taken = self.judge.take(new, self.at_end);
            let judged = taken.and_then(|()| {
                if self.has_head {
                    self.judge.verdict()
                } else {
                    Ok(())
                }
            });
            self.refuse(judged)?;
        }
        Ok(())
    }

    /// Reads until there is a line that says something, so that the file can be judged by it.
    fn fill_first_line(&mut self, max_record: usize) -> Result<()> {
        loop {
            let text = self.bytes.trim_ascii_start();
            let whole = memchr::memchr2(b'\n', b'\r', text).is_some();
            if whole || self.at_end || self.bytes.len() > max_record {
                return Ok(());
            }
            self.fill()?;
        }
    }

    /// Reads what is judged before the first call. A pipe may have its second row in an hour: the rest of it is judged as it
    /// comes.
    fn fill_head(&mut self) -> Result<()> {
        let begin = Instant::now();
        while self.bytes.len() < HEAD && !self.at_end {
            let left = HEAD_WAIT.saturating_sub(begin.elapsed());
            if !self.source.has_more(left) {
                break;
            }
            self.read(self.bytes.len() + 1, HEAD)?;
        }
        self.has_head = true;
        self.refuse(self.judge.verdict())
    }

    fn refuse(&self, judged: std::result::Result<(), NotText>) -> Result<()> {
        judged.map_err(|wrong| wrong.error(self.source.name(), &self.bytes))
    }

    /// Takes a record off the front, without copying it.
    fn take(&mut self, extent: &Extent, number: RowNumber) -> Row {
        let raw = self
            .bytes
            .split_to(extent.end.min(self.bytes.len()))
            .freeze();
        self.line += extent.lines_before + extent.lines;
        Row {
            number,
            raw,
            content: extent.content,
            existing: Box::default(),
            earlier: Earlier::default(),
        }
    }

    /// Fails when there is nothing but blank lines, and too many of them to hold.
    fn check_blank_lines(&self, most: usize) -> Result<()> {
        if self.at_end || self.bytes.len() <= most {
            return Ok(());
        }
        Err(Error::usage(format!(
            "{} has more than {most} bytes of blank lines from line {} on",
            self.source.name(),
            self.line
        ))
        .hint("`--max-record-bytes` raises the limit"))
    }

    /// Fails when the record of `length` bytes at the front, or what there is of it, is larger than allowed.
    fn check_size(&self, length: usize, max_record: usize, line: u64) -> Result<()> {
        if length <= max_record {
            return Ok(());
        }
        Err(Error::usage(format!(
            "a record in {} at line {line} is larger than {max_record} bytes",
            self.source.name()
        ))
        .hint("`--max-record-bytes` raises the limit"))
    }
}

/// Length of the line end at `at`: 1 for LF or CR, 2 for CRLF, `None` when the byte after a CR is not there yet.
fn line_end(bytes: &[u8], at: usize, at_end: bool) -> Option<usize> {
    match (bytes.get(at), bytes.get(at + 1)) {
        (Some(b'\r'), Some(b'\n')) => Some(2),
        (Some(b'\r'), None) if !at_end => None,
        _ => Some(1),
    }
}

#[cfg(test)]
mod tests;
