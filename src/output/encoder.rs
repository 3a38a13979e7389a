//! The bytes of an output on their way to its file: compressed by its name, and metered.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use flate2::write::GzEncoder;
use tokio::time::Instant;

use crate::base::meter::Metered;
use crate::layout::Compression;

/// A file that may be compressed.
pub(super) enum Encoder {
    Plain(Metered<File>),
    Gzip(GzEncoder<Metered<File>>, Instant),
    Zstd(zstd::Encoder<'static, Metered<File>>, Instant),
}

/// How long rows may stay in a compressor: a killed program loses them, but every flush makes the
/// compression worse.
const HELD_BACK: Duration = Duration::from_secs(1);

impl Encoder {
    /// Chosen by the file extension. The levels are the libraries' defaults, as for `gzip` and
    /// `zstd`.
    pub(super) fn new(file: Metered<File>, path: &Path) -> io::Result<Self> {
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
    pub(super) fn end(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(_) => Ok(()),
            Self::Gzip(encoder, _) => encoder.try_finish(),
            Self::Zstd(encoder, _) => encoder.do_finish(),
        }
    }

    /// Cuts the end off a file that is not compressed.
    pub(super) fn cut(&mut self, length: u64) {
        if let Self::Plain(file) = self {
            // On a failing disk this may fail, too. Then the file ends within a row.
            let _ = file.inner.set_len(length);
        }
    }

    /// The file.
    pub(super) fn file(&self) -> &Metered<File> {
        match self {
            Self::Plain(file) => file,
            Self::Gzip(encoder, _) => encoder.get_ref(),
            Self::Zstd(encoder, _) => encoder.get_ref(),
        }
    }
}
