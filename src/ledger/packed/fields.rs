//! The parts of a packed answer: numbers and texts, one after another.

/// Appends a number: seven bits a byte, the lowest first.
pub(super) fn put_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number > 0x7f {
        bytes.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    bytes.push(number.to_le_bytes()[0]);
}

/// Appends a number that may be negative; small ones of either sign take few bytes.
pub(super) fn put_signed(bytes: &mut Vec<u8>, number: i64) {
    put_number(bytes, (number << 1 ^ number >> 63).cast_unsigned());
}

/// Appends a text with its length.
pub(super) fn put_text(bytes: &mut Vec<u8>, text: &str) {
    put_number(bytes, text.len() as u64);
    bytes.extend_from_slice(text.as_bytes());
}

/// What is left to take of packed bytes. Bytes that end too soon, or are not what is asked for, give `None`.
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Fields<'a> {
    /// The next bytes.
    pub(super) fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*bytes)
    }

    /// The next number.
    pub(super) fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let [byte] = self.bytes()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    /// The next number that may be negative.
    pub(super) fn signed(&mut self) -> Option<i64> {
        let number = self.number()?;
        Some((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
    }

    /// The next text.
    pub(super) fn text(&mut self) -> Option<&'a str> {
        let length = usize::try_from(self.number()?).ok()?;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        std::str::from_utf8(text).ok()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_was_put_is_taken_and_never_more(number: u64, signed: i64, text: String) {
            let mut bytes = Vec::new();
            put_number(&mut bytes, number);
            put_signed(&mut bytes, signed);
            put_text(&mut bytes, &text);
            let mut fields = Fields(&bytes);
            prop_assert_eq!(fields.number(), Some(number));
            prop_assert_eq!(fields.signed(), Some(signed));
            prop_assert_eq!(fields.text(), Some(&*text));
            prop_assert!(fields.0.is_empty());
            prop_assert_eq!(fields.number(), None);
            for end in 0..bytes.len() {
                let mut fields = Fields(&bytes[..end]);
                let taken = (fields.number(), fields.signed(), fields.text());
                prop_assert!(taken.2.is_none() || taken.1.is_none() || taken.0.is_none());
            }
        }

        #[test]
        fn no_bytes_are_too_odd(bytes: Vec<u8>) {
            let mut fields = Fields(&bytes);
            while fields.number().is_some() && fields.signed().is_some() && fields.text().is_some() {}
        }
    }
}
