//! Counts and hashes the bytes that pass through readers and writers, as they are in the file, compressed or not: `b3sum` gives the
//! same hash. It must not know what the bytes mean.

use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};

use super::threads::lock;

/// Counts and hashes bytes. Clones share the counter.
#[derive(Debug, Clone, Default)]
pub(crate) struct Meter(Arc<Mutex<PassedBytes>>);

#[derive(Debug, Default)]
struct PassedBytes {
    count: u64,
    hasher: blake3::Hasher,
    /// Nobody needs the hash.
    is_only_counted: bool,
    /// The whole file has passed.
    is_whole: bool,
}

impl Meter {
    /// Puts this meter over a reader or writer.
    pub(crate) const fn over<T>(self, inner: T) -> Metered<T> {
        Metered { inner, meter: self }
    }

    /// How many bytes have passed.
    pub(crate) fn count(&self) -> u64 {
        lock(&self.0).count
    }

    /// From now on bytes are counted and not hashed.
    pub(crate) fn only_count(&self) {
        lock(&self.0).is_only_counted = true;
    }

    /// The whole file has passed.
    pub(crate) fn end(&self) {
        lock(&self.0).is_whole = true;
    }

    /// The BLAKE3 hash in hexadecimal, if the whole file has passed.
    pub(crate) fn hash(&self) -> Option<String> {
        let passed = lock(&self.0);
        let is_hashed = passed.is_whole && !passed.is_only_counted;
        is_hashed.then(|| passed.hasher.finalize().to_string())
    }

    fn add(&self, bytes: &[u8]) {
        let mut passed = lock(&self.0);
        passed.count += bytes.len() as u64;
        if !passed.is_only_counted {
            passed.hasher.update(bytes);
        }
    }
}

/// A reader or writer with a meter.
pub(crate) struct Metered<T> {
    /// What is read or written.
    pub(crate) inner: T,
    /// Counts and hashes what passes.
    pub(crate) meter: Meter,
}

impl<T: Read> Read for Metered<T> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(into)?;
        self.meter.add(into.get(..read).unwrap_or_default());
        Ok(read)
    }
}

impl<T: Write> Write for Metered<T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.meter.add(bytes.get(..written).unwrap_or_default());
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// The hashes of the files that a run read to the end or completed, for programs.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct FileHashes {
    /// Of the input.
    pub(crate) input: Option<String>,
    /// Of the output.
    pub(crate) output: Option<String>,
    /// Of the rejects.
    pub(crate) rejects: Option<String>,
    /// Of the changes.
    pub(crate) changes: Option<String>,
}
