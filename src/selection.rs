//! Which rows of its input a run takes: all of them, the first ones, or a sample; and which of those it sends.
//!
//! A hash of what a row would send decides whether it is in a sample, and nothing else: the sample is the same in each run,
//! whatever the order of the rows and whatever ledger is used, and a larger sample has all rows of a smaller one. Equal requests
//! are all in it or all out of it. This file knows neither how rows are read nor what becomes of them.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::base::numbers::grouped;
use crate::base::text::{composed, quoted};

/// Which rows a run takes; by default all of them.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Selection {
    /// Only this many first rows; with a sample, its first ones.
    pub limit: Option<NonZeroU64>,
    /// Only about this share of them.
    #[serde(rename = "sample_percent")]
    pub sample: Option<Sample>,
    /// The sample grows in rounds until the shares of the decisions are known this precisely.
    #[serde(rename = "sample_precision")]
    pub precision: Option<Precision>,
}

/// A share of all rows in percent, above 0 and up to 100.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Sample(f64);

/// How precisely a share is to be known: up to this many percentage points more or less, at 95% confidence.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Precision(f64);

/// Which rows are sent, by the value of one of their columns: `decision=review,block`, or `country!=DE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// The column's name; in JSONL, a member's name or JSON pointer.
    pub(crate) column: String,
    /// Whether the value must be one of these, or none of them.
    is_one: bool,
    values: Vec<String>,
}

impl Condition {
    /// Whether a row with this value in the column is sent.
    #[inline]
    pub(crate) fn holds(&self, value: &str) -> bool {
        let value = composed(value);
        self.values.iter().any(|one| *one == value) == self.is_one
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = if self.is_one { "is" } else { "is not" };
        let values: Vec<_> = self.values.iter().map(|value| quoted(value)).collect();
        write!(f, "{} {verb} {}", quoted(&self.column), values.join(" or "))
    }
}

impl FromStr for Condition {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = "expected COLUMN=VALUE or COLUMN!=VALUE, such as `decision=review`";
        let (column, values) = text.split_once('=').ok_or(wrong)?;
        let (column, is_one) = match column.strip_suffix('!') {
            Some(column) => (column, false),
            None => (column, true),
        };
        if column.trim().is_empty() {
            return Err(wrong);
        }
        if values.starts_with('=') {
            return Err(
                "write `=` once, not `==`; a value that starts with `=` is in double quotes",
            );
        }
        // A value with a comma is in quotes, as in a file. No argument has a NUL byte, so all of it is one record.
        let mut builder = csv::ReaderBuilder::new();
        builder
            .has_headers(false)
            .terminator(csv::Terminator::Any(0));
        let values = match builder.from_reader(values.as_bytes()).records().next() {
            Some(record) => record
                .map_err(|_| wrong)?
                .iter()
                // A byte order mark may be copied with a value out of a file.
                .map(|value| composed(value.trim_start_matches('\u{feff}')).into_owned())
                .collect(),
            None => vec![String::new()],
        };
        Ok(Self {
            column: column.to_owned(),
            is_one,
            values,
        })
    }
}

impl Selection {
    /// Whether it has all rows of any input.
    pub(crate) const fn is_everything(&self) -> bool {
        self.limit.is_none() && self.sample.is_none()
    }

    /// The share of a random sample, in percent. The first rows are not drawn at random, nor are the first ones of a sample.
    pub(crate) fn share(&self) -> Option<f64> {
        let sample = self.sample.filter(|sample| sample.0 < 100.0);
        Some(sample.filter(|_| self.limit.is_none())?.0)
    }

    /// The rows of the next round of a growing sample, twice as many; all of them where this is more than half.
    pub(crate) fn next_round(self) -> Self {
        let doubled = self.sample.map(|sample| sample.0 * 2.0);
        Self {
            sample: doubled.filter(|percent| *percent <= 100.0).map(Sample),
            ..self
        }
    }

    /// The rows of this input for people: `the first 100 rows of users.csv`.
    pub(crate) fn of(&self, input: &str) -> String {
        match self.words() {
            Some(rows) => format!("{rows} of {input}"),
            None => input.to_owned(),
        }
    }

    /// The rows for people: `the first 100 rows`; `None` for all of them.
    pub(crate) fn words(&self) -> Option<String> {
        let sample = self.sample.map(|share| format!("a sample of {share}"));
        let first = self.limit.map(|rows| match rows.get() {
            1 => "the first row".to_owned(),
            rows => format!("the first {} rows", grouped(rows.into())),
        });
        match (first, sample) {
            (Some(first), Some(sample)) => Some(format!("{first} of {sample}")),
            (first, sample) => first.or(sample),
        }
    }
}

impl Precision {
    /// Whether an interval between these shares is that narrow.
    pub(crate) fn has(self, low: f64, high: f64) -> bool {
        (high - low) * 100.0 <= 2.0 * self.0
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "±{}%", self.0)
    }
}

