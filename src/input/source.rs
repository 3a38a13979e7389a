//! Bytes from a file or standard input, decompressed and metered, and those of them that are not rows yet.
//!
//! The rest of `input` sees one stream of plain bytes. Compression is detected by a file's first bytes, never by its name.
//! This file must not know what a record is, but for the bytes between two of them.

use std::fs::{File, Metadata};
use std::io::{self, BufReader, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use bytes::BytesMut;
use flate2::bufread::MultiGzDecoder;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::time::Instant;

use super::settings::Input;
use crate::base::error::{Error, Result};
use crate::base::meter::Meter;
use crate::base::private_file::{self, Readers};
use crate::layout::Compression;
use crate::row::{RawRow, Span};

/// How much of an input is judged before its first row is read: one MiB of users shows the letters that a file has.
pub(super) const HEAD_BYTES: usize = 1024 * 1024;

/// How long to wait for the first MiB of a pipe, so that it is checked before the first call. A program that passes on a
/// file takes less. If a program waits for events, its first rows are delayed by this time, once.
const HEAD_WAIT: Duration = Duration::from_millis(500);

/// The largest record, or series of blank lines, in bytes. A quote that is never closed must not fill the memory.
pub(super) const MAX_RECORD: usize = 16 * 1024 * 1024;

/// How much is read in one go: large enough that reading costs little per row, small enough to keep memory use flat.
const BLOCK: usize = 128 * 1024;

pub(super) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// An open source.
pub(super) struct Source {
    reader: Box<dyn Read + Send>,
    /// Its name in messages: its path in backticks, or standard input.
    pub(super) name: String,
    /// Its size in bytes as stored, if it is a file.
    pub(super) size: Option<u64>,
    /// Who may read it. A pipe does not say who may read its content.
    pub(super) readers: Readers,
    /// What reading has to wait for.
    waits_for: WaitsFor,
    /// Counts and hashes its bytes as they are stored.
    pub(super) meter: Meter,
    compressed: bool,
}

impl Source {
    /// Opens the input.
    ///
    /// # Errors
    /// Exit code 2: it does not exist, is a directory or is unreadable.
    pub(super) fn open(input: &Input) -> Result<Self> {
        let path = match input {
            Input::Stdin => {
                let (readers, waits_for) = match stdin_file() {
                    Some(file) => (Readers::of(&file), WaitsFor::Nothing),
                    None => (Readers::EVERYBODY, WaitsFor::stream(&io::stdin())),
                };
                let name = "standard input".to_owned();
                return Self::decompressed(io::stdin(), name, None, readers, waits_for);
            }
            Input::File(path) => path,
        };
        let name = format!("`{}`", path.display());
        let (file, metadata) = open_file(path).map_err(|e| unreadable(&name, false, e))?;
        if !metadata.is_file() {
            let waits_for = WaitsFor::stream(&file);
            return Self::decompressed(file, name, None, Readers::EVERYBODY, waits_for);
        }
        let readers = Readers::of(&metadata);
        match metadata.len() {
            // Files that the system creates as they are read, as in `/proc`, have no size: they are read to their end.
            0 => Self::decompressed(file, name, None, readers, WaitsFor::Nothing),
            // The size at the start counts: a file that grows is read as it was, and one that shrinks is an error.
            size => {
                let fixed = file.take(size);
                Self::decompressed(fixed, name, Some(size), readers, WaitsFor::Nothing)
            }
        }
    }

    /// Any reader instead of a pipe.
    ///
    /// # Errors
    /// As for [`Self::open`].
    pub(super) fn of_reader(reader: impl Read + Send + 'static) -> Result<Self> {
        let name = "the input".to_owned();
        Self::decompressed(reader, name, None, Readers::EVERYBODY, WaitsFor::Unknown)
    }

    fn decompressed(
        raw: impl Read + Send + 'static,
        name: String,
        size: Option<u64>,
        readers: Readers,
        waits_for: WaitsFor,
    ) -> Result<Self> {
        let meter = Meter::default();
        let raw = meter.clone().over(raw);
        let (reader, compression) = decompress(raw).map_err(|e| unreadable(&name, true, e))?;
        Ok(Self {
            reader,
            name,
            size,
            readers,
            waits_for,
            meter,
            compressed: compression.is_some(),
        })
    }

    /// Reads some bytes; 0 at the end.
    pub(super) fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        let read = loop {
            match self.reader.read(into) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        let is_end = match &read {
            Ok(bytes) => *bytes == 0,
            Err(error) => error.kind() == io::ErrorKind::UnexpectedEof,
        };
        if is_end && self.size.is_some_and(|size| self.meter.count() < size) {
            let message = format!("{} became shorter while it was being read", self.name);
            return Err(Error::stopped(message));
        }
        read.map_err(|error| unreadable(&self.name, self.compressed, error))
    }

    /// Whether something can be read now or within this time.
    pub(super) fn has_more(&self, within: Duration) -> bool {
        match &self.waits_for {
            WaitsFor::Nothing => true,
            WaitsFor::Stream(stream) => is_readable(stream, within),
            WaitsFor::Unknown => false,
        }
    }

    /// The position in the stored bytes while `held` plain bytes are not used yet. Of compressed sources only the position of
    /// the block is known, and the held bytes are not subtracted.
    pub(super) fn position(&self, held: usize) -> u64 {
        let consumed = self.meter.count();
        if self.compressed {
            consumed
        } else {
            consumed.saturating_sub(held as u64)
        }
    }
}

/// What a reader of a source has to wait for.
enum WaitsFor {
    /// Nothing: it is a file.
    Nothing,
    /// The other side of this pipe.
    Stream(OwnedFd),
    /// Unknown.
    Unknown,
}

impl WaitsFor {
    fn stream(stream: &impl AsFd) -> Self {
        let stream = stream.as_fd().try_clone_to_owned();
        stream.map_or(Self::Unknown, Self::Stream)
    }
}

fn is_readable(stream: &OwnedFd, within: Duration) -> bool {
    let mut polled = [PollFd::new(stream, PollFlags::IN)];
    let within = Timespec::try_from(within).ok();
    // The end of the stream counts as well.
    within.is_some_and(|within| poll(&mut polled, Some(&within)).is_ok_and(|ready| ready > 0))
}

/// The file that a shell opened as standard input; `None` for a pipe.
pub(crate) fn stdin_file() -> Option<Metadata> {
    let duplicate = io::stdin().as_fd().try_clone_to_owned();
    let metadata = duplicate.and_then(|file| File::from(file).metadata());
    metadata.ok().filter(Metadata::is_file)
}

/// Fails if this file does not exist or may not be read: an error about an input comes before one about an output. A pipe is not
/// opened, as it can be opened only once.
pub(crate) fn refuse_missing(input: &Input) -> Result<()> {
    let Input::File(path) = input else {
        return Ok(());
    };
    let opened = match path.metadata() {
        Ok(metadata) if metadata.is_file() || metadata.is_dir() => open_file(path).map(drop),
        metadata => metadata.map(drop),
    };
    opened.map_err(|error| unreadable(&format!("`{}`", path.display()), false, error))
}

fn open_file(path: &Path) -> io::Result<(File, Metadata)> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    Ok((file, metadata))
}

