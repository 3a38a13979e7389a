//! A part of the index: entries in order, as many as fit a page of the database.

use super::fingerprint::{BlockNumber, ENTRY_BYTES, Fingerprint, IndexEntry};

/// Entries of a full chunk: they fill a page of 4 KiB.
const FULL: usize = 400;

/// Entries in order, packed.
#[derive(Debug, Clone, Copy)]
pub(in crate::ledger) struct Chunk<'a>(&'a [[u8; ENTRY_BYTES]]);

impl<'a> Chunk<'a> {
    /// The chunk of these bytes; `None` if they are not entries.
    pub(in crate::ledger) fn new(bytes: &'a [u8]) -> Option<Self> {
        let (entries, rest) = bytes.as_chunks();
        rest.is_empty().then_some(Self(entries))
    }

    /// The blocks that may hold the answer, in order.
    pub(in crate::ledger) fn find(self, wanted: Fingerprint) -> impl Iterator<Item = BlockNumber> {
        let bytes = wanted.to_bytes();
        let first = self.0.partition_point(|entry| entry[..] < bytes[..]);
        let entries = self.0.get(first..).unwrap_or_default().iter();
        let entries = entries.map(|entry| IndexEntry::unpacked(*entry));
        let same = entries.take_while(move |entry| entry.fingerprint == wanted);
        same.map(|entry| entry.block)
    }

    /// What is left of it without an entry; `None` if that is nothing. It stays one chunk, whatever its length.
    pub(in crate::ledger) fn without(self, entry: IndexEntry) -> Option<NewChunk> {
        let left: Vec<_> = self.entries().filter(|it| *it != entry).collect();
        let first = left.first()?.fingerprint;
        let bytes = left.into_iter().flat_map(IndexEntry::packed).collect();
        Some(NewChunk { first, bytes })
    }

    /// All entries, in order.
    pub(in crate::ledger) fn entries(self) -> impl Iterator<Item = IndexEntry> + use<'a> {
        self.0.iter().map(|entry| IndexEntry::unpacked(*entry))
    }
}

/// A chunk to be stored, with its first entry's fingerprint.
pub(in crate::ledger) struct NewChunk {
    pub(in crate::ledger) first: Fingerprint,
    pub(in crate::ledger) bytes: Vec<u8>,
}

/// Divides entries, in order, into chunks of about the same size. Equal fingerprints stay in one chunk.
pub(in crate::ledger) fn chunks(entries: &[IndexEntry]) -> Vec<NewChunk> {
    let count = entries.len().div_ceil(FULL).max(1);
    let each = entries.len().div_ceil(count).max(1);
    let mut chunks: Vec<NewChunk> = Vec::with_capacity(count);
    let mut last = None;
    for entry in entries {
        let same = last == Some(entry.fingerprint);
        last = Some(entry.fingerprint);
        match chunks.last_mut() {
            Some(chunk) if same || chunk.bytes.len() < each * ENTRY_BYTES => {
                chunk.bytes.extend_from_slice(&entry.packed());
            }
            _ => {
                let mut bytes = Vec::with_capacity(each * ENTRY_BYTES);
                bytes.extend_from_slice(&entry.packed());
                chunks.push(NewChunk {
                    first: entry.fingerprint,
                    bytes,
                });
            }
        }
    }
    chunks
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    fn fingerprint(bits: u64) -> Fingerprint {
        let [_, _, bytes @ ..] = bits.to_be_bytes();
        Fingerprint::from_bytes(bytes)
    }

    #[test]
    fn entries_are_divided_evenly_and_found_again() {
        // Some fingerprints are those of two requests.
        let entry = |n: u64| IndexEntry {
            fingerprint: fingerprint(n / 3 * 3),
            block: BlockNumber(u32::try_from(n).unwrap()),
        };
        let entries: Vec<_> = (0..1_001).map(entry).collect();
        let chunks = chunks(&entries);
        assert_eq!(chunks.len(), 3);
        let all = chunks.iter().flat_map(|chunk| {
            assert!(chunk.bytes.len() <= (FULL + 2) * ENTRY_BYTES);
            Chunk::new(&chunk.bytes).unwrap().entries()
        });
        assert_eq!(all.collect::<Vec<_>>(), entries);
        for n in (0..1_000).step_by(3) {
            let wanted = fingerprint(n);
            let chunk = chunks.iter().rfind(|chunk| chunk.first <= wanted).unwrap();
            let found: Vec<_> = Chunk::new(&chunk.bytes).unwrap().find(wanted).collect();
            let expected = entries.iter().filter(|it| it.fingerprint == wanted);
            assert_eq!(found, expected.map(|it| it.block).collect::<Vec<_>>());
        }
        let first = Chunk::new(&chunks.first().unwrap().bytes).unwrap();
        assert_eq!(first.find(fingerprint(4)).next(), None);
        assert!(Chunk::new(&[0; 11]).is_none());
    }

    #[test]
    fn a_chunk_without_an_entry_has_all_others_however_long_it_is() {
        // Requests that were answered again have left entries that lead nowhere, which no chunk divides.
        let last = u64::try_from(FULL).unwrap() - 1;
        let entry = |n: u64| IndexEntry {
            fingerprint: fingerprint(1 + n.min(last)),
            block: BlockNumber(u32::try_from(n).unwrap()),
        };
        let entries: Vec<_> = (0..last + 9).map(entry).collect();
        let bytes: Vec<_> = entries.iter().flat_map(|entry| entry.packed()).collect();
        let chunk = Chunk::new(&bytes).unwrap();
        let left = chunk.without(entry(0)).unwrap();
        assert_eq!(left.first, fingerprint(2));
        let left: Vec<_> = Chunk::new(&left.bytes).unwrap().entries().collect();
        assert_eq!(left, entries[1..]);
        let one = entry(7).packed();
        assert!(Chunk::new(&one).unwrap().without(entry(7)).is_none());
    }
}
