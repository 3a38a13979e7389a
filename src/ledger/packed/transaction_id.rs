//! A transaction id in few bytes, given back letter for letter.

/// How long the text of a UUID is.
const CHARACTERS: usize = 36;
/// Where its hyphens are.
const HYPHENS: [usize; 4] = [8, 13, 18, 23];

/// Where the text of a UUID is written.
pub(in crate::ledger) struct UuidBuffer([u8; CHARACTERS]);

impl Default for UuidBuffer {
    fn default() -> Self {
        Self([0; CHARACTERS])
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
            Self::Uuid(bytes) => unpack(bytes, buffer),
            Self::Text(text) => text,
        }
    }
}

/// The bytes of a UUID in its usual form. Any other text is `None`: it would not be given back as it was.
fn pack(text: &str) -> Option<[u8; 16]> {
    let text: &[u8; CHARACTERS] = text.as_bytes().try_into().ok()?;
    let mut packed = [0; 16];
    let mut digits = 0;
    for (place, character) in text.iter().enumerate() {
        if HYPHENS.contains(&place) {
            if *character != b'-' {
                return None;
            }
            continue;
        }
        let digit = match character {
            b'0'..=b'9' => character - b'0',
            b'a'..=b'f' => character - b'a' + 10,
            _ => return None,
        };
        let byte = packed.get_mut(digits / 2)?;
        *byte = *byte << 4 | digit;
        digits += 1;
    }
    Some(packed)
}

/// Writes the text of a UUID.
fn unpack<'b>(packed: &[u8; 16], UuidBuffer(text): &'b mut UuidBuffer) -> &'b str {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut characters = text.iter_mut();
    let mut put = |character: u8| {
        if let Some(next) = characters.next() {
            *next = character;
        }
    };
    for (number, byte) in packed.iter().enumerate() {
        if matches!(number, 4 | 6 | 8 | 10) {
            put(b'-');
        }
        for digit in [byte >> 4, byte & 15] {
            DIGITS.get(usize::from(digit)).copied().map(&mut put);
        }
    }
    // All of it is ASCII.
    std::str::from_utf8(text).unwrap_or_default()
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
