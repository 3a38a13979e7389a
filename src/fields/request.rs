//! A user's request: its values sanitised and checked.
//!
//! The interface asks the client to strip white space and to sanitise (section 2.1, rule 3). What different programs write
//! in different ways becomes one text here, so that one person makes one request. Values stay borrowed from the row's bytes
//! unless they must be changed.

use std::borrow::Cow;
use std::iter;
use std::net::{IpAddr, SocketAddr};
use std::ops::AddAssign;

use serde::Serialize;

use super::names::{Field, PerField};
use super::phone::{self, PhoneRegion};
use crate::base::error::{Error, Result};
use crate::base::text::{TextEncoding, any_byte, composed, quoted};
use crate::verdict::{Failure, Reason};

/// What to do with a phone number or an email address that cannot be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Invalid {
    /// The row fails.
    #[default]
    Reject,
    /// The row is sent without it, if it has the other of the two.
    Drop,
    /// An email address is sent as it is. A row with an invalid phone number fails: the service takes no other form.
    Send,
}

/// The rules for values, and what stands for an empty one.
#[derive(Debug, Clone, Default)]
pub struct FieldRules {
    /// The region of national phone numbers, if the row does not name it.
    pub(crate) region: Option<PhoneRegion>,
    /// What to do with a phone number or an email address that cannot be sent.
    pub(crate) invalid: Invalid,
    /// Texts that stand for an empty cell.
    pub(crate) nulls: Vec<String>,
    /// What is sent where a row has no value.
    pub(crate) defaults: PerField<Option<String>>,
    /// A row may have any of the fields: those that it lacks are empty.
    pub(crate) is_list: bool,
}

impl FieldRules {
    /// The rules of rows in which nothing stands for an empty value.
    pub fn new(region: Option<PhoneRegion>, invalid: Invalid) -> Self {
        Self {
            region,
            invalid,
            ..Self::default()
        }
    }

    /// Adds one `--default`.
    ///
    /// # Errors
    /// The field was given before, or no row could be sent with this value.
    pub(crate) fn set_default(&mut self, field: Field, value: &str) -> Result<()> {
        let value = constant(value, field).map_err(|wrong| {
            Error::usage(format!(
                "no row could be sent with `--default {field}=…`: its value {wrong}"
            ))
        })?;
        let default = self.defaults.get_mut(field);
        if default.is_some() {
            return Err(Error::usage(format!(
                "`{field}` is given twice in `--default`"
            )));
        }
        *default = Some(value);
        Ok(())
    }

    /// The value of a cell: a text that stands for an empty cell is none.
    ///
    /// # Errors
    /// That of the cell, or quotes around its value.
    #[inline]
    pub(crate) fn cell<'a>(
        &self,
        cell: Result<Option<Cow<'a, str>>, Failure>,
    ) -> Result<Option<Cow<'a, str>>, Failure> {
        let is_value = |text: &Cow<'_, str>| !self.nulls.iter().any(|null| null == text.trim());
        match cell?.filter(is_value) {
            Some(text) if is_quoted(&text) => Err(Failure::new(
                Reason::StrayQuotes,
                "a value has quotes at both ends that do not belong to it",
            )),
            cell => Ok(cell),
        }
    }
}

/// Numbers of rows with values that a person should know about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Noticed {
    /// Rows that are sent without a phone number or an email address that is invalid.
    pub(crate) dropped: u64,
    /// Rows that are sent with one address out of a longer text: the first public one of a list, or one without its port.
    pub(crate) addresses_shortened: u64,
    /// Cells with a word such as `NULL`, which is taken for a value.
    pub(crate) null_words: u64,
}

impl AddAssign for Noticed {
    fn add_assign(&mut self, other: Self) {
        self.dropped += other.dropped;
        self.addresses_shortened += other.addresses_shortened;
        self.null_words += other.null_words;
    }
}

/// A user as sent to the service: sanitised, and valid by the interface's rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserRequest<'a> {
    /// The full name.
    pub name: Cow<'a, str>,
    /// The email address.
    pub email: Option<Cow<'a, str>>,
    /// The phone number: `+` and 7 to 15 digits.
    pub phone: Option<Cow<'a, str>>,
    /// The IPv4 or IPv6 address.
    pub ip: Cow<'a, str>,
    /// The browser's user agent.
    pub user_agent: Cow<'a, str>,
}

