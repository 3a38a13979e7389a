//! Decompression.
//!
//! As with gzip itself, members follow each other, and bytes after the last member that do not
//! start another one are ignored. This file must not know where the bytes come from.

use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use flate2::bufread::GzDecoder;

use crate::layout::Compression;

/// Whether bytes after the compressed data were ignored. It is known once the end has been read.
#[derive(Debug, Clone, Default)]
pub(crate) struct TrailingGarbage(Arc<AtomicBool>);

impl TrailingGarbage {
    /// Whether there were any so far.
    #[must_use]
    pub(crate) fn any(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// What every gzip member starts with.
const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
/// What follows the first byte (0x50 to 0x5f) of a zstd frame without data, with which the output
/// of `pzstd` starts.
const SKIPPABLE: &[u8] = &[0x2a, 0x4d, 0x18];

/// The compression of a file with these first bytes.
pub(super) fn compression_of(bytes: &[u8]) -> Option<Compression> {
    let skippable =
        bytes.get(1..4) == Some(SKIPPABLE) && bytes.first().is_some_and(|byte| byte >> 4 == 5);
    if bytes.starts_with(GZIP) {
        Some(Compression::Gzip)
    } else {
        (bytes.starts_with(ZSTD) || skippable).then_some(Compression::Zstd)
    }
}

/// The decompressed bytes, and how they were compressed, if at all.
///
/// # Errors
/// The first bytes cannot be read.
pub(super) fn decompress(
    raw: impl Read + Send + 'static,
    ignored: &TrailingGarbage,
) -> io::Result<(Box<dyn Read + Send>, Option<Compression>)> {
    let mut raw = PeekReader::new(raw);
    let compression = compression_of(raw.peek(ZSTD.len())?);
    let plain: Box<dyn Read + Send> = match compression {
        None => Box::new(raw),
        Some(Compression::Gzip) => Box::new(GzipMembers {
            member: Some(GzDecoder::new(raw)),
            ignored: ignored.clone(),
        }),
        Some(Compression::Zstd) => Box::new(zstd::stream::read::Decoder::with_buffer(raw)?),
    };
    Ok((plain, compression))
}

/// Reads compressed bytes to the end, without keeping the result.
///
/// # Errors
/// They are damaged, cut off, or cannot be read.
pub(super) fn check(raw: impl Read + Send + 'static, ignored: &TrailingGarbage) -> io::Result<()> {
    let (mut plain, _) = decompress(raw, ignored)?;
    io::copy(&mut plain, &mut io::sink()).map(drop)
}

/// A reader with a look at the next bytes.
struct PeekReader<R> {
    /// Bytes that were looked at; some may have been read since.
    seen: Vec<u8>,
    taken: usize,
    rest: BufReader<R>,
}

impl<R: Read> PeekReader<R> {
    fn new(raw: R) -> Self {
        Self {
            seen: Vec::new(),
            taken: 0,
            rest: BufReader::new(raw),
        }
    }

    /// The next bytes, without consuming them; fewer at the end.
    fn peek(&mut self, bytes: usize) -> io::Result<&[u8]> {
        self.seen.drain(..self.taken);
        self.taken = 0;
        let missing = bytes.saturating_sub(self.seen.len()) as u64;
        self.rest
            .by_ref()
            .take(missing)
            .read_to_end(&mut self.seen)?;
        Ok(&self.seen)
    }
}

impl<R: Read> Read for PeekReader<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.seen.len() {
            return self.rest.read(into);
        }
        let read = self.fill_buf()?.read(into)?;
        self.consume(read);
        Ok(read)
    }
}

impl<R: Read> BufRead for PeekReader<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        match self.seen.get(self.taken..) {
            Some(seen) if !seen.is_empty() => Ok(seen),
            _ => self.rest.fill_buf(),
        }
    }

    fn consume(&mut self, bytes: usize) {
        if self.taken < self.seen.len() {
            self.taken += bytes;
        } else {
            self.rest.consume(bytes);
        }
    }
}

