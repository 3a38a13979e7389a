//! Numbers: decimals that keep their digits, and counts, shares, times and tolerances as people read them.

use std::cmp::Ordering;
use std::fmt;
use std::time::Duration;

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
    pub(crate) fn new(text: &str) -> Option<Self> {
        // Adding nothing makes -0 to 0.
        let value = text.parse::<f64>().ok()? + 0.0;
        (text.len() <= Self::MAX_CHARACTERS && value.is_finite()).then(|| Self {
            text: text.into(),
            value,
        })
    }

    /// The number as it was written.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Whether it is less than zero.
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

/// `1234567` as `1,234,567`.
pub(crate) fn grouped(number: u128) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// `1 row`, `2,000 rows`.
pub(crate) fn counted(number: u64, thing: &str) -> String {
    let s = if number == 1 { "" } else { "s" };
    format!("{} {thing}{s}", grouped(number.into()))
}

/// A share in percent with one decimal: only nothing is `0%`, and only all is `100%`. A share of nothing is `–`.
pub(crate) fn percent_of(part: u64, whole: u64) -> String {
    percent(part as f64 / whole as f64 * 100.0)
}

/// A number in percent, like that of [`percent_of`].
pub(crate) fn percent(percent: f64) -> String {
    match percent {
        _ if !percent.is_finite() => "–".to_owned(),
        0.0 => "0%".to_owned(),
        100.0 => "100%".to_owned(),
        _ if percent < 0.05 => "<0.1%".to_owned(),
        _ if percent >= 99.95 => ">99.9%".to_owned(),
        _ => format!("{percent:.1}%"),
    }
}

/// A day of 24 hours.
pub(crate) const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The days after which an answer is old enough to mention, if no setting says how old answers may be.
pub(crate) const AGED_DAYS: u32 = 30;

/// A time for people, with two units at most.
pub(crate) fn time(time: Duration) -> String {
    let seconds = time.as_secs();
    let in_two = |large: u64, name: &str, small: u64, small_name: &str| {
        let whole = format!("{} {name}", seconds / large);
        match seconds % large / small {
            0 => whole,
            rest => format!("{whole} {rest} {small_name}"),
        }
    };
    match seconds {
        0 if time.as_millis() < 10 => format!("{:.1} ms", time.as_secs_f64() * 1e3),
        0 => format!("{} ms", time.as_millis()),
        1..10 => format!("{:.1} s", time.as_secs_f64()),
        10..60 => format!("{seconds} s"),
        60..3_600 => in_two(60, "min", 1, "s"),
        3_600..86_400 => in_two(3_600, "h", 60, "min"),
        _ => in_two(86_400, "d", 3_600, "h"),
    }
}

/// Thousandths are as exact as anyone needs: of seconds, percent, or calls a second.
pub(crate) fn rounded(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}

/// Times for programs: seconds, as numbers.
pub(crate) mod seconds {
    use std::time::Duration;

    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    use super::rounded;

    /// For any time.
    pub(crate) fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
        rounded(time.as_secs_f64()).serialize(to)
    }

    /// For a time that may be missing.
    pub(crate) fn serialize_some<S: Serializer>(
        time: &Option<Duration>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        time.map(|time| rounded(time.as_secs_f64())).serialize(to)
    }

    /// What [`serialize`] has written.
    pub(crate) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Duration, D::Error> {
        Duration::try_from_secs_f64(f64::deserialize(from)?).map_err(serde::de::Error::custom)
    }
}

/// How many rows may be bad.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Tolerance {
    /// A number of rows.
    Rows(u64),
    /// A share in percent, from 0 to 100.
    Percent(f64),
}

impl Tolerance {
    /// Whether this number of bad rows among `all` is tolerated.
    pub(crate) fn covers(self, bad: u64, all: u64) -> bool {
        match self {
            Self::Rows(tolerated) => bad <= tolerated,
            Self::Percent(tolerated) => bad as f64 * 100.0 <= all as f64 * tolerated,
        }
    }

    /// Whether all rows may be bad.
    pub(crate) fn is_everything(self) -> bool {
        matches!(self, Self::Percent(tolerated) if tolerated >= 100.0)
    }
}

impl fmt::Display for Tolerance {
    /// As the option has it: `5`, or `0.5%`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rows(rows) => write!(f, "{rows}"),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

#[cfg(test)]
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

    #[test]
    fn shares_never_round_to_nothing_or_all() {
        assert_eq!(percent_of(0, 10), "0%");
        assert_eq!(percent_of(10, 10), "100%");
        assert_eq!(percent_of(1, 100_000), "<0.1%");
        assert_eq!(percent_of(99_999, 100_000), ">99.9%");
        assert_eq!(percent_of(1, 3), "33.3%");
        assert_eq!(percent_of(2, 3), "66.7%");
        assert_eq!(percent_of(0, 0), "–");
    }

    #[test]
    fn times_have_two_units_at_most() {
        for (millis, expected) in [
            (1, "1.0 ms"),
            (120, "120 ms"),
            (1_500, "1.5 s"),
            (59_000, "59 s"),
            (60_000, "1 min"),
            (61_000, "1 min 1 s"),
            (3_660_000, "1 h 1 min"),
        ] {
            assert_eq!(time(Duration::from_millis(millis)), expected);
        }
    }

    #[test]
    fn a_tolerance_covers_as_many_as_it_says_and_not_one_more() {
        for (tolerance, bad, all, covers) in [
            (Tolerance::Rows(0), 0, 10, true),
            (Tolerance::Rows(0), 1, 10, false),
            (Tolerance::Rows(5), 5, 5, true),
            (Tolerance::Rows(5), 6, 6_000_000, false),
            (Tolerance::Percent(5.0), 5, 100, true),
            (Tolerance::Percent(5.0), 6, 100, false),
            (Tolerance::Percent(0.1), 1, 1_000, true),
            (Tolerance::Percent(0.1), 1, 999, false),
            (Tolerance::Percent(100.0), 9, 9, true),
            (Tolerance::Percent(0.0), 0, 0, true),
        ] {
            assert_eq!(
                tolerance.covers(bad, all),
                covers,
                "{tolerance}: {bad} of {all}"
            );
        }
    }
}