/// The error for a source that cannot be read or decompressed.
fn unreadable(name: &str, compressed: bool, error: io::Error) -> Error {
    // The system's errors have a number, a decoder's have none.
    if compressed && error.raw_os_error().is_none() {
        if error.kind() == io::ErrorKind::UnexpectedEof {
            return Error::usage(format!("cannot decompress {name}: it ends too early"))
                .hint("it is incomplete: make or copy it again");
        }
        return Error::usage(format!("cannot decompress {name}: it is damaged")).because(error);
    }
    let cannot = Error::usage(format!("cannot read {name}")).because(error);
    if name.contains("://") {
        return cannot.hint(
            "rescore reads files and standard input: pass it the output of `aws s3 cp`, `curl -sSf` or another program with `rescore run - -o scored.csv`",
        );
    }
    let why = private_file::not_expanded(Path::new(name.trim_matches('`')));
    why.into_iter().fold(cannot, Error::hint)
}

/// What every gzip member starts with.
const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
/// The largest window that `zstd --long=31` makes: 2 GiB. Only such a file takes so much memory.
const MAX_ZSTD_WINDOW: u32 = 31;

/// The compression of a file with these first bytes.
fn compression_of(bytes: &[u8]) -> Option<Compression> {
    if bytes.starts_with(GZIP) {
        Some(Compression::Gzip)
    } else {
        // Parallel programs write frames first that a reader skips.
        let is_zstd = bytes.starts_with(ZSTD) || matches!(bytes, [0x50..=0x5f, 0x2a, 0x4d, 0x18]);
        is_zstd.then_some(Compression::Zstd)
    }
}

