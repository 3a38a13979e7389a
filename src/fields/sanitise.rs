//! Sanitising and checking of single values.
//!
//! The interface asks the client to strip white space and to sanitise (section 2.1, rule 3). What different programs write
//! in different ways becomes one text here, so that one person makes one request. Values stay borrowed from the row's bytes
//! unless something has to be changed.

use std::borrow::Cow;
use std::iter;
use std::net::{IpAddr, SocketAddr};

use super::names::Field;
use super::phone::{self, is_ornament};
use crate::base::encoding::{TextEncoding, composed};
use crate::base::text::any_byte;
use crate::base::text::quoted;
use crate::verdict::{Failure, Reason};

/// The longest address that a mail path can have (RFC 5321, section 4.5.3.1.3, without the angle
/// brackets).
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
    // Nearly every value is: this is the path that must be short.
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

/// The text without surrounding white space and in [one form](`one_form`); `None` if nothing is left.
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

/// The one form of a text that is written in several ways: without characters that are not seen, with one blank for any white
/// space, and with composed letters, as in `é` for an `e` with an accent after it. In a phone number a line break stays, as
/// there may be another number behind it.
fn one_form(text: &str, field: Field) -> String {
    let is_kept = |c: &char| c.is_whitespace() || !is_unseen(*c);
    let is_break = |c| matches!(c, '\n'..='\r' | '\u{85}' | '\u{2028}' | '\u{2029}');
    let on_one_line = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let text: String = text.chars().filter(is_kept).collect();
    let lines = text.split(is_break).map(on_one_line);
    let lines: Vec<_> = lines.filter(|line| !line.is_empty()).collect();
    let text = lines.join(if field == Field::Phone { "\n" } else { " " });
    composed(&text).into_owned()
}

/// Whether it is a control character, or one that only says how others are shown, such as the marks that phones and web pages
/// leave in what is copied from them: soft hyphens, joiners, marks of direction, byte order marks and variation selectors.
fn is_unseen(c: char) -> bool {
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

/// Whether a text is ASCII in its one form, as nearly all values are. Both are looks at many bytes at a time.
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

/// Whether a value has quotes at both ends: then the file is quoted in another way than its format has it, such as with a space
/// before each quote, and the quotes do not belong to the value. Neither does a quote behind something that is not seen: it was
/// to open the cell.
#[inline]
pub(super) fn is_quoted(text: &str) -> bool {
    let text = text.trim();
    // Nearly every value starts with a letter or a digit.
    if text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '+') {
        return false;
    }
    let seen = text.trim_matches(|c: char| c.is_whitespace() || is_unseen(c));
    let mut characters = seen.chars();
    let ends = characters.next().zip(characters.next_back());
    ends.is_some_and(|ends| QUOTES.contains(&ends))
        || seen.starts_with('"') && text.starts_with(is_unseen)
}

/// Words that databases, spreadsheets and programs write for a value that is not there.
const NULL_WORDS: [&str; 19] = [
    "-", "null", "\\n", "none", "nan", "nat", "nil", "n/a", "(null)", "<null>", "<na>", "#n/a",
    "#ref!", "#name?", "#value!", "#error!", "#div/0!", "#num!", "#null!",
];
/// The same of scripts.
const LONG_NULL_WORDS: [&str; 2] = ["undefined", "[object object]"];

/// Whether a value looks like one that is not there.
#[inline]
pub(super) fn is_null_word(text: &str) -> bool {
    let text = text.trim();
    let is_one = |word: &&str| word.eq_ignore_ascii_case(text);
    // Nearly every value is longer, or starts otherwise.
    text.len() <= 15
        && text.starts_with(|c: char| !c.is_ascii_alphanumeric() || "nNuU".contains(c))
        && { NULL_WORDS.iter().chain(&LONG_NULL_WORDS) }.any(is_one)
}

