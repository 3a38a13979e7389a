//! Which options would help rows that cannot be sent.

use crate::fields::InvalidPhone;
use crate::input::ReaderSettings;
use crate::layout::Format;
use crate::verdict::Reason;

/// What would help rows that fail for some reason.
pub(super) struct Remedy {
    /// The options.
    pub(super) options: &'static [&'static str],
    /// What they do, and when, in words for people: a line for each option, short enough for 80 columns.
    pub(super) words: &'static str,
}

/// What decides which options would help.
#[derive(Debug, Clone, Copy)]
pub(super) struct RemedyContext {
    /// National phone numbers are read as those of a region.
    region: bool,
    /// Invalid phone numbers are left out.
    drop: bool,
    /// The file is JSONL, which is always UTF-8.
    jsonl: bool,
}

impl RemedyContext {
    /// For a file with these settings and this format.
    pub(super) fn new(settings: &ReaderSettings, format: Format) -> Self {
        let column = settings.assignments.region_column();
        Self {
            region: settings.phones.region.is_some() || column.is_some(),
            drop: matches!(settings.phones.invalid, InvalidPhone::Drop),
            jsonl: matches!(format, Format::Jsonl),
        }
    }
}

/// What would help; `None` if only the rows themselves can be changed.
pub(super) const fn remedy_for(reason: Reason, context: RemedyContext) -> Option<Remedy> {
    const MAP: &[&str] = &["--map"];
    let (options, words): (&[&str], _) = match reason {
        Reason::InvalidPhone => return for_phones(context),
        Reason::NotUtf8 if context.jsonl => return None,
        Reason::NotUtf8 => (
            &["--encoding"],
            "`--encoding`, such as `windows-1252`, if the file is in another encoding",
        ),
        Reason::Undecodable => (
            &["--encoding"],
            "another `--encoding`, if the file is not in the one that it names",
        ),
        Reason::MissingName => (MAP, "`--map name=COLUMN` if another column has it"),
        Reason::MissingIp | Reason::InvalidIp => {
            (MAP, "`--map ip=COLUMN` if another column has it")
        }
        Reason::MissingUserAgent => (
            &["--map", "--set"],
            "`--map user_agent=COLUMN` if another column has it\n`--set user_agent=VALUE` if it is the same for all; it replaces every row's value, so all requests change",
        ),
        Reason::MissingContact => (
            MAP,
            "`--map email=COLUMN` or `--map phone=COLUMN` if another column has one",
        ),
        Reason::InvalidEmail => (MAP, "`--map email=COLUMN` if another column has it"),
        Reason::WrongType => (
            MAP,
            "`--map FIELD=/POINTER` if the value is in a nested member\na number must be in quotes, and a phone number needs its `+`: \"+4930123456\"",
        ),
        Reason::AmbiguousField => (MAP, "`--map FIELD=MEMBER` says which one to send"),
        Reason::ExistingColumns => (
            &["--existing"],
            "`--existing keep` keeps the old columns under other names",
        ),
        // With another delimiter, hardly any row would fit its header.
        Reason::Ragged
        | Reason::TextAfterQuote
        | Reason::NotJson
        | Reason::TooDeep
        | Reason::NotAnObject
        | Reason::DuplicateKey
        | Reason::NulByte
        // These come from calls.
        | Reason::Refused
        | Reason::Forbidden
        | Reason::Throttled
        | Reason::Unreachable
        | Reason::ServerError
        | Reason::NoAnswer
        | Reason::BadAnswer => return None,
    };
    Some(Remedy { options, words })
}

/// What would help against phone numbers that are not international.
const fn for_phones(context: RemedyContext) -> Option<Remedy> {
    let (options, words): (&[&str], _) = match (context.region, context.drop) {
        (false, false) => (
            &["--phone-region", "--invalid-phone"],
            "`--phone-region CODE` reads national numbers\n`--invalid-phone drop` sends rows with an email address without the number",
        ),
        (false, true) => (
            &["--phone-region"],
            "they have no email address; `--phone-region CODE` reads national numbers",
        ),
        (true, false) => (
            &["--invalid-phone"],
            "`--invalid-phone drop` sends rows with an email address without the number",
        ),
        (true, true) => return None,
    };
    Some(Remedy { options, words })
}
