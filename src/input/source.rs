//! Bytes from a file or standard input, decompressed and metered.
//!
//! The rest of `input` sees one stream of plain bytes. Compression is detected by a file's first
//! bytes, never by its name. As with gzip itself, members follow each other.

use std::fs::{File, Metadata};
use std::io::{self, BufReader, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use flate2::bufread::MultiGzDecoder;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::settings::Input;
use crate::base::error::{Error, Result};
use crate::base::meter::Meter;
use crate::base::own_file::{self, Readers};
use crate::layout::Compression;

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
    /// Of its bytes as stored.
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
                return Self::decompressed(io::stdin(), name, (None, readers), waits_for);
            }
            Input::File(path) => path,
        };
        let name = format!("`{}`", path.display());
        let (file, metadata) = open_file(path).map_err(|e| unreadable(&name, false, e))?;
        if !metadata.is_file() {
            let waits_for = WaitsFor::stream(&file);
            return Self::decompressed(file, name, (None, Readers::EVERYBODY), waits_for);
        }
        let readers = Readers::of(&metadata);
        match metadata.len() {
            // Files that the system creates as they are read, as in `/proc`, have no size: they are read to their end.
            0 => Self::decompressed(file, name, (None, readers), WaitsFor::Nothing),
            // The size at the start counts: a file that grows is read as it was, and one that shrinks is an error.
            left => {
                let fixed = Fixed { file, left };
                Self::decompressed(fixed, name, (Some(left), readers), WaitsFor::Nothing)
            }
        }
    }

    /// Any reader instead of a pipe.
    ///
    /// # Errors
    /// As for [`Self::open`].
    pub(super) fn of_reader(reader: impl Read + Send + 'static) -> Result<Self> {
        let name = "the input".to_owned();
        Self::decompressed(reader, name, (None, Readers::EVERYBODY), WaitsFor::Unknown)
    }

    fn decompressed(
        raw: impl Read + Send + 'static,
        name: String,
        (size, readers): (Option<u64>, Readers),
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
        loop {
            match self.reader.read(into) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e)
                    if e.get_ref()
                        .is_some_and(<dyn std::error::Error + Send + Sync>::is::<Shrunk>) =>
                {
                    return Err(Error::stopped(format!(
                        "{} became shorter while it was being read",
                        self.name
                    )));
                }
                read => {
                    return read.map_err(|e| unreadable(&self.name, self.compressed, e));
                }
            }
        }
    }

    /// Whether something can be read now or within this time.
    pub(super) fn has_more(&self, within: Duration) -> bool {
        match &self.waits_for {
            WaitsFor::Nothing => true,
            WaitsFor::Stream(stream) => is_readable(stream, within),
            WaitsFor::Unknown => false,
        }
    }

    /// The position in the stored bytes while `held` plain bytes are not used yet. For compressed
    /// sources it is known only by the block, and the held bytes are not subtracted.
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

/// The file that a shell opened for us as standard input; `None` for a pipe.
pub(crate) fn stdin_file() -> Option<Metadata> {
    let duplicate = io::stdin().as_fd().try_clone_to_owned();
    let metadata = duplicate.and_then(|file| File::from(file).metadata());
    metadata.ok().filter(Metadata::is_file)
}

/// Fails if this file is not there or may not be read: what is wrong with an input is said before what is wrong with an output.
/// A pipe is not opened, as it can be opened only once.
pub(crate) fn refuse_missing(input: &Input) -> Result<()> {
    let Input::File(path) = input else {
        return Ok(());
    };
    let there = match path.metadata() {
        Ok(metadata) if metadata.is_file() || metadata.is_dir() => open_file(path).map(drop),
        there => there.map(drop),
    };
    there.map_err(|error| unreadable(&format!("`{}`", path.display()), false, error))
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
    let damaged = compressed && error.raw_os_error().is_none();
    if !damaged {
        let cannot = Error::usage(format!("cannot read {name}")).because(error);
        let why = own_file::not_expanded(Path::new(name.trim_matches('`')));
        return match fetch(name) {
            None => why.into_iter().fold(cannot, Error::hint),
            Some(command) => cannot.hint(format!(
                "rescore reads files and standard input: `{command} | rescore run - -o scored.csv`"
            )),
        };
    }
    if error.kind() == io::ErrorKind::UnexpectedEof {
        return Error::usage(format!("cannot decompress {name}: it ends too early"))
            .hint("it is incomplete: make or copy it again");
    }
    // The decoder's error has only words.
    if error.to_string().contains("too much memory") {
        return Error::usage(format!(
            "cannot decompress {name}: it was packed by `zstd --long`"
        ))
        .because(error)
        .hint("unpack it with `zstd -dc --long=31`, and pass what that writes to `rescore run -`");
    }
    Error::usage(format!("cannot decompress {name}: it is damaged")).because(error)
}

/// The command that writes what an address names to standard output, if a name in backticks is an address.
fn fetch(name: &str) -> Option<String> {
    let address = name.trim_matches('`');
    let command = match address.split_once("://")?.0 {
        "s3" => format!("aws s3 cp '{address}' -"),
        "gs" => format!("gcloud storage cat '{address}'"),
        "hdfs" => format!("hdfs dfs -cat '{address}'"),
        "http" | "https" | "ftp" | "sftp" => format!("curl -sSf '{address}'"),
        _ => "a program that reads it".to_owned(),
    };
    Some(command)
}

/// A file up to the size that it had when it was opened.
struct Fixed {
    file: File,
    left: u64,
}

#[derive(Debug, thiserror::Error)]
#[error("the file became shorter while it was being read")]
struct Shrunk;

impl Read for Fixed {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() || self.left == 0 {
            return Ok(0);
        }
        let most = usize::try_from(self.left)
            .unwrap_or(usize::MAX)
            .min(into.len());
        let read = self.file.read(into.get_mut(..most).unwrap_or_default())?;
        if read == 0 {
            return Err(io::Error::other(Shrunk));
        }
        self.left -= read as u64;
        Ok(read)
    }
}

/// What every gzip member starts with.
const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

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
        Some(Compression::Zstd) => Box::new(zstd::stream::read::Decoder::with_buffer(whole)?),
    };
    Ok((plain, compression))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
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
