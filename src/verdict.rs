//! What became of a row: the service's answer, checked, or a failure with one of a fixed set of words for its reason; and the
//! policy that makes a decision of an answer, by its score and two thresholds, or by a level in it.
//!
//! A row's outcome is data: every row that is not left for a later run ends in exactly one [`Verdict`]. The service's interface
//! names a risk level but says neither where it is nor which values it has, so both come from the user; a level in no list has no
//! decision. This file knows neither HTTP nor files: `service` makes answers, `output` writes verdicts.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::base::numbers::Decimal;
use crate::base::text::{any_unsafe_to_print, is_unsafe_to_print};
use crate::raw_json;

/// The service's answer about a user, checked and ready to be written.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The transaction's identifier.
    pub transaction_id: TransactionId,
    /// The score with the digits that the service sent.
    pub score: Score,
    /// Further fields of the answer that `--column` names, as raw JSON in the order of the options; `None` if absent. In a new
    /// answer, the fields that other users of its ledger need follow them.
    pub captured: Box<[Option<Box<str>>]>,
}

/// The service's identifier of an answer: any text that is not empty and at most [`TransactionId::MAX_BYTES`] long. The answer
/// is paid for, whatever its identifier looks like; it is made harmless where it is written ([`id_cell`]).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TransactionId(Box<str>);

impl TransactionId {
    /// Usual identifiers have 36 characters, and signed tokens some hundred. A longer text is no identifier.
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

/// Whether a spreadsheet would read a cell as a formula (OWASP, "CSV injection"). Some ignore leading white space.
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
    /// The longest number that is accepted.
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
    /// One sentence with control characters already escaped. Only the rejects have it, as it may quote the row or the service.
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
        /// The reasons for which a row can fail. The words are part of the interface: rejects and summaries have them.
        // As large as a machine word: a `Result` that may hold a failure is moved several times per field, and a single byte
        // followed by padding is moved in pieces that the processor then waits for, even when there is no failure.
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

            /// Whether the row could not be split into cells: then the message of its failure has no value of the row.
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
    /// The row has columns with the names of added ones that must not be changed.
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
    /// A limit of the user's own left no call for it.
    Limit = "limit",
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// How many reasons a message names: the most frequent ones nearly always tell what is wrong with a file.
const NAMED_REASONS: usize = 3;

/// `missing_name 3, invalid_ip 2`.
pub(crate) fn most_frequent(failed: &BTreeMap<Reason, u64>) -> String {
    let mut reasons: Vec<_> = failed.iter().collect();
    reasons.sort_by_key(|(_, rows)| Reverse(**rows));
    let named = reasons.iter().take(NAMED_REASONS);
    let named: Vec<_> = named
        .map(|(reason, rows)| format!("{reason} {rows}"))
        .collect();
    named.join(", ")
}

/// The final outcome of one row.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// The service gave a usable answer. It has no decision if its level is in no list.
    Scored(Answer, Option<Decision>),
    /// The row has no answer: its three cells stay empty, and the rejects have it with its reason.
    Failed(Failure),
}

impl Verdict {
    /// How many bytes it holds on the heap.
    pub(crate) fn bytes(&self) -> usize {
        let answer = match self {
            Self::Scored(answer, _) => answer,
            Self::Failed(failure) => return failure.message.len(),
        };
        let captured = answer.captured.iter().flatten();
        let captured: usize = captured.map(|value| value.len()).sum();
        captured + answer.transaction_id.as_str().len()
    }

    /// The verdict without its values, for events and counters.
    pub(crate) fn outline(&self) -> Resolution {
        match self {
            Self::Scored(_, decision) => Resolution::Scored(*decision),
            Self::Failed(failure) => Resolution::Failed(failure.reason),
        }
    }
}

/// A [`Verdict`] without its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Resolution {
    /// Scored, with this decision, or none if the level is in no list.
    Scored(Option<Decision>),
    /// Failed, for this reason.
    Failed(Reason),
}

/// How decisions are made.
#[derive(Debug, Clone, PartialEq)]
pub enum DecisionPolicy {
    /// By the score.
    Score(Thresholds),
    /// By a level that the service gives.
    Level {
        /// What each level means.
        levels: Levels,
        /// The index of the level among the captured fields of an answer.
        field: usize,
    },
}

impl DecisionPolicy {
    /// The decision about an answer; `None` if its level is in no list.
    pub fn decide(&self, answer: &Answer) -> Option<Decision> {
        match self {
            Self::Score(thresholds) => Some(thresholds.decide(&answer.score)),
            Self::Level { levels, .. } => levels.decide(&self.level(answer)?),
        }
    }

    /// The thresholds, if scores decide.
    pub(crate) const fn thresholds(&self) -> Option<&Thresholds> {
        match self {
            Self::Score(thresholds) => Some(thresholds),
            Self::Level { .. } => None,
        }
    }

    /// The index of the level that decides among the captured fields of an answer; `None` if scores decide.
    pub(crate) const fn level_field(&self) -> Option<usize> {
        match self {
            Self::Score(_) => None,
            Self::Level { field, .. } => Some(*field),
        }
    }

    /// The level of an answer, if levels decide and it has one: a string's content, or any other value as it was written.
    pub(crate) fn level<'a>(&self, answer: &'a Answer) -> Option<Cow<'a, str>> {
        let json = answer.captured.get(self.level_field()?)?.as_deref()?;
        Some(raw_json::text(json)).filter(|level| !level.trim().is_empty())
    }
}

impl Default for DecisionPolicy {
    fn default() -> Self {
        Self::Score(Thresholds::default())
    }
}

