//! What a request brings: the service's answer, checked, or a failure with one of a fixed set of words for its reason.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::base::numbers::Decimal;
use crate::base::text::any_unsafe_to_print;

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
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whether a spreadsheet would read a cell as a formula (OWASP, "CSV injection"). Some ignore
/// leading white space.
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
    pub fn digits(&self) -> &str {
        self.0.text()
    }

    /// The number.
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

/// Why a row has no verdict, and the sentence for the rejects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The reason's word, for counting and filtering.
    pub reason: Reason,
    /// One sentence with control characters already escaped. It goes to the rejects only, as it may
    /// quote the row or the service.
    pub message: Box<str>,
}

impl Failure {
    /// A failure with its message.
    pub fn new(reason: Reason, message: impl Into<Box<str>>) -> Self {
        Self {
            reason,
            message: message.into(),
        }
    }
}

macro_rules! reasons {
    ($($(#[$doc:meta])* $variant:ident = $word:literal,)*) => {
        /// The reasons for which a row can fail. The words are part of the interface: rejects and
        /// summaries have them.
        // As large as a machine word: a `Result` that may hold a failure is moved several times per
        // field, and a single byte followed by padding is moved in pieces that the processor then
        // waits for, even when there is no failure.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[repr(usize)]
        pub enum Reason { $($(#[$doc])* $variant,)* }

        impl Reason {
            /// Every reason, in the order in which a summary lists them.
            pub(crate) const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The reason with this word.
            pub(crate) fn of_word(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|reason| reason.word() == word)
            }

            /// The reason's word.
            pub const fn word(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }
        }
    };
}

reasons! {
    /// The row has more or fewer cells than the header.
    Ragged = "ragged",
    /// Text between a closing quote and the next delimiter.
    TextAfterQuote = "text_after_quote",
    /// Quotes that are not those of the file's format: around a value that would be sent, or around whole lines.
    StrayQuotes = "stray_quotes",
    /// A line of JSONL that is not JSON.
    NotJson = "not_json",
    /// A line of JSONL that is JSON, but not an object.
    NotAnObject = "not_an_object",
    /// A member that would be sent appears twice in the object.
    DuplicateKey = "duplicate_key",
    /// A value that would be sent is neither a string nor absent.
    WrongType = "wrong_type",
    /// Two members could be the same field.
    AmbiguousField = "ambiguous_field",
    /// The row has columns with our names that must not be changed.
    ExistingColumns = "existing_columns",
    /// A value that would be sent is not UTF-8.
    NotUtf8 = "not_utf8",
    /// A value that would be sent is not text in the encoding that `--encoding` names.
    Undecodable = "undecodable",
    /// A value that would be sent has a NUL byte.
    NulByte = "nul_byte",
    /// No name.
    MissingName = "missing_name",
    /// No IP address.
    MissingIp = "missing_ip",
    /// No user agent.
    MissingUserAgent = "missing_user_agent",
    /// Neither email nor phone.
    MissingContact = "missing_contact",
    /// The IP address is not valid.
    InvalidIp = "invalid_ip",
    /// The email address is not valid.
    InvalidEmail = "invalid_email",
    /// The phone number is not in the international form.
    InvalidPhone = "invalid_phone",
    /// The service refused this row (400, 409, 413, 422 …).
    Refused = "refused",
    /// A single 403 among good answers, as from a firewall.
    Forbidden = "forbidden",
    /// The service kept throttling this row (429, 503 with `Retry-After`) while it accepted others.
    Throttled = "throttled",
    /// The service could not be reached.
    Unreachable = "unreachable",
    /// The service failed (500, 502, 503, 504, 408).
    ServerError = "server_error",
    /// The request was sent, but no complete answer came back: it may have been billed.
    NoAnswer = "no_answer",
    /// The service answered, and so billed the call, but without a usable verdict.
    BadAnswer = "bad_answer",
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// Reasons that a message names: the most frequent ones nearly always tell what is wrong with a file.
const NAMED: usize = 3;

/// `missing_name 3, invalid_ip 2`.
pub(crate) fn most_frequent(failed: &BTreeMap<Reason, u64>) -> String {
    let mut reasons: Vec<_> = failed.iter().collect();
    reasons.sort_by_key(|(_, rows)| Reverse(**rows));
    let named: Vec<_> = { reasons.iter().take(NAMED) }
        .map(|(reason, rows)| format!("{reason} {rows}"))
        .collect();
    named.join(", ")
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
