//! Checksums over what is read from a ledger: a flipped bit must not turn one verdict into another.
//!
//! SQLite itself checks the log but not the pages of the database. Each row that decides what is written has a 32-bit
//! checksum over its values, made with the ledger's secret. A row whose checksum does not match counts as absent; what
//! follows from that is up to the callers.

use rusqlite::types::ValueRef;

/// Makes the checksums of one ledger.
#[derive(Clone, Copy)]
pub(crate) struct Checksums {
    secret: [u8; 32],
}

impl Checksums {
    /// Checksums with the secret of a ledger.
    pub(crate) const fn new(secret: [u8; 32]) -> Self {
        Self { secret }
    }

    /// The checksum of a row's values. The table's name is part of it, so no row is valid in another table.
    pub(crate) fn of<'a>(
        &self,
        table: &str,
        values: impl IntoIterator<Item = ValueRef<'a>>,
    ) -> i64 {
        // A typical block of answers has 400 bytes.
        let mut bytes = Vec::with_capacity(512);
        bytes.extend_from_slice(table.as_bytes());
        for value in values {
            // A tag, and the length where it varies: no two lists of values run together to the same bytes.
            let tag = match value {
                ValueRef::Null => 0,
                ValueRef::Integer(_) => 1,
                ValueRef::Real(_) => 2,
                ValueRef::Text(_) => 3,
                ValueRef::Blob(_) => 4,
            };
            bytes.push(tag);
            match value {
                ValueRef::Null => {}
                ValueRef::Integer(number) => bytes.extend_from_slice(&number.to_le_bytes()),
                ValueRef::Real(number) => {
                    bytes.extend_from_slice(&number.to_bits().to_le_bytes());
                }
                ValueRef::Text(varying) | ValueRef::Blob(varying) => {
                    bytes.extend_from_slice(&(varying.len() as u64).to_le_bytes());
                    bytes.extend_from_slice(varying);
                }
            }
        }
        let [a, b, c, d, ..] = *blake3::keyed_hash(&self.secret, &bytes).as_bytes();
        // 32 bits: damage is an accident and not an attack, and ten million answers should not become larger than needed.
        i64::from(i32::from_le_bytes([a, b, c, d]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_its_type_its_place_and_the_secret_count() {
        let one = Checksums::new([1; 32]);
        let usual = one.of("answers", [ValueRef::Text(b"ab"), ValueRef::Integer(1)]);
        let same = one.of("answers", [ValueRef::Text(b"ab"), ValueRef::Integer(1)]);
        assert_eq!(usual, same);
        for other in [
            one.of("runs", [ValueRef::Text(b"ab"), ValueRef::Integer(1)]),
            one.of("answers", [ValueRef::Blob(b"ab"), ValueRef::Integer(1)]),
            one.of("answers", [ValueRef::Text(b"ac"), ValueRef::Integer(1)]),
            one.of("answers", [ValueRef::Integer(1), ValueRef::Text(b"ab")]),
            one.of("answers", [ValueRef::Text(b"ab"), ValueRef::Real(1.0)]),
            one.of("answers", [ValueRef::Text(b"ab"), ValueRef::Null]),
            one.of("answers", [ValueRef::Text(b"ab")]),
            Checksums::new([2; 32]).of("answers", [ValueRef::Text(b"ab"), ValueRef::Integer(1)]),
        ] {
            assert_ne!(other, usual);
        }
    }
}