impl<'a> UserRequest<'a> {
    /// Sanitises and checks the values that `find` returns for each field; `None` is absent. `region` returns what the
    /// row's column of regions says, if the file has one; it is called only for a number that is not international. Findings
    /// are added to `noticed`.
    ///
    /// # Errors
    /// The first rule that the row breaks.
    pub(crate) fn new<'r>(
        mut find: impl FnMut(Field) -> Result<Option<Cow<'a, str>>, Failure>,
        rules: &'a FieldRules,
        region: impl FnOnce() -> Option<Cow<'r, str>>,
        noticed: &mut Noticed,
    ) -> Result<Self, Failure> {
        let mut value_of = |field| {
            let value = match rules.cell(find(field))? {
                Some(text) => clean(text, field)?,
                None => None,
            };
            let is_null = value.as_deref().is_some_and(is_null_word);
            noticed.null_words += u64::from(is_null);
            let default = || rules.defaults.get(field).as_deref().map(Cow::Borrowed);
            Ok::<_, Failure>(value.or_else(default))
        };
        let nothing = || rules.is_list.then_some(Cow::Borrowed(""));
        let mut required = |field, reason| {
            let missing = || Failure::new(reason, format!("no {field}"));
            value_of(field)?.or_else(nothing).ok_or_else(missing)
        };
        let name = required(Field::Name, Reason::MissingName)?;
        let ip = required(Field::Ip, Reason::MissingIp)?;
        let user_agent = required(Field::UserAgent, Reason::MissingUserAgent)?;
        let email = value_of(Field::Email)?;
        let phone = value_of(Field::Phone)?;

        let (ip, is_shortened) = match &*ip {
            "" => (ip, false),
            _ => checked_ip(ip)?,
        };
        let as_written = email.clone();
        let email = email.map(checked_email).transpose();
        let phone = phone.map(|value| phone::phone(value, rules.region, region));
        let (email, phone, dropped) = match (email, phone.transpose()) {
            (Err(_), phone) if rules.invalid == Invalid::Send => (as_written, phone?, 0),
            (Err(_), Ok(Some(phone))) if rules.invalid == Invalid::Drop => (None, Some(phone), 1),
            (Ok(Some(email)), Err(_)) if rules.invalid == Invalid::Drop => (Some(email), None, 1),
            (email, phone) => (email?, phone?, 0),
        };
        if email.is_none() && phone.is_none() && !rules.is_list {
            return Err(Failure::new(
                Reason::MissingContact,
                "neither email nor phone",
            ));
        }
        noticed.dropped += dropped;
        noticed.addresses_shortened += u64::from(is_shortened);
        Ok(Self {
            name,
            email,
            phone,
            ip,
            user_agent,
        })
    }
}

/// The longest address that a mail path can have (RFC 5321, section 4.5.3.1.3, without the angle brackets).
const EMAIL_CHARACTERS: usize = 254;

/// The value as text.
///
/// # Errors
/// Bytes that are not text in this encoding: a replacement character must never reach a paid call.
#[inline]
pub(crate) fn text(
    bytes: Cow<'_, [u8]>,
    encoding: TextEncoding,
    field: Field,
) -> Result<Cow<'_, str>, Failure> {
    // Nearly every value takes this path, so it must be short.
    if let (true, Cow::Borrowed(bytes)) = (encoding.is_utf8(), &bytes)
        && let Ok(text) = std::str::from_utf8(bytes)
    {
        return Ok(Cow::Borrowed(text));
    }
    encoding.decode(bytes).ok_or_else(|| {
        let reason = if encoding.is_utf8() {
            Reason::NotUtf8
        } else {
            Reason::Undecodable
        };
        Failure::new(reason, format!("{field} is not {encoding}"))
    })
}

