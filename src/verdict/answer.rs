//! What a request brings: the service's answer, checked, or a failure with one of a fixed set of words for its reason.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::base::numbers::Decimal;
use crate::base::text::{any_unsafe_to_print, is_unsafe_to_print};

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

/// The service's identifier of an answer: any text that is not empty and at most [`TransactionId::MAX_BYTES`] long. The answer
/// is paid for, whatever its identifier looks like; it is made harmless where it is written ([`id_cell`]).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TransactionId(Box<str>);

impl TransactionId {
    /// Identifiers seen are 36 characters long, and signed tokens some hundred. More than this is no identifier.
    pub(crate) const MAX_BYTES: usize = 4096;

    /// Checks an identifier.
    ///
    /// # Errors
    /// What is wrong with it, in a few words that do not repeat it.
    pub fn new(text: &str) -> Result<Self, &'static str> {
        if text.is_empty() {
            Err("is empty")
        } else if text.len() > Self::MAX_BYTES {
            Err("is longer than 4 KiB")
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

/// Text of the service as a cell has it: without characters that are unsafe to print, and with a quote before what a
/// spreadsheet would run.
pub(crate) fn harmless_cell(text: &str) -> Cow<'_, str> {
    if !any_unsafe_to_print(text) && !is_formula(text) {
        return Cow::Borrowed(text);
    }
    let mut safe = text.replace(is_unsafe_to_print, " ");
    if is_formula(&safe) {
        safe.insert(0, '\'');
    }
    Cow::Owned(safe)
}

/// An identifier as a cell has it. One in 64 of the URL-safe base64 alphabet starts with a dash; with only that alphabet after
/// it, a spreadsheet has nothing to run.
pub(crate) fn id_cell(id: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if id.bytes().all(is_plain) {
        return Cow::Borrowed(id);
    }
    harmless_cell(id)
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
    ($(#[doc = $doc:literal] $variant:ident = $word:literal,)*) => {
        /// The reasons for which a row can fail. The words are part of the interface: rejects and
        /// summaries have them.
        // As large as a machine word: a `Result` that may hold a failure is moved several times per
        // field, and a single byte followed by padding is moved in pieces that the processor then
        // waits for, even when there is no failure.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[repr(usize)]
        pub enum Reason { $(#[doc = $doc] $variant,)* }

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

            /// The reason in a sentence.
            pub(crate) const fn sentence(self) -> &'static str {
                match self { $(Self::$variant => $doc,)* }
            }

            /// Whether the row's cells cannot be told apart: then the message of its failure has no value of the row.
            pub(crate) const fn is_about_cells(self) -> bool {
                matches!(self, Self::Ragged | Self::TextAfterQuote)
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
    /// The budget left no call for it.
    Limit = "limit",
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
    fn any_text_is_a_transaction_id_and_its_cell_is_no_formula_and_hides_nothing() {
        for (id, cell) in [
            ("44de328f-1", "44de328f-1"),
            ("-abc_1", "-abc_1"),
            ("--", "--"),
            ("-1", "-1"),
            ("-1+1", "'-1+1"),
            ("-cmd|' /C calc'!A0", "'-cmd|' /C calc'!A0"),
            ("-\u{e9}", "'-\u{e9}"),
            ("=1+1", "'=1+1"),
            ("'=1+1", "'=1+1"),
            ("@x", "'@x"),
            ("+1", "'+1"),
            (" =1", "' =1"),
            ("\u{a0}@x", "'\u{a0}@x"),
            ("\t=1", "' =1"),
            ("\tx", " x"),
            ("a\u{1b}[2J", "a [2J"),
            ("a\u{9b}2J", "a 2J"),
            ("a\r\nb", "a  b"),
            ("a\u{2028}b", "a b"),
            ("\u{202e}1-a", " 1-a"),
            ("\u{6f22}", "\u{6f22}"),
        ] {
            assert_eq!(TransactionId::new(id).unwrap().as_str(), id);
            assert_eq!(id_cell(id), cell, "{id:?}");
            assert_eq!(
                id_cell(cell),
                cell,
                "a cell that is written is read as ours"
            );
        }
        let id = |length| TransactionId::new(&"x".repeat(length)).is_ok();
        assert_eq!([0, 1, 4096, 4097].map(id), [false, true, true, false]);
    }
}
