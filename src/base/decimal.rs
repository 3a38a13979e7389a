//! Decimal numbers that are compared by their digits: `2.0000000000000000001` is above `2`, although both are the same double.

use std::cmp::Ordering;
use std::fmt;

/// A number as it was written, ordered by its exact value: `2.0`, `2` and `20e-1` are equal.
///
/// Exponents beyond ±10^18 count as ±10^18.
#[derive(Debug, Clone)]
pub(crate) struct Decimal {
    text: Box<str>,
    /// The nearest double. Rounding keeps the order, so different doubles need no comparison of digits.
    nearest: f64,
}

impl Decimal {
    /// No sensible number is longer; a megabyte of digits would fill memory and file.
    pub(crate) const MAX_CHARACTERS: usize = 64;

    /// Parses digits with an optional sign, point and exponent. `None` for anything else, for a text that is too long, and
    /// for a number beyond the range of a double.
    #[must_use]
    pub(crate) fn new(text: &str) -> Option<Self> {
        if text.len() > Self::MAX_CHARACTERS {
            return None;
        }
        let nearest = text
            .parse()
            .ok()
            .filter(|number: &f64| number.is_finite())?;
        Some(Self {
            text: text.into(),
            nearest,
        })
    }

    /// The number as it was written.
    #[must_use]
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Whether it is less than zero. What is too small for a double counts as zero.
    #[must_use]
    pub(crate) fn is_below_zero(&self) -> bool {
        self.nearest < 0.0
    }

    /// Its size as 0.`d₁d₂d₃…` × 10^`power`, without zeros at either end: the power, and the digits.
    fn size(&self) -> (i64, String) {
        let (number, exponent) = self
            .text
            .split_once(['e', 'E'])
            .unwrap_or((&self.text, "0"));
        let number = number.trim_start_matches(['-', '+']);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        // An exponent that does not fit is cut to the largest of its sign.
        let far = if exponent.starts_with('-') { -FAR } else { FAR };
        let exponent: i64 = exponent.parse().unwrap_or(far).clamp(-FAR, FAR);
        let digits = format!("{whole}{fraction}");
        let significant = digits.trim_start_matches('0');
        if significant.is_empty() {
            return (i64::MIN, String::new());
        }
        let zeros = distance(digits.len() - significant.len());
        let power = exponent + distance(whole.len()) - zeros;
        (power, significant.trim_end_matches('0').to_owned())
    }
}

/// Larger than any exponent that makes sense.
const FAR: i64 = 1_000_000_000_000_000_000;

/// A number of digits; at most [`Decimal::MAX_CHARACTERS`].
fn distance(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(FAR)
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        match self.nearest.partial_cmp(&other.nearest) {
            Some(order) if order.is_ne() => order,
            // The same double, and so of one sign, unless both are next to nothing.
            _ => {
                let signed = |number: &Self| {
                    let (power, digits) = number.size();
                    let is_negative = number.text.starts_with('-') && !digits.is_empty();
                    (is_negative, power, digits)
                };
                let (a, b) = (signed(self), signed(other));
                match (a.0, b.0) {
                    (false, false) => a.cmp(&b),
                    (true, true) => b.cmp(&a),
                    (a, b) => b.cmp(&a),
                }
            }
        }
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
            nearest: number.into(),
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
    use proptest::prelude::*;

    use super::*;

    fn compare(a: &str, b: &str) -> Ordering {
        let of = |text| Decimal::new(text).unwrap();
        of(a).cmp(&of(b))
    }

    #[test]
    fn different_notations_of_one_number_are_equal() {
        for same in [
            &[
                "2",
                "2.0",
                "2e0",
                "0.2E1",
                "20e-1",
                "02",
                "+2",
                "2.",
                "200000000000000000000e-20",
            ][..],
            &[
                "0",
                "-0",
                "0.000",
                "0e99999999999999999999999",
                "-0e-99999999999999999999",
                ".0",
            ],
            &["-1.5", "-15e-1", "-0.15E+1", "-1.50000000000000000000000"],
            &["0.30000000000000004", "30000000000000004E-17"],
        ] {
            for (a, b) in same.iter().flat_map(|a| same.iter().map(move |b| (a, b))) {
                assert_eq!(compare(a, b), Ordering::Equal, "{a} {b}");
            }
        }
    }

    #[test]
    fn numbers_that_are_the_same_double_are_ordered() {
        let ordered = [
            "-1e300",
            "-2.0000000000000000001",
            "-2",
            "-1e-300",
            "-1e-99999999999999999999",
            "0",
            "1e-99999999999999999999",
            "1e-400",
            "1e-300",
            "0.1",
            "0.10000000000000000000000000000000000000000000000000000000000001",
            "1.9999999999999999999",
            "2.0",
            "2.0000000000000000001",
            "9007199254740992",
            "9007199254740993",
            "1e300",
        ];
        for (i, a) in ordered.iter().enumerate() {
            for (j, b) in ordered.iter().enumerate() {
                assert_eq!(compare(a, b), i.cmp(&j), "{a} {b}");
            }
        }
    }

    #[test]
    fn only_finite_numbers_of_limited_length_are_accepted() {
        let long = format!("1.{}", "0".repeat(63));
        for bad in [
            "", "-", ".", "e1", "1e", "1,5", " 1", "0x1", "1_0", "inf", "NaN", "1e400", &long,
        ] {
            assert!(Decimal::new(bad).is_none(), "{bad}");
        }
        assert_eq!(Decimal::new("2.50").unwrap().text(), "2.50");
    }

    /// One of the notations of a number of thousandths: with the point somewhere, and zeros before and after.
    fn written(thousandths: i128, (point, before, after): (usize, usize, usize)) -> String {
        let digits = thousandths.unsigned_abs().to_string();
        let digits = format!("{}{digits:0>1$}", "0".repeat(before), point + 1);
        let (whole, fraction) = digits.split_at(digits.len() - point);
        let sign = if thousandths < 0 { "-" } else { "" };
        let exponent = i32::try_from(point).unwrap() - 3;
        format!("{sign}{whole}.{fraction}{}e{exponent}", "0".repeat(after))
    }

    proptest! {
        #[test]
        fn the_order_is_that_of_exact_values(
            // Of 25 digits, where a double has 16: most neighbours are the same double.
            number in prop_oneof![-20..20_i128, -10_i128.pow(25)..10_i128.pow(25)],
            distance in -1..=1_i128,
            ways in any::<[(u8, u8, u8); 2]>(),
        ) {
            let [one, other] = ways.map(|(point, before, after)| (usize::from(point % 24), usize::from(before % 4), usize::from(after % 4)));
            let (a, b) = (written(number, one), written(number + distance, other));
            prop_assert_eq!(compare(&a, &b), 0.cmp(&distance), "{} {}", a, b);
        }

        #[test]
        fn different_doubles_have_the_order_of_doubles(a in any::<f64>(), b in any::<f64>()) {
            let (text_a, text_b) = (format!("{a:e}"), format!("{b:e}"));
            let doubles = a.partial_cmp(&b).filter(|order| a.is_finite() && b.is_finite() && order.is_ne());
            prop_assume!(doubles.is_some());
            prop_assert_eq!(Some(compare(&text_a, &text_b)), doubles, "{} {}", text_a, text_b);
        }
    }
}
