//! What became of a row, and the policy that turns a score into a decision.
//!
//! A row's fate is data: every row that is not left for a later run ends in exactly one [`Verdict`]. This file knows
//! neither HTTP nor files; `service` makes answers, `output` writes verdicts.

use std::fmt;

use serde::Serialize;

use crate::base::control_chars::any_unsafe_to_print;
use crate::base::decimal::Decimal;

/// The fate of one row.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// The service answered and the answer is good.
    Scored(Answer, Decision),
    /// The row has no answer; its three cells stay empty and its reason goes to the rejects.
    Failed(Failure),
}

impl Verdict {
    /// What it holds in memory, beside itself.
    #[must_use]
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Scored(answer, _) => {
                let captured = answer.captured.iter().flatten();
                captured.map(|value| value.len()).sum::<usize>()
                    + answer.transaction_id.as_str().len()
            }
            Self::Failed(failure) => failure.message.len(),
        }
    }

    /// The verdict in one word's worth of data, for events and counters.
    #[must_use]
    pub(crate) fn outline(&self) -> Resolution {
        match self {
            Self::Scored(_, decision) => Resolution::Scored(*decision),
            Self::Failed(failure) => Resolution::Failed(failure.reason),
        }
    }
}

/// A [`Verdict`] without its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resolution {
    /// Scored, with this decision.
    Scored(Decision),
    /// Failed, for this reason.
    Failed(Reason),
}

/// What the service said of a user, checked and ready to be written.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The transaction's identifier.
    pub transaction_id: TransactionId,
    /// The score with the digits that the service sent.
    pub score: Score,
    /// Further fields of the answer that the user asked for, as raw JSON, in the order asked; `None` where absent. A new
    /// answer has those behind them that other users of its ledger want.
    pub captured: Box<[Option<Box<str>>]>,
}

/// An identifier that is safe to write into any file: not empty, at most [`TransactionId::MAX_BYTES`] long, nothing in
/// it that is unsafe to print ([`any_unsafe_to_print`]), and nothing that a spreadsheet would run as a formula.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransactionId(Box<str>);

impl TransactionId {
    /// Identifiers seen are 36 characters long; seven times that leaves room and keeps a hostile one out of the file.
    pub(crate) const MAX_BYTES: usize = 256;

    /// Checks and takes an identifier.
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

/// Whether a spreadsheet would read a cell as a formula (OWASP, "CSV injection"). Some leave out white space in front.
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
    /// What is wrong with it: it is no number, beyond what a double can hold, or too long.
    pub fn from_json_number(text: &str) -> Result<Self, &'static str> {
        if text.len() > Self::MAX_CHARACTERS {
            return Err("is longer than 64 characters");
        }
        let number = text.starts_with(|first: char| first.is_ascii_digit() || first == '-');
        let number = Decimal::new(text).filter(|_| number);
        number.map(Self).ok_or("is no number")
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

/// Scores are the same when they are written the same.
impl PartialEq for Score {
    fn eq(&self, other: &Self) -> bool {
        self.digits() == other.digits()
    }
}

/// What the client does with a user of that score.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    /// Low risk.
    Approve,
    /// A person should look.
    Review,
    /// High risk.
    Block,
}

impl Decision {
    /// The word that is written to files.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Review => "review",
            Self::Block => "block",
        }
    }
}

/// The two thresholds: up to the first approve, up to the second review, above it block.
#[derive(Debug, Clone, PartialEq)]
pub struct DecisionPolicy {
    approve_max: Decimal,
    review_max: Decimal,
}

impl DecisionPolicy {
    /// A policy of these thresholds; `None` when the first is above the second.
    #[must_use]
    pub(crate) fn new(approve_max: Decimal, review_max: Decimal) -> Option<Self> {
        (approve_max <= review_max).then_some(Self {
            approve_max,
            review_max,
        })
    }

    /// The decision for a score.
    #[must_use]
    pub fn decide(&self, score: &Score) -> Decision {
        if *score.value() <= self.approve_max {
            Decision::Approve
        } else if *score.value() <= self.review_max {
            Decision::Review
        } else {
            Decision::Block
        }
    }
}

impl Default for DecisionPolicy {
    /// The convention of the service's interface, section 2.2.
    fn default() -> Self {
        Self {
            approve_max: Decimal::from(2),
            review_max: Decimal::from(5),
        }
    }
}

/// Why a row has no verdict, and the sentence for the rejects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The reason's word, for counting and filtering.
    pub reason: Reason,
    /// One sentence; control characters already escaped. Goes to the rejects only: it may quote the row or the service.
    pub message: Box<str>,
}

