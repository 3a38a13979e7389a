//! Why a row failed, as one of a fixed set of words.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

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
        /// The reasons for which a row can fail. The words are part of the interface: rejects and
        /// summaries have them.
        // As large as a machine word: a `Result` that may hold a failure is moved several times per
        // field, and a single byte followed by padding is moved in pieces that the processor then
        // waits for, even when there is no failure.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(usize)]
        pub enum Reason { $($(#[$doc])* $variant,)* }

        impl Reason {
            /// Every reason, in the order in which a summary lists them.
            pub(crate) const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The reason with this word.
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
    /// The row has more or fewer cells than the header.
    Ragged = "ragged",
    /// Text between a closing quote and the next delimiter.
    TextAfterQuote = "text_after_quote",
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

impl Serialize for Reason {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

/// Reasons that a message names: the most frequent ones nearly always tell what is wrong with a file.
const NAMED: usize = 3;

/// `missing_name 3, invalid_ip 2`.
#[must_use]
pub(crate) fn most_frequent(failed: &BTreeMap<Reason, u64>) -> String {
    let mut reasons: Vec<_> = failed.iter().collect();
    reasons.sort_by_key(|(_, rows)| Reverse(**rows));
    let named: Vec<_> = { reasons.iter().take(NAMED) }
        .map(|(reason, rows)| format!("{reason} {rows}"))
        .collect();
    named.join(", ")
}

impl<'a> Deserialize<'a> for Reason {
    fn deserialize<D: serde::Deserializer<'a>>(from: D) -> Result<Self, D::Error> {
        let word = String::deserialize(from)?;
        Self::of_word(&word).ok_or_else(|| serde::de::Error::custom("an unknown reason"))
    }
}
