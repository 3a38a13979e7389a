//! A checked answer of the service: transaction id, score and captured fields.

use crate::base::control_chars::any_unsafe_to_print;
use crate::base::numbers::Decimal;

/// The service's answer about a user, checked and ready to be written.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The transaction's identifier.
    pub transaction_id: TransactionId,
    /// The score with the digits that the service sent.
    pub score: Score,
    /// Further fields of the answer that the user asked for, as raw JSON, in the order asked;
    /// `None` where absent. In a new answer they are followed by the fields that other users of its
    /// ledger need.
    pub captured: Box<[Option<Box<str>>]>,
}

/// An identifier that is safe to write into any file: not empty, at most
/// [`TransactionId::MAX_BYTES`] long, without characters that are unsafe to print
/// ([`any_unsafe_to_print`]), and not a formula to a spreadsheet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TransactionId(Box<str>);

impl TransactionId {
    /// Identifiers seen are 36 characters long; seven times that leaves room and keeps a hostile one out of the file.
    pub(crate) const MAX_BYTES: usize = 256;

    /// Checks an identifier.
    ///
    /// # Errors
    /// What is wrong with it, in a few words that do not repeat it.
    pub fn new(text: &str) -> Result<Self, &'static str> {
        if text.is_empty() {
            Err("is empty")
        } else if text.len() > Self::MAX_BYTES {
            Err("is longer than 256 bytes")
        } else if any_unsafe_to_print(text) {
            Err("has control characters")
        } else if is_formula(text) {
            Err("starts like a spreadsheet formula")
        } else {
            Ok(Self(text.into()))
        }
    }

    /// The identifier.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whether a spreadsheet would read a cell as a formula (OWASP, "CSV injection"). Some ignore
/// leading white space.
#[must_use]
pub(crate) fn is_formula(text: &str) -> bool {
    text.trim_start().starts_with(['=', '+', '-', '@'])
}

/// A risk score: compared as a number, written with the digits that the service sent.
#[derive(Debug, Clone)]
pub struct Score(Decimal);

impl Score {
    /// The longest that is accepted.
    pub(crate) const MAX_CHARACTERS: usize = Decimal::MAX_CHARACTERS;

    /// The score of a JSON number's text.
    ///
    /// # Errors
    /// What is wrong with it: not a number, out of the range of a double, or too long.
    pub fn from_json_number(text: &str) -> Result<Self, &'static str> {
        if text.len() > Self::MAX_CHARACTERS {
            return Err("is longer than 64 characters");
        }
        let number = text.starts_with(|first: char| first.is_ascii_digit() || first == '-');
        let number = Decimal::new(text).filter(|_| number);
        number.map(Self).ok_or("is not a number")
    }

    /// The digits as sent.
    #[must_use]
    pub fn digits(&self) -> &str {
        self.0.text()
    }

    /// The number.
    #[must_use]
    pub(crate) const fn value(&self) -> &Decimal {
        &self.0
    }
}

/// Scores are equal when they are written the same.
impl PartialEq for Score {
    fn eq(&self, other: &Self) -> bool {
        self.digits() == other.digits()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_score_keeps_its_digits_and_is_compared_as_a_number() {
        for (text, value) in [
            ("2.0", "2"),
            ("1e-3", "0.001"),
            ("1.680000000000000", "1.68"),
            ("-0.5", "-5e-1"),
        ] {
            let score = Score::from_json_number(text).unwrap();
            let value = Decimal::new(value).unwrap();
            assert_eq!((score.digits(), score.value()), (text, &value));
        }
        for text in ["", "\"1\"", "null", "NaN", "inf", "1e400", "true", "[1]"] {
            assert!(Score::from_json_number(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_transaction_id_can_start_no_formula_and_hide_nothing() {
        for bad in [
            "",
            "=cmd|' /C calc'!A0",
            "@x",
            "+1",
            "-1",
            " =1",
            "\u{a0}@x",
            "a\u{1b}[2J",
            "a\u{9b}2J",
            "a\nb",
            "a\u{2028}b",
            "\u{202e}1-a",
            &"x".repeat(257),
        ] {
            assert!(TransactionId::new(bad).is_err(), "{bad:?}");
        }
        assert_eq!(
            TransactionId::new("44de328f-1").unwrap().as_str(),
            "44de328f-1"
        );
    }
}