/// The address, and whether it was taken out of a text with more in it: the first public one of a list, as proxies write it, or
/// without its port. An IPv4 address that is written as an IPv6 one becomes IPv4.
pub(super) fn ip(value: Cow<'_, str>) -> Result<(Cow<'_, str>, bool), Failure> {
    let whole = value.parse::<IpAddr>().ok();
    if whole.is_some_and(|address| address == address.to_canonical()) {
        return Ok((value, false));
    }
    let listed = value.split([',', ';']);
    let listed = listed.flat_map(|item| item.trim().split(' '));
    // Behind something else, such as `unknown` for an address that a proxy hides, are addresses of proxies.
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

/// Whether an address is not one of a private network, of a single machine, of a provider's own network, or of a group (IANA's
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
    let inner = { text.strip_prefix('<') }.and_then(|text| text.strip_suffix('>'));
    let text = inner.map_or(text, str::trim);
    match text.split_once(':') {
        Some((scheme, address)) if ["mailto", "smtp"].contains(&&*scheme.to_ascii_lowercase()) => {
            address.trim_start()
        }
        _ => text,
    }
}

/// Characters of ASCII that no address has, unless its local part is quoted (RFC 5322, section 3.2.3).
const NEVER_IN_EMAIL: &[u8] = b"<>()[]\\,;:\"";

/// Whether an address has a character that none has.
fn is_garbled(local: &str, domain: &str) -> bool {
    let is_quoted = local.starts_with('"') && local.ends_with('"');
    let is_literal = domain.starts_with('[') && domain.ends_with(']');
    let in_domain =
        |byte: u8| byte.is_ascii_alphanumeric() || !byte.is_ascii() || b"-._".contains(&byte);
    !is_quoted && local.bytes().any(|byte| NEVER_IN_EMAIL.contains(&byte))
        || !is_literal && !domain.bytes().all(in_domain)
}

/// The address, without what stands around it and with its domain in lower case.
pub(super) fn email(value: Cow<'_, str>) -> Result<Cow<'_, str>, Failure> {
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
/// What is wrong with it. The value itself is not repeated, as it may be personal data.
pub(super) fn constant(value: &str, field: Field) -> Result<String, &'static str> {
    let Ok(Some(value)) = clean(value.into(), field) else {
        return Err("is blank");
    };
    let text = value.clone();
    let (is_right, wrong) = match field {
        Field::Name | Field::UserAgent => (true, ""),
        Field::Ip => (ip(text).is_ok(), "is neither IPv4 nor IPv6"),
        Field::Email => (email(text).is_ok(), "is not an email address"),
        Field::Phone => (
            phone::international(text).is_ok(),
            "is not + and 7 to 15 digits",
        ),
    };
    is_right.then(|| value.into_owned()).ok_or(wrong)
}

/// The field that a text could be a value of, as in a row's cells but not in column names.
pub(crate) fn value_in(text: &str) -> Option<Field> {
    if text.contains("Mozilla/") {
        return Some(Field::UserAgent);
    }
    // In a line that was split by the wrong delimiter, a cell contains several values.
    let mut words = text.split(|c: char| !(c.is_alphanumeric() || "@.:-_+%".contains(c)));
    let of_word = |word: &str| {
        let is_address = |(_, host): (&str, &str)| host.contains('.');
        if word.split_once('@').is_some_and(is_address) && email(word.into()).is_ok() {
            Some(Field::Email)
        } else {
            ip(word.into()).is_ok().then_some(Field::Ip)
        }
    };
    let is_phone = || phone::international(text.trim().into()).is_ok() || is_long_number(text);
    words
        .find_map(of_word)
        .or_else(|| is_phone().then_some(Field::Phone))
}

/// Whether a text is a number longer than a date, such as a phone number without its country code.
fn is_long_number(text: &str) -> bool {
    let bare: Vec<_> = { text.chars() }
        .filter(|c| !is_ornament(*c) && *c != '/')
        .collect();
    (9..=15).contains(&bare.len()) && bare.iter().all(char::is_ascii_digit)
}