/// The decompressed bytes, and how they were compressed, if at all.
///
/// # Errors
/// The first bytes cannot be read.
fn decompress(
    mut raw: impl Read + Send + 'static,
) -> io::Result<(Box<dyn Read + Send>, Option<Compression>)> {
    let mut start = Vec::new();
    raw.by_ref()
        .take(ZSTD.len() as u64)
        .read_to_end(&mut start)?;
    let compression = compression_of(&start);
    let whole = BufReader::new(io::Cursor::new(start).chain(raw));
    let plain: Box<dyn Read + Send> = match compression {
        None => Box::new(whole),
        Some(Compression::Gzip) => Box::new(MultiGzDecoder::new(whole)),
        Some(Compression::Zstd) => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(whole)?;
            decoder.window_log_max(MAX_ZSTD_WINDOW)?;
            Box::new(decoder)
        }
    };
    Ok((plain, compression))
}

/// The position of a record at the front of the buffer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extent {
    pub(super) content: Span,
    pub(super) end: usize,
    pub(super) lines_before: u64,
    /// The number of lines of the record itself.
    pub(super) lines: u64,
    /// Whether a closing quote is followed by text.
    pub(super) malformed: bool,
}

impl Extent {
    /// Which lines the record has in its file, for people, in a buffer that starts at line `start`.
    pub(super) fn lines_for_people(&self, start: u64) -> String {
        let first = start + self.lines_before;
        let ends = self.end > self.content.range().end;
        match self.lines - u64::from(ends) {
            0 => format!("line {first}"),
            further => format!("lines {first} to {}", first + further),
        }
    }
}

/// The bytes that were read and are not yet rows.
pub(super) struct Buffer {
    pub(super) bytes: BytesMut,
    pub(super) source: Source,
    pub(super) at_end: bool,
    /// The line number of the buffer's first byte.
    pub(super) line: u64,
}

impl Buffer {
    /// A buffer with nothing read yet.
    pub(super) fn new(source: Source) -> Self {
        Self {
            bytes: BytesMut::new(),
            source,
            at_end: false,
            line: 1,
        }
    }

    /// Reads another block; sets `at_end` if there is none.
    ///
    /// # Errors
    /// It cannot be read.
    pub(super) fn fill(&mut self) -> Result<()> {
        let held = self.bytes.len();
        // For a record larger than a block the amount doubles each time, so that it is scanned again a few times and not
        // hundreds of times: a pipe returns little per read.
        let enough = if held <= BLOCK { held + 1 } else { 2 * held };
        self.read(enough, held + BLOCK.max(held))
    }

    /// Reads until there are `enough` bytes, and at most `most`.
    fn read(&mut self, enough: usize, most: usize) -> Result<()> {
        while !self.at_end && self.bytes.len() < enough {
            let before = self.bytes.len();
            self.bytes.resize(most, 0);
            let free = self.bytes.get_mut(before..).unwrap_or_default();
            let read = self.source.read(free);
            self.bytes.truncate(before + *read.as_ref().unwrap_or(&0));
            self.at_end = read? == 0;
        }
        Ok(())
    }

    /// Reads until there is a line that is not blank, by which the file can be judged.
    pub(super) fn fill_first_line(&mut self) -> Result<()> {
        loop {
            let text = self.bytes.trim_ascii_start();
            let whole = memchr::memchr2(b'\n', b'\r', text).is_some();
            if whole || self.at_end || self.bytes.len() > MAX_RECORD {
                return Ok(());
            }
            self.fill()?;
        }
    }

    /// Reads the head: the first MiB, or as much of a pipe as comes soon, whose second row may come in an hour.
    ///
    /// # Errors
    /// It cannot be read.
    pub(super) fn fill_head(&mut self) -> Result<()> {
        let started = Instant::now();
        while self.bytes.len() < HEAD_BYTES && !self.at_end {
            let left = HEAD_WAIT.saturating_sub(started.elapsed());
            if !self.source.has_more(left) {
                break;
            }
            self.read(self.bytes.len() + 1, HEAD_BYTES)?;
        }
        Ok(())
    }