/// The text without surrounding white space and in [one form](`one_form`); `None` if that is empty.
///
/// # Errors
/// A NUL byte.
pub(super) fn clean(text: Cow<'_, str>, field: Field) -> Result<Option<Cow<'_, str>>, Failure> {
    let text = match text {
        Cow::Borrowed(text) if is_plain(text.trim()) => Cow::Borrowed(text.trim()),
        text if text.contains('\0') => {
            let message = format!("{field} contains a NUL byte");
            return Err(Failure::new(Reason::NulByte, message));
        }
        text => Cow::Owned(one_form(&text, field)),
    };
    Ok((!text.is_empty()).then_some(text))
}

/// The one form of a text that is written in several ways: without invisible characters, with one blank for any white space, and
/// with composed letters, as in `é` for an `e` with an accent after it. In a phone number a line break stays, as another number
/// may follow it.
fn one_form(text: &str, field: Field) -> String {
    let is_kept = |c: &char| c.is_whitespace() || !is_invisible(*c);
    let is_break = |c| matches!(c, '\n'..='\r' | '\u{85}' | '\u{2028}' | '\u{2029}');
    let on_one_line = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let text: String = text.chars().filter(is_kept).collect();
    let lines = text.split(is_break).map(on_one_line);
    let lines: Vec<_> = lines.filter(|line| !line.is_empty()).collect();
    let text = lines.join(if field == Field::Phone { "\n" } else { " " });
    composed(&text).into_owned()
}

/// Whether it is a control character, or one that only affects how others look, such as the marks in texts that people copy from
/// phones and web pages: soft hyphens, joiners, marks of direction, byte order marks and variation selectors.
fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}'
                | '\u{61c}'
                | '\u{200b}'..='\u{200f}'
                | '\u{202a}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{fe00}'..='\u{fe0f}'
                | '\u{feff}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

/// Whether a text is ASCII in its one form, as nearly all values are. Both checks look at many bytes at a time.
fn is_plain(text: &str) -> bool {
    !any_byte(text.as_bytes(), |byte| !(0x20..0x7f).contains(&byte)) && !text.contains("  ")
}

/// Quotes that stand at both ends of a text.
const QUOTES: [(char, char); 7] = [
    ('"', '"'),
    ('\'', '\''),
    ('`', '`'),
    ('\u{201c}', '\u{201d}'),
    ('\u{201e}', '\u{201c}'),
    ('\u{2018}', '\u{2019}'),
    ('\u{ab}', '\u{bb}'),
];

/// Whether a value has quotes at both ends: then they do not belong to it, and the file does not quote as its format demands, but
/// for instance with a space before each quote. A quote after an invisible character was meant to open the cell.
#[inline]
fn is_quoted(text: &str) -> bool {
    let text = text.trim();
    // Nearly every value starts with a letter or a digit.
    if text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '+') {
        return false;
    }
    let visible = text.trim_matches(|c: char| c.is_whitespace() || is_invisible(c));
    let mut characters = visible.chars();
    let ends = characters.next().zip(characters.next_back());
    ends.is_some_and(|ends| QUOTES.contains(&ends))
        || visible.starts_with('"') && text.starts_with(is_invisible)
}

/// Words that databases, spreadsheets and programs write for a missing value.
#[rustfmt::skip]
const NULL_WORDS: [&str; 21] = [
    "-", "null", "\\n", "none", "nan", "nat", "nil", "n/a", "(null)", "<null>", "<na>", "#n/a",
    "#ref!", "#name?", "#value!", "#error!", "#div/0!", "#num!", "#null!", "undefined", "[object object]",
];

/// Whether a value is a word for a missing one.
#[inline]
pub(super) fn is_null_word(text: &str) -> bool {
    let text = text.trim();
    // Nearly every value is longer, or starts otherwise.
    text.len() <= 15
        && text.starts_with(|c: char| !c.is_ascii_alphanumeric() || "nNuU".contains(c))
        && NULL_WORDS
            .iter()
            .any(|word| word.eq_ignore_ascii_case(text))
}

