//! Bytes from a file or standard input, decompressed and counted.
//!
//! The rest of `input` sees one stream of plain bytes. Compression is detected by a file's first
//! bytes, never by its name.

use std::fs::{File, Metadata};
use std::io::{self, Read, Seek};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::decompress::{self, TrailingGarbage, compression_of};
use super::settings::Input;
use crate::base::error::{Error, Result};
use crate::base::own_file;

/// An open source.
pub(super) struct Source {
    reader: Box<dyn Read + Send>,
    name: String,
    size: Option<u64>,
    mode: u32,
    /// What reading has to wait for.
    waits_for: WaitsFor,
    consumed: Arc<AtomicU64>,
    compressed: bool,
    ignored: TrailingGarbage,
}

impl Source {
    /// Opens the input.
    ///
    /// # Errors
    /// Exit code 2: it does not exist, is a directory or is unreadable.
    pub(super) fn open(input: &Input) -> Result<Self> {
        let ignored = TrailingGarbage::default();
        let path = match input {
            Input::Stdin => {
                let name = "standard input".to_owned();
                let (mode, waits_for) = match stdin_file() {
                    Some(file) => (own_file::mode_of(&file), WaitsFor::Nothing),
                    None => (PIPE, WaitsFor::stream(&io::stdin())),
                };
                return Self::decompressed(
                    Box::new(io::stdin()),
                    name,
                    None,
                    mode,
                    waits_for,
                    ignored,
                );
            }
            Input::File(path) => path,
        };
        let name = format!("`{}`", path.display());
        let (file, metadata) = open_file(path).map_err(|e| unreadable(&name, false, e))?;
        if !metadata.is_file() {
            let waits_for = WaitsFor::stream(&file);
            return Self::decompressed(Box::new(file), name, None, PIPE, waits_for, ignored);
        }
        let mode = own_file::mode_of(&metadata);
        // Files that the system creates as they are read, as in `/proc`, have no size: they are
        // read to their end.
        let size = Some(metadata.len()).filter(|size| *size > 0);
        let raw: Box<dyn Read + Send> = match size {
            None => Box::new(file),
            Some(size) => {
                check(&file, size, &ignored).map_err(|e| unreadable(&name, true, e))?;
                // The size at the start counts: a file that grows is read as it was, and one that
                // shrinks is an error.
                Box::new(Fixed { file, left: size })
            }
        };
        Self::decompressed(raw, name, size, mode, WaitsFor::Nothing, ignored)
    }

    /// Any reader instead of a pipe.
    ///
    /// # Errors
    /// As for [`Self::open`].
    pub(super) fn of_reader(reader: impl Read + Send + 'static) -> Result<Self> {
        let name = "the input".to_owned();
        Self::decompressed(
            Box::new(reader),
            name,
            None,
            PIPE,
            WaitsFor::Unknown,
            TrailingGarbage::default(),
        )
    }

    fn decompressed(
        raw: Box<dyn Read + Send>,
        name: String,
        size: Option<u64>,
        mode: u32,
        waits_for: WaitsFor,
        ignored: TrailingGarbage,
    ) -> Result<Self> {
        let consumed = Arc::new(AtomicU64::new(0));
        let raw = CountedReader {
            inner: raw,
            consumed: Arc::clone(&consumed),
        };
        let (reader, compression) =
            decompress::decompress(raw, &ignored).map_err(|e| unreadable(&name, true, e))?;
        Ok(Self {
            reader,
            name,
            size,
            mode,
            waits_for,
            consumed,
            compressed: compression.is_some(),
            ignored,
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

    /// Its name in messages: its path in backticks, or standard input.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Its size in bytes as stored, if it is a file.
    pub(super) const fn size(&self) -> Option<u64> {
        self.size
    }

    /// Its permission bits.
    pub(super) const fn mode(&self) -> u32 {
        self.mode
    }

    /// Whether something can be read now or within this time.
    pub(super) fn has_more(&self, within: Duration) -> bool {
        match &self.waits_for {
            WaitsFor::Nothing => true,
            WaitsFor::Stream(stream) => is_readable(stream, within),
            WaitsFor::Unknown => false,
        }
    }

    /// Whether bytes after compressed data are ignored.
    pub(super) fn ignored(&self) -> TrailingGarbage {
        self.ignored.clone()
    }

    /// The position in the stored bytes while `held` plain bytes are not used yet. For compressed
    /// sources it is known only by the block, and the held bytes are not subtracted.
    pub(super) fn position(&self, held: usize) -> u64 {
        let consumed = self.consumed.load(Ordering::Relaxed);
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

/// A pipe restricts nobody, and does not say who may read its content.
const PIPE: u32 = 0o666;

/// The file that a shell opened for us as standard input; `None` for a pipe.
#[must_use]
pub(crate) fn stdin_file() -> Option<Metadata> {
    let duplicate = io::stdin().as_fd().try_clone_to_owned();
    let metadata = duplicate.and_then(|file| File::from(file).metadata());
    metadata.ok().filter(Metadata::is_file)
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
        return Error::usage(format!("cannot read {name}")).because(error);
    }
    if error.kind() == io::ErrorKind::UnexpectedEof {
        return Error::usage(format!("cannot decompress {name}: it ends too early"))
            .hint("it is incomplete: make or copy it again");
    }
    Error::usage(format!("cannot decompress {name}: it is damaged")).because(error)
}

/// A compressed file is read once to its end before the run starts, unless it is this large, so
/// that damage is found before rows are paid for. In a larger file, and in a stream, damage is
/// found when it is reached.
const CHECKED: u64 = 1024 * 1024 * 1024;
/// From this size on, the check takes seconds.
const SLOW: u64 = 64 * 1024 * 1024;

/// Whether opening this input takes long, because it is compressed and checked first.
#[must_use]
pub(crate) fn is_checked_for_long(input: &Input) -> bool {
    let Input::File(path) = input else {
        return false;
    };
    let checked = || {
        let (file, metadata) = open_file(path)?;
        let size = metadata.len();
        Ok::<_, io::Error>((SLOW..CHECKED).contains(&size) && is_compressed(&file)?)
    };
    checked().unwrap_or(false)
}

/// Reads a file to its end if it is compressed, and returns to its start.
fn check(mut file: &File, size: u64, ignored: &TrailingGarbage) -> io::Result<()> {
    if size >= CHECKED || !is_compressed(file)? {
        return Ok(());
    }
    let whole = Fixed {
        file: file.try_clone()?,
        left: size,
    };
    decompress::check(whole, ignored)?;
    file.rewind()
}

/// Whether a file that was just opened is compressed.
fn is_compressed(mut file: &File) -> io::Result<bool> {
    let mut start = Vec::new();
    file.take(4).read_to_end(&mut start)?;
    file.rewind()?;
    Ok(compression_of(&start).is_some())
}

struct CountedReader<R> {
    inner: R,
    consumed: Arc<AtomicU64>,
}

impl<R: Read> Read for CountedReader<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(into)?;
        self.consumed.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
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
