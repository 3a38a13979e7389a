//! Decimal numbers that keep their digits, and are compared as doubles.

use std::cmp::Ordering;
use std::fmt;

/// A number as it was written, ordered by its value: `2.0`, `2` and `20e-1` are equal.
#[derive(Debug, Clone)]
pub(crate) struct Decimal {
    text: Box<str>,
    /// Finite. All numbers of up to 15 digits differ as doubles if they differ.
    value: f64,
}

impl Decimal {
    /// No sensible number is longer; a megabyte of digits would fill memory and file.
    pub(crate) const MAX_CHARACTERS: usize = 64;

    /// Parses digits with an optional sign, point and exponent. `None` for anything else, for a text that is too long, and
    /// for a number beyond the range of a double.
    #[must_use]
    pub(crate) fn new(text: &str) -> Option<Self> {
        // Adding nothing makes -0 to 0.
        let value = text.parse::<f64>().ok()? + 0.0;
        (text.len() <= Self::MAX_CHARACTERS && value.is_finite()).then(|| Self {
            text: text.into(),
            value,
        })
    }

    /// The number as it was written.
    #[must_use]
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Whether it is less than zero.
    #[must_use]
    pub(crate) fn is_below_zero(&self) -> bool {
        self.value < 0.0
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        self.value.total_cmp(&other.value)
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Decimal {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Decimal {}

impl From<u8> for Decimal {
    fn from(number: u8) -> Self {
        Self {
            text: number.to_string().into(),
            value: number.into(),
        }
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_ordered_by_value_in_every_notation() {
        let of = |text| Decimal::new(text).unwrap();
        for same in ["2.0", "2e0", "0.2E1", "20e-1", "02", "+2", "2."] {
            assert_eq!(of(same), of("2"), "{same}");
        }
        assert_eq!(of("-0"), of("0.000"));
        for (less, more) in [("2", "2.00000000000001"), ("-3", "-2.5"), ("9", "10")] {
            assert!(of(less) < of(more), "{less} {more}");
        }
        assert!(of("-1").is_below_zero() && !of("-0").is_below_zero());
        for bad in ["", "NaN", "inf", "1e400", "1,5", " 1", &"1".repeat(65)] {
            assert!(Decimal::new(bad).is_none(), "{bad}");
        }
    }
}