/// The address, and whether it was taken out of a longer text: the first public one of a list, as proxies write it, or one without
/// its port. An IPv4 address that is written as an IPv6 one becomes IPv4.
fn checked_ip(value: Cow<'_, str>) -> Result<(Cow<'_, str>, bool), Failure> {
    let whole = value.parse::<IpAddr>().ok();
    if whole.is_some_and(|address| address == address.to_canonical()) {
        return Ok((value, false));
    }
    let listed = value.split([',', ';']);
    let listed = listed.flat_map(|item| item.trim().split(' '));
    // What follows anything else, such as `unknown` for an address that a proxy hides, are addresses of proxies.
    let mut addresses = listed.map_while(|item| {
        let of_socket = |_| item.parse().map(|socket: SocketAddr| socket.ip());
        let bare = item.trim_start_matches('[').trim_end_matches(']');
        let address = bare.parse::<IpAddr>().or_else(of_socket).ok()?;
        Some(address.to_canonical())
    });
    let Some(first) = addresses.next() else {
        let message = format!("ip {} is neither IPv4 nor IPv6", quoted(&value));
        return Err(Failure::new(Reason::InvalidIp, message));
    };
    let public = iter::once(first).chain(addresses).find(is_public);
    let address = public.unwrap_or(first).to_string();
    Ok((Cow::Owned(address), whole.is_none()))
}

/// Whether an address is none of a private network, of a single machine, of a provider's internal network, or of a group (IANA's
/// registries of special-purpose addresses).
pub(super) const fn is_public(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => !matches!(
            v4.octets(),
            [0 | 10 | 127 | 224.., ..]
                | [100, 64..=127, ..]
                | [169, 254, ..]
                | [172, 16..=31, ..]
                | [192, 168, ..]
        ),
        IpAddr::V6(v6) => !matches!(
            v6.segments(),
            [0, 0, 0, 0, 0, 0, 0, 0..=1] | [0xfc00..=0xfdff | 0xfe80..=0xfebf | 0xff00.., ..]
        ),
    }
}

/// An address without what programs write around one: the separator of a list, angle brackets, and `mailto:` or Exchange's
/// `SMTP:`.
fn unwrapped(text: &str) -> &str {
    let text = text.trim_end_matches([',', ';', ' ']);
    let inner = text.strip_prefix('<');
    let inner = inner.and_then(|text| text.strip_suffix('>'));
    let text = inner.map_or(text, str::trim);
    match text.split_once(':') {
        Some((scheme, address)) if ["mailto", "smtp"].contains(&&*scheme.to_ascii_lowercase()) => {
            address.trim_start()
        }
        _ => text,
    }
}

/// Characters of ASCII that no local part has, unless it is quoted (RFC 5322, section 3.2.3).
const NEVER_IN_EMAIL: &[u8] = b"<>()[]\\,;:\"";

/// Whether an address has a character that no address may have.
fn is_garbled(local: &str, domain: &str) -> bool {
    let is_quoted = local.starts_with('"') && local.ends_with('"');
    let is_literal = domain.starts_with('[') && domain.ends_with(']');
    let in_domain =
        |byte: u8| byte.is_ascii_alphanumeric() || !byte.is_ascii() || b"-._".contains(&byte);
    !is_quoted && local.bytes().any(|byte| NEVER_IN_EMAIL.contains(&byte))
        || !is_literal && !domain.bytes().all(in_domain)
}

/// The address, without what programs write around it and with its domain in lower case.
fn checked_email(value: Cow<'_, str>) -> Result<Cow<'_, str>, Failure> {
    let wrong = |what: &str| {
        Failure::new(
            Reason::InvalidEmail,
            format!("email {} {what}", quoted(&value)),
        )
    };
    let bare = unwrapped(&value);
    let (local, domain) = bare.split_once('@').ok_or_else(|| wrong("has no @"))?;
    if domain.contains('@') {
        return Err(wrong("has more than one @"));
    }
    if local.is_empty() || domain.is_empty() {
        return Err(wrong("has nothing before or after the @"));
    }
    if bare.contains(' ') {
        return Err(wrong("has a space"));
    }
    if is_garbled(local, domain) {
        return Err(wrong("has characters that no address has"));
    }
    if bare.len() > EMAIL_CHARACTERS && bare.chars().count() > EMAIL_CHARACTERS {
        return Err(wrong("is longer than 254 characters"));
    }
    if bare.len() < value.len() || domain.contains(char::is_uppercase) {
        return Ok(Cow::Owned(format!("{local}@{}", domain.to_lowercase())));
    }
    Ok(value)
}

/// A value that would be sent in many rows, in its one form.
///
/// # Errors
/// What is wrong with it, without the value, which may be personal data.
pub(super) fn constant(value: &str, field: Field) -> Result<String, &'static str> {
    let Ok(Some(value)) = clean(value.into(), field) else {
        return Err("is blank");
    };
    let text = value.clone();
    let (is_right, wrong) = match field {
        Field::Name | Field::UserAgent => (true, ""),
        Field::Ip => (checked_ip(text).is_ok(), "is neither IPv4 nor IPv6"),
        Field::Email => (checked_email(text).is_ok(), "is not an email address"),
        Field::Phone => (
            phone::international(text).is_ok(),
            "is not + and 7 to 15 digits",
        ),
    };
    is_right.then(|| value.into_owned()).ok_or(wrong)
}

