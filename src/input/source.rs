//! Bytes from a file or standard input, decompressed, counted.
//!
//! The rest of `input` sees one stream of plain bytes. Compression is told by a file's first bytes, never by its name.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Input;
use crate::error::{Error, Result};
use crate::own_file;

/// An open source.
pub(super) struct Source {
    reader: Box<dyn Read + Send>,
    name: String,
    size: Option<u64>,
    mode: u32,
    consumed: Arc<AtomicU64>,
    compressed: bool,
}

impl Source {
    /// Opens the input.
    ///
    /// # Errors
    /// Exit code 2: it is missing, a directory or unreadable.
    pub(super) fn open(input: &Input) -> Result<Self> {
        let consumed = Arc::new(AtomicU64::new(0));
        let (raw, name, size, mode): (Box<dyn Read + Send>, _, _, _) = match input {
            Input::Stdin => (
                Box::new(io::stdin()),
                "standard input".to_owned(),
                None,
                mode_of_stdin(),
            ),
            Input::File(path) => {
                let name = format!("`{}`", path.display());
                let (file, metadata) = open_file(path)
                    .map_err(|e| Error::usage(format!("cannot read {name}")).because(e))?;
                let mode = own_file::mode_of(&metadata);
                if metadata.is_file() {
                    // The size at the start counts: a file that grows is read as it was, one that shrinks is an error.
                    let left = metadata.len();
                    (Box::new(Fixed { file, left }), name, Some(left), mode)
                } else {
                    (Box::new(file), name, None, PIPE)
                }
            }
        };
        let mut raw = Counted {
            inner: raw,
            consumed: Arc::clone(&consumed),
        };
        let unreadable = |e: io::Error| Error::usage(format!("cannot read {name}")).because(e);
        let magic = first_bytes(&mut raw).map_err(unreadable)?;
        let compression = Compression::of(&magic);
        let whole = io::Cursor::new(magic).chain(raw);
        let reader: Box<dyn Read + Send> = match compression {
            None => Box::new(whole),
            Some(Compression::Gzip) => Box::new(flate2::read::MultiGzDecoder::new(whole)),
            Some(Compression::Zstd) => {
                Box::new(zstd::stream::read::Decoder::new(whole).map_err(unreadable)?)
            }
        };
        Ok(Self {
            reader,
            name,
            size,
            mode,
            consumed,
            compressed: compression.is_some(),
        })
    }

    /// Any reader, for tests.
    #[cfg(test)]
    pub(super) fn of_reader(reader: impl Read + Send + 'static) -> Self {
        Self {
            reader: Box::new(reader),
            name: "the input".to_owned(),
            size: None,
            mode: PIPE,
            consumed: Arc::default(),
            compressed: false,
        }
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
                    return read.map_err(|e| {
                        Error::usage(format!("cannot read {}", self.name)).because(e)
                    });
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

/// A pipe keeps nobody out, and says nothing of who may read what comes out of it.
const PIPE: u32 = 0o666;

/// Of a file that a shell opened for us, who may read it; otherwise as [`PIPE`].
#[cfg(unix)]
fn mode_of_stdin() -> u32 {
    use std::os::fd::AsFd;
    let duplicate = io::stdin().as_fd().try_clone_to_owned();
    let metadata = duplicate.and_then(|file| File::from(file).metadata());
    metadata.map_or(PIPE, |metadata| {
        if metadata.is_file() {
            own_file::mode_of(&metadata)
        } else {
            PIPE
        }
    })
}

#[cfg(not(unix))]
const fn mode_of_stdin() -> u32 {
    PIPE
}

fn open_file(path: &Path) -> io::Result<(File, Metadata)> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    Ok((file, metadata))
}

enum Compression {
    Gzip,
    Zstd,
}

impl Compression {
    fn of(magic: &[u8]) -> Option<Self> {
        match magic {
            [0x1f, 0x8b, ..] => Some(Self::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Self::Zstd),
            _ => None,
        }
    }
}

/// The first four bytes, fewer where there are no more.
fn first_bytes(reader: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut magic = Vec::with_capacity(4);
    reader.take(4).read_to_end(&mut magic)?;
    Ok(magic)
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
