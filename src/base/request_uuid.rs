//! The UUID that a call carries, so that a service can recognise a request that it has seen before.
//!
//! It is made of a hash (version 8 of RFC 9562: the bits are the program's own choice) and not of a clock or a random
//! number, so the same request can get the same one again after a restart. What is hashed is left to the ledger.

use std::fmt;

use uuid::{Builder, Uuid};

/// The UUID of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct RequestUuid(Uuid);

impl RequestUuid {
    /// The UUID of this hash, of which 122 bits stay: two that are equal by chance are out of reach.
    #[must_use]
    pub(crate) const fn of_hash(hash: [u8; 16]) -> Self {
        Self(Builder::from_custom_bytes(hash).into_uuid())
    }
}

/// In the usual form: 32 digits in lower case, with hyphens.
impl fmt::Display for RequestUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_and_variant_are_those_of_the_rfc_and_the_other_bits_those_of_the_hash() {
        let uuid = |byte| RequestUuid::of_hash([byte; 16]).to_string();
        assert_eq!(uuid(0xff), "ffffffff-ffff-8fff-bfff-ffffffffffff");
        assert_eq!(uuid(0x00), "00000000-0000-8000-8000-000000000000");
        assert_eq!(uuid(0xab), "abababab-abab-8bab-abab-abababababab");
    }
}