#[cfg(test)]
mod tests {
    use Field::{Email, Ip, Name, Phone, UserAgent};

    use super::*;

    /// A user's request, except for what is set, whose values are read as text like CSV cells.
    fn request<'a>(
        set: &[(Field, &'a [u8])],
        rules: &'a FieldRules,
    ) -> Result<UserRequest<'a>, Failure> {
        noticing(set, rules, &mut Noticed::default())
    }

    /// The same, with what is noticed of it.
    fn noticing<'a>(
        set: &[(Field, &'a [u8])],
        rules: &'a FieldRules,
        noticed: &mut Noticed,
    ) -> Result<UserRequest<'a>, Failure> {
        let find = |field| {
            let value = match field {
                Name => Some(&b"Jane Doe"[..]),
                Email => Some(&b"jane@example.com"[..]),
                Phone => None,
                Ip => Some(&b"192.0.2.1"[..]),
                UserAgent => Some(&b"Mozilla/5.0"[..]),
            };
            let set = set.iter().find(|(name, _)| *name == field);
            let value = set.map(|(_, value)| *value).or(value);
            let value = value.map(|value| text(Cow::Borrowed(value), TextEncoding::UTF_8, field));
            value.transpose()
        };
        UserRequest::new(find, rules, || None, noticed)
    }

    fn rules(invalid: Invalid) -> FieldRules {
        FieldRules {
            invalid,
            ..FieldRules::default()
        }
    }

    #[test]
    fn one_person_is_one_request_however_the_values_are_written() {
        for (field, written, sent) in [
            (Name, "\u{a0}\u{2003} Jane\u{7}\nDoe\u{85} ", "Jane Doe"),
            (Name, "Jane\tDoe", "Jane Doe"),
            (Name, "Jane  \r\n\r\n Doe", "Jane Doe"),
            (Name, "Jane \u{200b} Doe", "Jane Doe"),
            (Name, "Jane\u{2028}van\u{3000}Doe", "Jane van Doe"),
            (Name, "Zoe\u{308} Doe", "Zo\u{eb} Doe"),
            (Name, "Zoe\u{200b}\u{308}", "Zo\u{eb}"),
            (Name, "\u{212b}sa", "\u{c5}sa"),
            // Only another form of the same letters.
            (
                Name,
                "Zo\u{eb} \u{fb01}\u{2460}",
                "Zo\u{eb} \u{fb01}\u{2460}",
            ),
            (
                UserAgent,
                "Mozilla/5.0\n(X11;  Linux)",
                "Mozilla/5.0 (X11; Linux)",
            ),
            (Email, "Jane.Doe@EXAMPLE.Com", "Jane.Doe@example.com"),
            (Email, "a@B\u{dc}CHER.example", "a@b\u{fc}cher.example"),
            (Email, "mailto:A@x.org", "A@x.org"),
            (Email, "MAILTO: a@x.org", "a@x.org"),
            (Email, "SMTP:a@x.org", "a@x.org"),
            (Email, "<a@x.org>", "a@x.org"),
            (Email, "< a@x.org > ;", "a@x.org"),
            (Email, "<mailto:a@x.org>,", "a@x.org"),
            (Email, "a@x.org,", "a@x.org"),
            (Email, "a@x.org ; ", "a@x.org"),
            (Email, "o'neil+a|b!#@x-y_z.org.", "o'neil+a|b!#@x-y_z.org."),
            (Email, "\"a,b\"@x.org", "\"a,b\"@x.org"),
            (Email, "a@[192.0.2.1]", "a@[192.0.2.1]"),
            (Phone, "\n+372\t555 1234\r\n", "+3725551234"),
            (Ip, "::ffff:203.0.113.5", "203.0.113.5"),
            (Ip, "::FFFF:cb00:7105", "203.0.113.5"),
            (Ip, "2001:DB8::1", "2001:DB8::1"),
            (Ip, "\t10.0.0.1\n", "10.0.0.1"),
        ] {
            let rules = rules(Invalid::Reject);
            let request = request(&[(field, written.as_bytes())], &rules);
            let request = request.map_err(|failure| failure.message).unwrap();
            let found = match field {
                Name => &request.name,
                Email => request.email.as_ref().unwrap(),
                Phone => request.phone.as_ref().unwrap(),
                Ip => &request.ip,
                UserAgent => &request.user_agent,
            };
            assert_eq!(found, sent, "{field} {written:?}");
        }
    }