/// What the client does with a user who has that score.
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
    /// All decisions, in the order of tables and lists.
    pub(crate) const ALL: [Self; 3] = [Self::Approve, Self::Review, Self::Block];

    /// The decision with this word.
    pub(crate) fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.word() == word)
    }

    /// The word that is written to files.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Review => "review",
            Self::Block => "block",
        }
    }
}

/// The two thresholds: approve up to the first, review up to the second, block above it.
#[derive(Debug, Clone, PartialEq)]
pub struct Thresholds {
    approve_max: Decimal,
    review_max: Decimal,
}

impl Thresholds {
    /// These thresholds; `None` if the first is above the second.
    pub(crate) fn new(approve_max: Decimal, review_max: Decimal) -> Option<Self> {
        (approve_max <= review_max).then_some(Self {
            approve_max,
            review_max,
        })
    }

    /// The highest score to approve.
    pub(crate) const fn approve_max(&self) -> &Decimal {
        &self.approve_max
    }

    /// The highest score to review.
    pub(crate) const fn review_max(&self) -> &Decimal {
        &self.review_max
    }

    /// The decision for a score.
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

impl Default for Thresholds {
    /// The convention of the service's interface (section 2.2).
    fn default() -> Self {
        Self {
            approve_max: Decimal::from(2),
            review_max: Decimal::from(5),
        }
    }
}

/// Lists of levels, each with its decision.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Levels(Vec<(Box<str>, Decision)>);

impl Levels {
    /// Adds a level.
    ///
    /// # Errors
    /// The decision whose list has it already.
    pub(crate) fn add(&mut self, level: &str, decision: Decision) -> Result<(), Decision> {
        if let Some(listed) = self.decide(level) {
            return Err(listed);
        }
        self.0.push((level.trim().into(), decision));
        Ok(())
    }

    /// Whether no level was added.
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The levels that mean this decision, in the order in which they were given.
    pub(crate) fn listed(&self, decision: Decision) -> impl Iterator<Item = &str> {
        let levels = self.0.iter().filter(move |(_, means)| *means == decision);
        levels.map(|(level, _)| &**level)
    }

    /// The decision for a level, compared without white space around it and without regard to case; `None` if it is in no
    /// list.
    pub(crate) fn decide(&self, level: &str) -> Option<Decision> {
        let level = level.trim();
        let found = self.0.iter().find(|(listed, _)| is_same(listed, level));
        found.map(|(_, decision)| *decision)
    }
}

fn is_same(a: &str, b: &str) -> bool {
    let lower = |c: char| c.to_lowercase();
    a.chars().flat_map(lower).eq(b.chars().flat_map(lower))
}

#[cfg(test)]
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
                "a cell that rescore writes is recognised"
            );
        }
        let id = |length| TransactionId::new(&"x".repeat(length)).is_ok();
        assert_eq!([0, 1, 4096, 4097].map(id), [false, true, true, false]);
    }

    #[test]
    fn a_score_equal_to_a_threshold_belongs_to_the_lower_side() {
        let policy = Thresholds::default();
        let decide = |text| policy.decide(&Score::from_json_number(text).unwrap());
        assert_eq!(decide("2.0"), Decision::Approve);
        assert_eq!(decide("2.00000000000001"), Decision::Review);
        assert_eq!(decide("1.99999999999999"), Decision::Approve);
        assert_eq!(decide("5"), Decision::Review);
        assert_eq!(decide("50.0e-1"), Decision::Review);
        assert_eq!(decide("5.00000000000001"), Decision::Block);
    }

    #[test]
    fn thresholds_out_of_order_cannot_be_built() {
        let new = |approve, review| {
            Thresholds::new(
                Decimal::new(approve).unwrap(),
                Decimal::new(review).unwrap(),
            )
        };
        assert_eq!(new("5", "2"), None);
        assert_eq!(new("2.0000001", "2"), None);
        assert!(new("2.0", "2").is_some());
    }

    #[test]
    fn a_level_is_compared_by_its_text_and_is_in_one_list_only() {
        let mut levels = Levels::default();
        assert!(levels.is_empty());
        levels.add(" Low ", Decision::Approve).unwrap();
        levels.add("0", Decision::Approve).unwrap();
        levels.add("élevé", Decision::Block).unwrap();
        assert_eq!(levels.add("LOW", Decision::Block), Err(Decision::Approve));
        for (level, decision) in [
            ("low", Some(Decision::Approve)),
            ("\tLOW ", Some(Decision::Approve)),
            ("0", Some(Decision::Approve)),
            ("ÉLEVÉ", Some(Decision::Block)),
            ("0.0", None),
            ("00", None),
            ("lo", None),
            ("lower", None),
            ("", None),
        ] {
            assert_eq!(levels.decide(level), decision, "{level}");
        }
    }

    #[test]
    fn a_json_value_is_its_text() {
        for (json, level) in [
            ("1", Some("1")),
            ("1.0", Some("1.0")),
            (r#""high""#, Some("high")),
            (r#""h\u0069gh ""#, Some("high ")),
            (r#""1""#, Some("1")),
            ("true", Some("true")),
            (r#"{"a":1}"#, Some(r#"{"a":1}"#)),
            ("null", None),
            (r#""null""#, Some("null")),
            (r#""""#, None),
            (r#"" \t""#, None),
        ] {
            let policy = DecisionPolicy::Level {
                levels: Levels::default(),
                field: 0,
            };
            let answer = Answer {
                transaction_id: TransactionId::default(),
                score: Score::from_json_number("1").unwrap(),
                captured: [Some(json.into())].into(),
            };
            assert_eq!(policy.level(&answer).as_deref(), level, "{json}");
        }
    }
}