impl FromStr for Precision {
    type Err = &'static str;

    /// Not every keyboard has `±`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let points = text.trim_start_matches(['±', '+', '-']).strip_suffix('%');
        let points = points.and_then(|it| it.trim().parse().ok());
        let points = points.filter(|points| (0.1..=20.0).contains(points));
        let wrong = "expected between 0.1% and 20%, such as `auto:±1%`";
        points.map(Self).ok_or(wrong)
    }
}

impl Sample {
    /// The first round of a sample that grows until enough is known.
    pub(crate) const FIRST_ROUND: Self = Self(1.0);

    /// Whether a row is in the sample: by its request, or by its content if it has none.
    pub(crate) fn has(self, bytes: &[u8]) -> bool {
        let hash = blake3::hash(bytes);
        let first = hash.as_bytes().first_chunk().copied().unwrap_or_default();
        // 53 bits are exact in a double, so the number is below 1.
        let number = (u64::from_le_bytes(first) >> 11) as f64 / (1_u64 << 53) as f64;
        number * 100.0 < self.0
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.0)
    }
}

impl FromStr for Sample {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = text.strip_suffix('%').map(|it| it.trim().parse());
        match number {
            Some(Ok(percent)) if percent > 0.0 && percent <= 100.0 => Ok(Self(percent)),
            _ => Err("expected a share above 0% and up to 100%, such as `1%` or `0.1%`"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(text: &str) -> Sample {
        text.parse().unwrap()
    }

    #[test]
    fn a_share_is_a_percentage_above_nothing() {
        for (text, shown) in [
            ("1%", "1%"),
            ("0.1%", "0.1%"),
            ("12.50%", "12.5%"),
            ("100%", "100%"),
            ("0.000001 %", "0.000001%"),
        ] {
            assert_eq!(share(text).to_string(), shown);
        }
        for bad in ["0%", "0.0%", "101%", "-1%", "1", "0.01", "%", "NaN%", "1%%"] {
            assert!(bad.parse::<Sample>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_condition_names_values_that_may_be_quoted_or_empty() {
        for (text, shown, yes, no) in [
            (
                "decision=review",
                "`decision` is `review`",
                "review",
                "Review",
            ),
            ("a=b,c", "`a` is `b` or `c`", "c", "b,c"),
            ("a!=b,c", "`a` is not `b` or `c`", "", "c"),
            ("a=", "`a` is ``", "", " "),
            (
                "a=\"b, c\",\"d\"\"\"",
                "`a` is `b, c` or `d\"`",
                "b, c",
                "b",
            ),
            ("/a/b=\"=c\n\"", "`/a/b` is `=c\\n`", "=c\n", "=c"),
        ] {
            let condition: Condition = text.parse().unwrap();
            assert_eq!(condition.to_string(), shown);
            assert!(condition.holds(yes) && !condition.holds(no), "{text}");
        }
        for bad in ["decision", "=review", "!=review", " =x", "country==DE"] {
            assert!(bad.parse::<Condition>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_sample_has_its_share_of_the_rows_and_a_larger_one_has_them_all() {
        let rows: Vec<_> = (0..100_000).map(|row| format!("row {row}")).collect();
        let mut before = Vec::new();
        for (percent, least, most) in [
            ("0.1%", 70, 130),
            ("1%", 900, 1_100),
            ("50%", 49_500, 50_500),
            ("100%", 100_000, 100_000),
        ] {
            let sample = share(percent);
            let has = |row: &&String| sample.has(row.as_bytes());
            let drawn: Vec<_> = rows.iter().filter(has).collect();
            assert!(
                (least..=most).contains(&drawn.len()),
                "{percent}: {}",
                drawn.len()
            );
            assert!(before.iter().all(has), "{percent}");
            before = drawn;
        }
    }

    /// Another sample after an update would cost money.
    #[test]
    fn a_sample_has_the_same_rows_in_all_versions() {
        let sample = share("20%");
        let drawn = (0..20_u8).filter(|row| sample.has(&[*row]));
        insta::assert_snapshot!(format!("{:?}", drawn.collect::<Vec<_>>()), @"[3, 11, 16]");
    }

    #[test]
    fn a_selection_names_its_rows() {
        let of = |limit, sample: Option<&str>| {
            let selection = Selection {
                limit: NonZeroU64::new(limit),
                sample: sample.map(share),
                precision: None,
            };
            selection.of("a.csv")
        };
        insta::assert_snapshot!(
            [of(0, None), of(1, None), of(1_000, None), of(0, Some("1%")), of(100, Some("0.5%"))].join("\n"),
            @r#"
        a.csv
        the first row of a.csv
        the first 1,000 rows of a.csv
        a sample of 1% of a.csv
        the first 100 rows of a sample of 0.5% of a.csv
        "#
        );
    }
}