    #[test]
    fn each_broken_rule_has_its_reason() {
        let email = |length: usize| format!("{}@example.com", "x".repeat(length - 12));
        let (longest, long) = (email(254), email(255));
        for (field, value, expected) in [
            (Name, &b" "[..], Reason::MissingName),
            (Ip, b"", Reason::MissingIp),
            (UserAgent, b"\t", Reason::MissingUserAgent),
            (Email, b"", Reason::MissingContact),
            (Ip, b"1.2.3", Reason::InvalidIp),
            (Ip, b"256.1.1.1", Reason::InvalidIp),
            (Ip, b"fe80::1%eth0", Reason::InvalidIp),
            (Email, b"jane", Reason::InvalidEmail),
            (Email, b"@example.com", Reason::InvalidEmail),
            (Email, b"jane@", Reason::InvalidEmail),
            (Email, b"a@b@c", Reason::InvalidEmail),
            (Email, b"a b@c", Reason::InvalidEmail),
            // Perhaps two numbers, which would be read as one.
            (Phone, b"+372 555 1234\n5551", Reason::InvalidPhone),
            (
                Phone,
                b"+372 555 1234\r\n+372 555 1235",
                Reason::InvalidPhone,
            ),
            (
                Phone,
                "+372 555\u{2028}1234".as_bytes(),
                Reason::InvalidPhone,
            ),
            (Email, long.as_bytes(), Reason::InvalidEmail),
            (Phone, b"0151 2345678", Reason::InvalidPhone),
            (Phone, b"+123456", Reason::InvalidPhone),
            (Phone, b"+1234567890123456", Reason::InvalidPhone),
            (Phone, b"+49 151 CALLME", Reason::InvalidPhone),
            // Decimals, of which more than one may be the end of a number; and a zero that is dialled within the country.
            (Phone, b"+491512345678.00", Reason::InvalidPhone),
            (Phone, b"1701234567.0", Reason::InvalidPhone),
            (Phone, b"+49 0151 234", Reason::InvalidPhone),
            // A country code never starts with 0.
            (Phone, b"+0151 2345678", Reason::InvalidPhone),
            (Phone, b"000151 2345678", Reason::InvalidPhone),
            (Phone, b"+ (0)151 2345678", Reason::InvalidPhone),
            // Neither the one nor the other.
            (Phone, b"=+442079460958+1", Reason::InvalidPhone),
            (Phone, b"=\"+442079460958", Reason::InvalidPhone),
            (Phone, b"tel:+442079460958;ext=5", Reason::InvalidPhone),
            (Phone, b"fax:+442079460958", Reason::InvalidPhone),
            (Phone, b"'+442079460958'", Reason::StrayQuotes),
            (Name, b"Jane\0", Reason::NulByte),
            (Name, b"Jane\xff", Reason::NotUtf8),
            // Quotes that are not those of the file's format.
            (Email, b" \"a@x.org\"", Reason::StrayQuotes),
            (Name, b"'Jane Doe'", Reason::StrayQuotes),
            (
                UserAgent,
                "\u{201c}curl\u{201d}".as_bytes(),
                Reason::StrayQuotes,
            ),
        ] {
            let rules = rules(Invalid::Reject);
            let failure = request(&[(field, value)], &rules).unwrap_err();
            assert_eq!(failure.reason, expected, "{field} {}", value.escape_ascii());
        }
        assert!(request(&[(Email, longest.as_bytes())], &rules(Invalid::Reject)).is_ok());
    }