impl Failure {
    /// A failure with its message.
    #[must_use]
    pub fn new(reason: Reason, message: impl Into<Box<str>>) -> Self {
        Self {
            reason,
            message: message.into(),
        }
    }
}

macro_rules! reasons {
    ($($(#[$doc:meta])* $variant:ident = $word:literal,)*) => {
        /// The reasons for which a row can fail. The words are a promise: they stand in rejects and summaries.
        // A whole word: a `Result` with a failure in it is moved several times a field, and a byte with padding behind
        // it is moved in pieces that the processor then waits for, also where there is no failure.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(usize)]
        pub enum Reason { $($(#[$doc])* $variant,)* }

        impl Reason {
            /// Every reason, in the order in which a summary lists them.
            pub(crate) const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The reason of a word.
            #[must_use]
            pub(crate) fn of_word(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|reason| reason.word() == word)
            }

            /// The reason's word.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }
        }
    };
}

reasons! {
    /// More or fewer cells than the header has.
    Ragged = "ragged",
    /// Text between a closing quote and the next delimiter.
    TextAfterQuote = "text_after_quote",
    /// A line of JSONL that is no JSON.
    NotJson = "not_json",
    /// A member that nests too deep.
    TooDeep = "too_deep",
    /// A line of JSONL that is JSON but no object.
    NotAnObject = "not_an_object",
    /// A member that is sent stands twice in the object.
    DuplicateKey = "duplicate_key",
    /// A value that is sent is neither a string nor absent.
    WrongType = "wrong_type",
    /// Two members could be the same field.
    AmbiguousField = "ambiguous_field",
    /// The row has columns of our names that may not be touched.
    ExistingColumns = "existing_columns",
    /// A value that is sent is not UTF-8.
    NotUtf8 = "not_utf8",
    /// A value that is sent has a NUL byte.
    NulByte = "nul_byte",
    /// No name.
    MissingName = "missing_name",
    /// No IP address.
    MissingIp = "missing_ip",
    /// No user agent.
    MissingUserAgent = "missing_user_agent",
    /// Neither email nor phone.
    MissingContact = "missing_contact",
    /// The IP address does not parse.
    InvalidIp = "invalid_ip",
    /// The email address has no sound shape.
    InvalidEmail = "invalid_email",
    /// The phone number is not in the international form.
    InvalidPhone = "invalid_phone",
    /// The service refused this row (400, 409, 413, 422 …).
    Refused = "refused",
    /// A single 403 amid good answers, as a firewall gives.
    Forbidden = "forbidden",
    /// The service kept asking for fewer calls over this row (429, 503 with `Retry-After`) while it accepted others.
    Throttled = "throttled",
    /// The service could not be reached.
    Unreachable = "unreachable",
    /// The service failed (500, 502, 503, 504, 408).
    ServerError = "server_error",
    /// The request went out, but no whole answer came back: it may have been billed.
    NoAnswer = "no_answer",
    /// The service answered, and so has billed, but without a usable verdict.
    BadAnswer = "bad_answer",
}

impl Reason {
    /// Whether the row was asked: the others break a rule of ours and never cost a call.
    #[must_use]
    pub(crate) const fn is_of_call(self) -> bool {
        matches!(
            self,
            Self::Refused
                | Self::Forbidden
                | Self::Throttled
                | Self::Unreachable
                | Self::ServerError
                | Self::NoAnswer
                | Self::BadAnswer
        )
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl Serialize for Reason {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
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
    fn thresholds_belong_to_the_lower_side() {
        let policy = DecisionPolicy::default();
        let decide = |text| policy.decide(&Score::from_json_number(text).unwrap());
        assert_eq!(decide("2.0"), Decision::Approve);
        assert_eq!(decide("2.0000000000000000001"), Decision::Review);
        assert_eq!(decide("1.9999999999999999999"), Decision::Approve);
        assert_eq!(decide("5"), Decision::Review);
        assert_eq!(decide("50.0e-1"), Decision::Review);
        assert_eq!(decide("5.00000000000000000000000001"), Decision::Block);
    }

    #[test]
    fn thresholds_out_of_order_cannot_be_built() {
        let new = |approve, review| {
            DecisionPolicy::new(
                Decimal::new(approve).unwrap(),
                Decimal::new(review).unwrap(),
            )
        };
        assert_eq!(new("5", "2"), None);
        assert_eq!(new("2.0000000000000000001", "2"), None);
        assert!(new("2.0", "2").is_some());
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
