//! A score in few bytes, given back digit for digit.

use std::borrow::Cow;

/// The most digits after the point that are packed. Their number, or that the score is a text, takes half a byte.
const MOST_DECIMALS: usize = 14;
/// The most digits that every number of them fits 64 bits with.
const MOST_DIGITS: usize = 19;

/// A score as it is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::ledger) enum PackedScore<'a> {
    /// A decimal number in its usual form: no sign, no exponent, and no zero before another digit.
    Decimal {
        /// All digits as one number.
        digits: u64,
        /// How many of them follow the point; there is none without.
        decimals: u8,
    },
    /// Any other number, as it is.
    Text(&'a str),
}

impl<'a> PackedScore<'a> {
    /// Packs a score.
    pub(in crate::ledger) fn of(text: &'a str) -> Self {
        pack(text).unwrap_or(Self::Text(text))
    }

    /// The score as it was.
    pub(in crate::ledger) fn text(self) -> Cow<'a, str> {
        match self {
            Self::Decimal { digits, decimals } => {
                let decimals = usize::from(decimals);
                let mut text = format!("{digits:0width$}", width = decimals + 1);
                if decimals > 0 {
                    text.insert(text.len() - decimals, '.');
                }
                text.into()
            }
            Self::Text(text) => text.into(),
        }
    }
}

/// A decimal number in its usual form. Any other text is `None`: it would not be given back as it was.
fn pack(text: &str) -> Option<PackedScore<'_>> {
    let (whole, decimals) = match text.split_once('.') {
        Some((_, "")) => return None,
        Some(parts) => parts,
        None => (text, ""),
    };
    let is_usual = whole == "0" || !whole.starts_with('0');
    let fits = !whole.is_empty()
        && decimals.len() <= MOST_DECIMALS
        && whole.len() + decimals.len() <= MOST_DIGITS;
    let mut digits = 0;
    for byte in whole.bytes().chain(decimals.bytes()) {
        let digit = char::from(byte).to_digit(10)?;
        digits = u64::checked_add(u64::checked_mul(digits, 10)?, digit.into())?;
    }
    (is_usual && fits).then_some(PackedScore::Decimal {
        digits,
        decimals: u8::try_from(decimals.len()).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_score_comes_back_digit_for_digit(text in r"-?[0-9]{0,21}(\.[0-9]{0,16})?(e[0-9])?") {
            prop_assert_eq!(PackedScore::of(&text).text(), &*text);
        }
    }

    #[test]
    fn a_decimal_number_is_packed_and_nothing_else_is() {
        for (text, digits, decimals) in [
            ("0", 0, 0),
            ("73", 73, 0),
            ("0.0", 0, 1),
            ("0.05", 5, 2),
            ("12.340", 12_340, 3),
            ("0.00000000000001", 1, 14),
            ("9999999999999999999", 9_999_999_999_999_999_999, 0),
        ] {
            assert_eq!(
                PackedScore::of(text),
                PackedScore::Decimal { digits, decimals }
            );
            assert_eq!(PackedScore::of(text).text(), text);
        }
        for text in [
            "",
            ".",
            ".5",
            "5.",
            "00",
            "01.5",
            "-1",
            "+1",
            "1e3",
            "1.2.3",
            "0.000000000000001",
            "10000000000000000000",
            "٣",
        ] {
            assert_eq!(PackedScore::of(text), PackedScore::Text(text));
            assert_eq!(PackedScore::Text(text).text(), text);
        }
    }
}