    #[test]
    fn more_than_an_address_is_no_email() {
        for written in [
            "Jane <a@x.org>",
            "[a@x.org](mailto:a)",
            "a@x.org|",
            "a@x.org?subject=b",
            "<a@x.org",
            "xmpp:a@x.org",
            "mailto:",
            ",;",
            "a@x.org; b@x.org",
            "a@x.org\nb@x.org",
            "a@\nx.org",
        ] {
            let rules = rules(Invalid::Reject);
            let failure = request(&[(Email, written.as_bytes())], &rules).unwrap_err();
            assert_eq!(failure.reason, Reason::InvalidEmail, "{written}");
        }
    }

    #[test]
    fn phone_numbers_are_converted_to_the_international_form() {
        for (written, sent) in [
            ("+1 (555) 010-0199", "+15550100199"),
            ("0049.151.2345678", "+491512345678"),
            ("0049 (0) 151 2345678", "+491512345678"),
            ("+44\u{a0}20\u{2011}7946 [0958]", "+442079460958"),
            ("(+44)(0)20 7946 0958", "+442079460958"),
            // A zero that is not directly after the country code is an ordinary digit.
            ("+44 20 (0)7946 0958", "+4420079460958"),
            ("+4420 (0)7946 0958", "+4420079460958"),
            // A program took it for a decimal number.
            ("+491512345678.0", "+491512345678"),
            // The zero is dialled within the country, except in Italy.
            ("+44 (020) 7946 0958", "+442079460958"),
            ("+49 0170 1234567", "+491701234567"),
            ("0033 06 12 34 56 78", "+33612345678"),
            ("+39 06 698 12345", "+390669812345"),
            (
                "\u{ff0b}\u{ff14}\u{ff14} \u{ff12}\u{ff10} 7946 0958",
                "+442079460958",
            ),
            ("+\u{664}\u{664} 20 7946 0958", "+442079460958"),
            // What keeps a spreadsheet from making a number of it, and a link.
            ("'+442079460958", "+442079460958"),
            ("\u{2019}0044 20 7946 0958", "+442079460958"),
            ("=\"+442079460958\"", "+442079460958"),
            ("tel:+44-20-7946-0958", "+442079460958"),
            ("TEL:+442079460958.0", "+442079460958"),
        ] {
            let rules = rules(Invalid::Reject);
            let request = request(&[(Phone, written.as_bytes())], &rules).unwrap();
            assert_eq!(request.phone.as_deref(), Some(sent));
        }
    }

    #[test]
    fn invisible_characters_are_not_sent() {
        let rules = rules(Invalid::Reject);
        for invisible in [
            "\u{200b}", "\u{200e}", "\u{202c}", "\u{2066}", "\u{feff}", "\u{ad}", "\u{fe0f}",
            "\u{61c}",
        ] {
            let email = format!("ja{invisible}ne@example.com{invisible}");
            let phone = format!("{invisible}+1 555{invisible} 0100199");
            let set = [(Email, email.as_bytes()), (Phone, phone.as_bytes())];
            let request = request(&set, &rules).unwrap();
            let found = (request.email.as_deref(), request.phone.as_deref());
            assert_eq!(
                found,
                (Some("jane@example.com"), Some("+15550100199")),
                "{}",
                invisible.escape_unicode()
            );
        }
    }

