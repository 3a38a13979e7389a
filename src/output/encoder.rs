//! Compression of an output by its name.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use flate2::write::GzEncoder;
use tokio::time::Instant;

use crate::layout::Compression;

/// A file that may be compressed.
pub(super) enum Encoder {
    Plain(File),
    Gzip(GzEncoder<File>, Instant),
    Zstd(zstd::Encoder<'static, File>, Instant),
}

/// How long rows may stay in a compressor: a killed program loses them, but every flush makes the
/// compression worse.
const HELD_BACK: Duration = Duration::from_secs(1);

impl Encoder {
    /// Chosen by the file extension. The levels are the libraries' defaults, as for `gzip` and
    /// `zstd`.
    pub(super) fn new(file: File, path: &Path) -> io::Result<Self> {
        let now = Instant::now();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        Ok(match Compression::split_name(&name).1 {
            Some(Compression::Gzip) => {
                Self::Gzip(GzEncoder::new(file, flate2::Compression::default()), now)
            }
            Some(Compression::Zstd) => {
                let level = zstd::DEFAULT_COMPRESSION_LEVEL;
                Self::Zstd(zstd::Encoder::new(file, level)?, now)
            }
            None => Self::Plain(file),
        })
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let (encoder, flushed): (&mut dyn Write, _) = match self {
            Self::Plain(file) => return file.write_all(bytes),
            Self::Gzip(encoder, flushed) => (encoder, flushed),
            Self::Zstd(encoder, flushed) => (encoder, flushed),
        };
        encoder.write_all(bytes)?;
        if flushed.elapsed() >= HELD_BACK {
            encoder.flush()?;
            *flushed = Instant::now();
        }
        Ok(())
    }

    /// Writes what the compressor still holds. Nothing may be written afterwards.
    pub(super) fn end(&mut self) -> io::Result<&File> {
        match self {
            Self::Plain(file) => Ok(file),
            Self::Gzip(encoder, _) => {
                encoder.try_finish()?;
                Ok(encoder.get_ref())
            }
            Self::Zstd(encoder, _) => {
                encoder.do_finish()?;
                Ok(encoder.get_ref())
            }
        }
    }

    pub(super) fn finish(self) -> io::Result<File> {
        match self {
            Self::Plain(file) => Ok(file),
            Self::Gzip(encoder, _) => encoder.finish(),
            Self::Zstd(encoder, _) => encoder.finish(),
        }
    }
}
