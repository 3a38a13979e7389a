//! Counts the distinct requests among many, exactly and in bounded memory.
//!
//! A request is represented by a hash of 128 bits. Among ten million requests, the chance that two different ones share a
//! hash is below one in 10²⁴, and the count would then be too low by one call. Hashes go to partitions by their first bits; the full blocks of all
//! partitions go to one temporary file without a name, which is gone with the process however it ends. At the end each
//! partition is sorted by itself.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};

use crate::base::error::{Error, Result, shown};

/// Bits that choose the partition: at a billion requests, one takes 16 MB when it is sorted.
const PARTITION_BITS: u32 = 10;
/// Hashes in a block. All partitions together hold up to 4 MiB of them, so up to some 200,000 requests need no file.
const BLOCK: usize = 256;
/// Bytes of a hash.
const BYTES: usize = size_of::<u128>();

/// Counts different hashes.
pub(super) struct DistinctCounter {
    partitions: Vec<Partition>,
    spilled: Option<SpilledBlocks>,
}

#[derive(Default)]
struct Partition {
    /// Hashes that are in no block of the file.
    last: Vec<u128>,
    /// Its blocks in the file.
    blocks: Vec<u32>,
}

/// Full blocks in a temporary file.
struct SpilledBlocks {
    file: File,
    blocks: u32,
    bytes: Vec<u8>,
}

impl DistinctCounter {
    pub(super) fn new() -> Self {
        let partitions = (0..1 << PARTITION_BITS).map(|_| Partition::default());
        Self {
            partitions: partitions.collect(),
            spilled: None,
        }
    }

    /// Adds a hash.
    ///
    /// # Errors
    /// Exit code 3: the temporary file cannot be written.
    pub(super) fn add(&mut self, hash: [u8; BYTES]) -> Result<()> {
        let hash = u128::from_be_bytes(hash);
        let place = usize::try_from(hash >> (u128::BITS - PARTITION_BITS)).unwrap_or(0);
        let Some(partition) = self.partitions.get_mut(place) else {
            return Ok(());
        };
        partition.last.push(hash);
        if partition.last.len() < BLOCK {
            return Ok(());
        }
        let spilled = match &mut self.spilled {
            Some(spilled) => spilled,
            none => none.insert(SpilledBlocks::new()?),
        };
        partition.blocks.push(spilled.put(&partition.last)?);
        partition.last.clear();
        Ok(())
    }

    /// How many different hashes were added.
    ///
    /// # Errors
    /// Exit code 3: the temporary file cannot be read.
    pub(super) fn count(mut self) -> Result<u64> {
        let mut count = 0;
        for partition in self.partitions {
            let mut hashes = partition.last;
            if let Some(spilled) = &mut self.spilled {
                for block in partition.blocks {
                    spilled.read(block, &mut hashes)?;
                }
            }
            hashes.sort_unstable();
            hashes.dedup();
            count += hashes.len() as u64;
        }
        Ok(count)
    }
}

impl SpilledBlocks {
    fn new() -> Result<Self> {
        Ok(Self {
            file: tempfile::tempfile().map_err(cannot)?,
            blocks: 0,
            bytes: Vec::with_capacity(BLOCK * BYTES),
        })
    }

    /// Writes a block, and returns its number.
    fn put(&mut self, hashes: &[u128]) -> Result<u32> {
        self.bytes.clear();
        for hash in hashes {
            self.bytes.extend_from_slice(&hash.to_ne_bytes());
        }
        self.file.write_all(&self.bytes).map_err(cannot)?;
        self.blocks += 1;
        Ok(self.blocks - 1)
    }

    /// Adds the hashes of a block to others.
    fn read(&mut self, block: u32, to: &mut Vec<u128>) -> Result<()> {
        let size = BLOCK * BYTES;
        self.bytes.resize(size, 0);
        let start = SeekFrom::Start(u64::from(block) * size as u64);
        self.file.seek(start).map_err(cannot)?;
        self.file.read_exact(&mut self.bytes).map_err(cannot)?;
        let (hashes, _) = self.bytes.as_chunks();
        to.extend(hashes.iter().map(|hash| u128::from_ne_bytes(*hash)));
        Ok(())
    }
}

/// The error for the temporary file. It names the directory, which the user did not choose.
fn cannot(error: std::io::Error) -> Error {
    let directory = std::env::temp_dir();
    Error::stopped(format!(
        "cannot use a temporary file in `{}`, where requests are compared to find those that repeat",
        shown(&directory)
    ))
    .because(error)
    .hint("free space there, or name another directory with the variable `TMPDIR`")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Hashes that are spread as evenly as those of requests.
    fn hashes(seed: u64, number: usize, of: u64) -> Vec<[u8; BYTES]> {
        let mut random = fastrand::Rng::with_seed(seed);
        let hash = |user: u64| {
            let mut random = fastrand::Rng::with_seed(user);
            random.u128(..).to_be_bytes()
        };
        (0..number).map(|_| hash(random.u64(..of))).collect()
    }

    #[test]
    fn the_count_is_that_of_a_set_in_memory_and_through_the_file() {
        for (number, of, spills) in [
            (0, 1, false),
            (1_000, 10, false),
            (50_000, 40_000, false),
            // One request only: a single partition.
            (10_000, 1, true),
            (600_000, 400_000, true),
        ] {
            let hashes = hashes(7, number, of);
            let mut counter = DistinctCounter::new();
            for hash in &hashes {
                counter.add(*hash).unwrap();
            }
            assert_eq!(counter.spilled.is_some(), spills, "{number}");
            let set: HashSet<_> = hashes.iter().collect();
            assert_eq!(counter.count().unwrap(), set.len() as u64);
        }
    }
}