    #[test]
    fn one_address_is_taken_out_of_a_list_and_without_its_port_and_words_for_nothing_are_noticed() {
        let rules = rules(Invalid::Reject);
        let mut noticed = Noticed::default();
        for (written, sent) in [
            ("203.0.113.5, 10.0.0.1", "203.0.113.5"),
            ("2001:db8::1;10.0.0.1", "2001:db8::1"),
            ("203.0.113.5:443", "203.0.113.5"),
            ("[2001:db8::1]:443", "2001:db8::1"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("[::ffff:203.0.113.5]:443", "203.0.113.5"),
            ("10.0.0.1, 203.0.113.5", "203.0.113.5"),
            ("10.0.0.1:80 , 203.0.113.5:443", "203.0.113.5"),
            (
                "192.168.1.1;100.64.0.1 169.254.0.1\n172.31.0.1,172.32.0.1",
                "172.32.0.1",
            ),
            ("127.0.0.1,fd00::1,fe80::1,::1,2001:db8::1", "2001:db8::1"),
            ("::ffff:10.0.0.1, 203.0.113.5, 203.0.113.6", "203.0.113.5"),
            // None is public, or something else is before it.
            ("10.0.0.1, 10.0.0.2", "10.0.0.1"),
            ("10.0.0.1, unknown, 203.0.113.5", "10.0.0.1"),
            ("203.0.113.5 (proxy)", "203.0.113.5"),
        ] {
            let request = noticing(&[(Ip, written.as_bytes())], &rules, &mut noticed).unwrap();
            assert_eq!(request.ip, sent);
        }
        assert_eq!((noticed.addresses_shortened, noticed.null_words), (14, 0));
        for bad in ["unknown, 10.0.0.1", "10.0.0.1:x", ",10.0.0.1", "10.0.0.1/8"] {
            assert!(request(&[(Ip, bad.as_bytes())], &rules).is_err(), "{bad}");
        }
        let nulls: [(Field, &[u8]); 2] = [(Name, b"NULL"), (UserAgent, b"\\N")];
        assert!(noticing(&nulls, &rules, &mut noticed).is_ok());
        assert!(noticing(&[(Email, b"n/a")], &rules, &mut noticed).is_err());
        assert_eq!(noticed.null_words, 3);
    }

    #[test]
    fn an_invalid_phone_or_email_is_dropped_only_on_request_and_only_if_there_is_the_other() {
        let (number, bad_number) = ((Phone, &b"+15550100199"[..]), (Phone, &b"12"[..]));
        let (no_email, bad_email) = ((Email, &b""[..]), (Email, &b"jane"[..]));
        for (invalid, set, expected) in [
            (Invalid::Drop, &[bad_number][..], Ok(1)),
            (Invalid::Drop, &[bad_email, number], Ok(1)),
            (
                Invalid::Reject,
                &[bad_email, number],
                Err(Reason::InvalidEmail),
            ),
            (
                Invalid::Drop,
                &[no_email, bad_number],
                Err(Reason::InvalidPhone),
            ),
            (Invalid::Drop, &[bad_email], Err(Reason::InvalidEmail)),
            (
                Invalid::Drop,
                &[bad_email, bad_number],
                Err(Reason::InvalidEmail),
            ),
            (
                Invalid::Send,
                &[bad_email, bad_number],
                Err(Reason::InvalidPhone),
            ),
        ] {
            let rules = rules(invalid);
            let mut noticed = Noticed::default();
            let found = noticing(set, &rules, &mut noticed);
            if let Ok(request) = &found {
                let is_sent = [request.email.is_some(), request.phone.is_some()];
                assert_eq!(is_sent, [set.len() == 1, set.len() == 2]);
            }
            let found = found.map(|_| noticed.dropped);
            assert_eq!(found.map_err(|failure| failure.reason), expected, "{set:?}");
        }
    }

    #[test]
    fn an_invalid_email_is_sent_as_it_is_only_on_request() {
        let rules = rules(Invalid::Send);
        for (written, sent) in [
            (" Jane\n<a@X.org> ", Some("Jane <a@X.org>")),
            ("<a@X.org>", Some("a@x.org")),
            ("nobody", Some("nobody")),
            (" ", None),
        ] {
            let set = [(Email, written.as_bytes()), (Phone, b"+15550100199")];
            assert_eq!(request(&set, &rules).unwrap().email.as_deref(), sent);
        }
    }

    #[test]
    fn a_default_is_in_its_one_form_and_one_that_cannot_be_used_is_refused() {
        let mut rules = FieldRules::default();
        rules.set_default(UserAgent, " un\tknown ").unwrap();
        let request = request(&[(UserAgent, b"")], &rules);
        assert_eq!(request.unwrap().user_agent, "un known");
        for (field, value) in [(UserAgent, "again"), (Ip, "nowhere")] {
            assert!(rules.set_default(field, value).is_err());
        }
    }
}