/// Consecutive gzip members.
struct GzipMembers<R: Read> {
    /// The current member; `None` after the last.
    member: Option<GzDecoder<PeekReader<R>>>,
    ignored: TrailingGarbage,
}

impl<R: Read> Read for GzipMembers<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.member {
            let read = member.read(into)?;
            if read > 0 || into.is_empty() {
                return Ok(read);
            }
            let next = member.get_mut().peek(GZIP.len())?;
            let (another, over) = (next == GZIP, next.is_empty());
            let ended = self.member.take().filter(|_| another);
            self.member = ended.map(|member| GzDecoder::new(member.into_inner()));
            if !another && !over {
                self.ignored.0.store(true, Ordering::Relaxed);
            }
        }
        Ok(0)
    }
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

    /// The result, and whether bytes were ignored.
    fn decompressed(bytes: &[u8], step: usize) -> io::Result<(Vec<u8>, bool)> {
        let ignored = TrailingGarbage::default();
        let raw = Slow(io::Cursor::new(bytes.to_vec()), step);
        let (mut plain, _) = decompress(raw, &ignored)?;
        let mut text = Vec::new();
        plain.read_to_end(&mut text)?;
        Ok((text, ignored.any()))
    }

    #[test]
    fn members_follow_each_other_and_bytes_after_the_last_are_ignored() {
        // With an empty member in between, as in block-compressed files.
        let two = [gzip(b"one,"), gzip(b""), gzip(b"two")].concat();
        for step in [1, 2, 3, 7, usize::MAX] {
            assert_eq!(
                decompressed(&two, step).unwrap(),
                (b"one,two".to_vec(), false)
            );
            for behind in [&b"\0"[..], &[0; 512], b"text", b"\x1f", b"\n"] {
                let bytes = [&two, behind].concat();
                assert_eq!(
                    decompressed(&bytes, step).unwrap(),
                    (b"one,two".to_vec(), true)
                );
            }
            assert_eq!(
                decompressed(b"plain", step).unwrap(),
                (b"plain".to_vec(), false)
            );
            assert_eq!(decompressed(b"", step).unwrap(), (Vec::new(), false));
        }
    }

    #[test]
    fn zstd_data_may_start_with_skippable_frames() {
        let skipped = |mark: u8| [&[mark], SKIPPABLE, &[3, 0, 0, 0], b"abc"].concat();
        let data = zstd::encode_all(&b"some text"[..], 0).unwrap();
        let bytes = [skipped(0x50), skipped(0x5f), data].concat();
        for step in [1, 7, usize::MAX] {
            assert_eq!(decompressed(&bytes, step).unwrap().0, b"some text");
        }
        assert_eq!(compression_of(b"P*M\x19"), None);
        assert_eq!(compression_of(b"`*M\x18"), None);
    }

    #[test]
    fn damaged_data_is_an_error_and_never_less_text() {
        let text = b"some text, some more text";
        let mut zstd = zstd::Encoder::new(Vec::new(), 0).unwrap();
        // As the command does. Without a checksum, nobody could find a flipped letter.
        zstd.include_checksum(true).unwrap();
        zstd.write_all(text).unwrap();
        for whole in [gzip(text), zstd.finish().unwrap()] {
            let (text, _) = decompressed(&whole, usize::MAX).unwrap();
            for length in 5..whole.len() {
                assert!(decompressed(&whole[..length], 3).is_err(), "{length}");
            }
            let other = [&whole[..], &whole[..whole.len() - 1]].concat();
            assert!(decompressed(&other, 3).is_err());
            for byte in 0..whole.len() {
                let mut flipped = whole.clone();
                flipped[byte] ^= 0x10;
                if let Ok((other, _)) = decompressed(&flipped, 3) {
                    // A name or a time in the header changed, or it no longer is compressed data.
                    assert!(other == text || other == flipped, "{byte}");
                }
            }
        }
    }
}
