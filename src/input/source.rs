//! Bytes from a file or standard input, decompressed, counted.
//!
//! The rest of `input` sees one stream of plain bytes. Compression is told by a file's first bytes, never by its name.

use std::fs::{File, Metadata};
use std::io::{self, Read, Seek};
#[cfg(unix)]
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

#[cfg(unix)]
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Input;
use super::packed::{self, Compression, Ignored};
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
    ignored: Ignored,
}

impl Source {
    /// Opens the input.
    ///
    /// # Errors
    /// Exit code 2: it is missing, a directory or unreadable.
    pub(super) fn open(input: &Input) -> Result<Self> {
        let ignored = Ignored::default();
        let path = match input {
            Input::Stdin => {
                let name = "standard input".to_owned();
                let file = mode_of_stdin();
                let (mode, waits_for) = match file {
                    Some(mode) => (mode, WaitsFor::Nothing),
                    None => (PIPE, WaitsFor::stream(&io::stdin())),
                };
                return Self::unpacked(Box::new(io::stdin()), name, None, mode, waits_for, ignored);
            }
            Input::File(path) => path,
        };
        let name = format!("`{}`", path.display());
        let (file, metadata) = open_file(path).map_err(|e| unreadable(&name, false, e))?;
        if !metadata.is_file() {
            let waits_for = WaitsFor::stream(&file);
            return Self::unpacked(Box::new(file), name, None, PIPE, waits_for, ignored);
        }
        let mode = own_file::mode_of(&metadata);
        // Files that the system makes up as they are read, as in `/proc`, have no size: they end where they end.
        let size = Some(metadata.len()).filter(|size| *size > 0);
        let raw: Box<dyn Read + Send> = match size {
            None => Box::new(file),
            Some(size) => {
                check(&file, size, &ignored).map_err(|e| unreadable(&name, true, e))?;
                // The size at the start counts: a file that grows is read as it was, one that shrinks is an error.
                Box::new(Fixed { file, left: size })
            }
        };
        Self::unpacked(raw, name, size, mode, WaitsFor::Nothing, ignored)
    }

    /// Any reader in the place of a pipe.
    ///
    /// # Errors
    /// As for [`Self::open`].
    pub(super) fn of_reader(reader: impl Read + Send + 'static) -> Result<Self> {
        let name = "the input".to_owned();
        Self::unpacked(
            Box::new(reader),
            name,
            None,
            PIPE,
            WaitsFor::Unknown,
            Ignored::default(),
        )
    }

    fn unpacked(
        raw: Box<dyn Read + Send>,
        name: String,
        size: Option<u64>,
        mode: u32,
        waits_for: WaitsFor,
        ignored: Ignored,
    ) -> Result<Self> {
        let consumed = Arc::new(AtomicU64::new(0));
        let raw = Counted {
            inner: raw,
            consumed: Arc::clone(&consumed),
        };
        let (reader, compression) =
            packed::unpack(raw, &ignored).map_err(|e| unreadable(&name, true, e))?;
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
                        "{} became shorter while it was read",
                        self.name
                    )));
                }
                read => {
                    return read.map_err(|e| unreadable(&self.name, self.compressed, e));
                }
            }
        }
    }

    /// What messages call it: its path in backticks, or standard input.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Its size in bytes as stored, where it is a file.
    pub(super) const fn size(&self) -> Option<u64> {
        self.size
    }

    /// Who may read and write it.
    pub(super) const fn mode(&self) -> u32 {
        self.mode
    }

    /// Whether something can be read now or within this time.
    pub(super) fn has_more(&self, within: Duration) -> bool {
        match &self.waits_for {
            WaitsFor::Nothing => true,
            #[cfg(unix)]
            WaitsFor::Stream(stream) => is_readable(stream, within),
            WaitsFor::Unknown => false,
        }
    }

    /// Whether bytes behind compressed data are ignored.
    pub(super) fn ignored(&self) -> Ignored {
        self.ignored.clone()
    }

    /// How many bytes of what is stored are used up when `held` plain bytes still wait. For compressed sources that is
    /// only known by the block: what waits is not counted off.
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
    #[cfg(unix)]
    Stream(OwnedFd),
    /// Nobody knows.
    Unknown,
}