    /// The head, as far as it was read.
    pub(super) fn head(&self) -> &[u8] {
        self.bytes.get(..HEAD_BYTES).unwrap_or(&self.bytes)
    }

    /// Takes a record off the front, without copying it.
    #[inline]
    pub(super) fn take(&mut self, extent: &Extent) -> RawRow {
        let end = extent.end.min(self.bytes.len());
        let bytes = self.bytes.split_to(end).freeze();
        self.line += extent.lines_before + extent.lines;
        RawRow {
            bytes,
            content: extent.content,
            ..RawRow::default()
        }
    }

    /// Fails if there are only blank lines, and too many to keep.
    pub(super) fn check_blank_lines(&self) -> Result<()> {
        if self.at_end || self.bytes.len() <= MAX_RECORD {
            return Ok(());
        }
        Err(Error::usage(format!(
            "{} has more than 16 MiB of blank lines, starting at line {}",
            self.source.name, self.line
        )))
    }

    /// Fails if the record of `length` bytes at the front, or its part so far, is larger than
    /// allowed.
    #[inline]
    pub(super) fn check_size(&self, length: usize, line: u64) -> Result<()> {
        if length <= MAX_RECORD {
            return Ok(());
        }
        Err(Error::usage(format!(
            "a record in {} at line {line} is larger than 16 MiB",
            self.source.name
        )))
    }
}

/// The length of the byte order marks that these bytes start with.
#[inline]
pub(super) fn marks_at(bytes: &[u8]) -> usize {
    let starts = bytes.chunks(BYTE_ORDER_MARK.len());
    let marks = starts.take_while(|start| *start == BYTE_ORDER_MARK);
    marks.count() * BYTE_ORDER_MARK.len()
}

/// The length of the line end at `at`: 1 for LF or CR, 2 for CRLF, `None` if the byte after a CR is
/// not there yet.
#[inline]
pub(super) fn line_end(bytes: &[u8], at: usize, at_end: bool) -> Option<usize> {
    match (bytes.get(at), bytes.get(at + 1)) {
        (Some(b'\r'), Some(b'\n')) => Some(2),
        (Some(b'\r'), None) if !at_end => None,
        _ => Some(1),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// Returns at most this many bytes per read.
    struct Slow(io::Cursor<Vec<u8>>, usize);

    impl Read for Slow {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let most = self.1.min(into.len());
            self.0.read(&mut into[..most])
        }
    }

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn decompressed(bytes: &[u8], step: usize) -> io::Result<Vec<u8>> {
        let raw = Slow(io::Cursor::new(bytes.to_vec()), step);
        let (mut plain, _) = decompress(raw)?;
        let mut text = Vec::new();
        plain.read_to_end(&mut text)?;
        Ok(text)
    }

    #[test]
    fn members_follow_each_other() {
        // With an empty member in between, as in block-compressed files.
        let two = [gzip(b"one,"), gzip(b""), gzip(b"two")].concat();
        for step in [1, 2, 3, 7, usize::MAX] {
            assert_eq!(decompressed(&two, step).unwrap(), b"one,two");
            assert_eq!(decompressed(b"plain", step).unwrap(), b"plain");
            assert_eq!(decompressed(b"", step).unwrap(), b"");
        }
    }

    #[test]
    fn damaged_data_is_an_error_and_never_less_text() {
        let text = b"some text, some more text";
        let mut zstd = zstd::Encoder::new(Vec::new(), 0).unwrap();
        // As the command does. Without a checksum, a flipped letter would not be found.
        zstd.include_checksum(true).unwrap();
        zstd.write_all(text).unwrap();
        for whole in [gzip(text), zstd.finish().unwrap()] {
            let text = decompressed(&whole, usize::MAX).unwrap();
            for length in 5..whole.len() {
                assert!(decompressed(&whole[..length], 3).is_err(), "{length}");
            }
            let other = [&whole[..], &whole[..whole.len() - 1]].concat();
            assert!(decompressed(&other, 3).is_err());
            assert!(decompressed(&[&whole[..], b"\0\0more"].concat(), 3).is_err());
            for byte in 0..whole.len() {
                let mut flipped = whole.clone();
                flipped[byte] ^= 0x10;
                if let Ok(other) = decompressed(&flipped, 3) {
                    // A name or a time in the header changed, or it no longer is compressed data.
                    assert!(other == text || other == flipped, "{byte}");
                }
            }
        }
    }
}
