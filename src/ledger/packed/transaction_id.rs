//! A transaction id in few bytes, given back letter for letter.

use uuid::Uuid;
use uuid::fmt::Hyphenated;

/// Where the text of a UUID is written.
pub(in crate::ledger) struct UuidBuffer([u8; Hyphenated::LENGTH]);

impl Default for UuidBuffer {
    fn default() -> Self {
        Self([0; Hyphenated::LENGTH])
    }
}

/// A transaction id as it is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::ledger) enum PackedId<'a> {
    /// A UUID in its usual form: with hyphens, and without a capital letter.
    Uuid([u8; 16]),
    /// Any other text, as it is.
    Text(&'a str),
}

impl<'a> PackedId<'a> {
    /// Packs a transaction id.
    pub(in crate::ledger) fn of(text: &'a str) -> Self {
        pack(text).map_or(Self::Text(text), Self::Uuid)
    }

    /// The transaction id; a UUID is written into the buffer.
    pub(in crate::ledger) fn text<'b>(&'b self, buffer: &'b mut UuidBuffer) -> &'b str {
        match self {
            Self::Uuid(bytes) => {
                let uuid = Uuid::from_bytes(*bytes).hyphenated();
                uuid.encode_lower(&mut buffer.0)
            }
            Self::Text(text) => text,
        }
    }
}

/// The bytes of a UUID in its usual form. Any other text is `None`: it would not be given back as it was.
fn pack(text: &str) -> Option<[u8; 16]> {
    // The other forms that can be parsed have other lengths, or capital letters.
    let is_usual =
        text.len() == Hyphenated::LENGTH && !text.bytes().any(|it| it.is_ascii_uppercase());
    is_usual
        .then(|| Uuid::try_parse(text).ok().map(Uuid::into_bytes))
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_comes_back_letter_for_letter_and_nothing_else_is_packed() {
        for text in [
            "44de328f-0b1c-4d2e-9f3a-5b6c7d8e9fa0",
            "00000000-0000-0000-0000-000000000000",
            "ffffffff-ffff-ffff-ffff-ffffffffffff",
        ] {
            let packed = PackedId::of(text);
            assert!(matches!(packed, PackedId::Uuid(_)), "{text}");
            assert_eq!(packed.text(&mut UuidBuffer::default()), text);
        }
        for text in [
            "",
            "44DE328F-0b1c-4d2e-9f3a-5b6c7d8e9fa0",
            "44de328f0b1c4d2e9f3a5b6c7d8e9fa0",
            "44de328f-0b1c-4d2e-9f3a-5b6c7d8e9fa",
            "44de328f-0b1c-4d2e-9f3a-5b6c7d8e9fg0",
            "44de328f-0b1c-4d2e-9f3a05b6c7d8e9fa0",
            "é4de328f-0b1c-4d2e-9f3a-5b6c7d8e9fa",
        ] {
            assert_eq!(PackedId::of(text), PackedId::Text(text));
            assert_eq!(PackedId::Text(text).text(&mut UuidBuffer::default()), text);
        }
    }
}