impl WaitsFor {
    #[cfg(unix)]
    fn stream(stream: &impl AsFd) -> Self {
        let stream = stream.as_fd().try_clone_to_owned();
        stream.map_or(Self::Unknown, Self::Stream)
    }

    #[cfg(not(unix))]
    fn stream<T>(_: &T) -> Self {
        Self::Unknown
    }
}

#[cfg(unix)]
fn is_readable(stream: &OwnedFd, within: Duration) -> bool {
    let mut polled = [PollFd::new(stream, PollFlags::IN)];
    let within = Timespec::try_from(within).ok();
    // Its end counts as well.
    within.is_some_and(|within| poll(&mut polled, Some(&within)).is_ok_and(|ready| ready > 0))
}

/// A pipe keeps nobody out, and says nothing of who may read what comes out of it.
const PIPE: u32 = 0o666;

/// Of a file that a shell opened for us, who may read it; `None` of a pipe.
#[cfg(unix)]
fn mode_of_stdin() -> Option<u32> {
    let duplicate = io::stdin().as_fd().try_clone_to_owned();
    let metadata = duplicate
        .and_then(|file| File::from(file).metadata())
        .ok()?;
    metadata.is_file().then(|| own_file::mode_of(&metadata))
}

#[cfg(not(unix))]
const fn mode_of_stdin() -> Option<u32> {
    None
}

fn open_file(path: &Path) -> io::Result<(File, Metadata)> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    Ok((file, metadata))
}

/// A source that cannot be read, or not be unpacked.
fn unreadable(name: &str, compressed: bool, error: io::Error) -> Error {
    // What the system says has a number; what a decoder says has none.
    let damaged = compressed && error.raw_os_error().is_none();
    if !damaged {
        return Error::usage(format!("cannot read {name}")).because(error);
    }
    if error.kind() == io::ErrorKind::UnexpectedEof {
        return Error::usage(format!("cannot unpack {name}: it ends too soon"));
    }
    Error::usage(format!("cannot unpack {name}: it is damaged")).because(error)
}

/// A compressed file is read once to its end before the run starts, unless it is this large: damage in it is found before
/// rows are paid for. Of a larger one, and of a stream, it is found when it is reached.
const CHECKED: u64 = 1024 * 1024 * 1024;
/// From this size on the check takes seconds.
const SLOW: u64 = 64 * 1024 * 1024;

/// Whether opening this input takes long, as it is compressed and checked first.
#[must_use]
pub(crate) fn is_checked_for_long(input: &Input) -> bool {
    let Input::File(path) = input else {
        return false;
    };
    let checked = || {
        let (file, metadata) = open_file(path)?;
        let size = metadata.len();
        Ok::<_, io::Error>((SLOW..CHECKED).contains(&size) && is_packed(&file)?)
    };
    checked().unwrap_or(false)
}

/// Reads a file to its end if it is compressed, and goes back to its start.
fn check(mut file: &File, size: u64, ignored: &Ignored) -> io::Result<()> {
    if size >= CHECKED || !is_packed(file)? {
        return Ok(());
    }
    let whole = Fixed {
        file: file.try_clone()?,
        left: size,
    };
    packed::check(whole, ignored)?;
    file.rewind()
}

/// Whether a file that was just opened is compressed.
fn is_packed(mut file: &File) -> io::Result<bool> {
    let mut start = Vec::new();
    file.take(4).read_to_end(&mut start)?;
    file.rewind()?;
    Ok(Compression::of(&start).is_some())
}

struct Counted<R> {
    inner: R,
    consumed: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
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
#[error("the file became shorter while it was read")]
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
