//! Sanitising and checking of single values.
//!
//! The interface asks the client to strip white space and to sanitise (section 2.1, rule 3). Values
//! stay borrowed from the row's bytes unless something has to be removed.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

use memchr::{memchr, memchr_iter};

use super::names::Field;
use super::phone::{self, is_ornament};
use crate::base::encoding::TextEncoding;
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

/// The text without surrounding white space and without characters that are not seen; `None` if nothing is left.
///
/// # Errors
/// A NUL byte.
pub(super) fn clean(text: Cow<'_, str>, field: Field) -> Result<Option<Cow<'_, str>>, Failure> {
    match text {
        Cow::Borrowed(text) if !has_unseen(text) => {
            let text = text.trim();
            Ok((!text.is_empty()).then_some(Cow::Borrowed(text)))
        }
        text if text.contains('\0') => Err(Failure::new(
            Reason::NulByte,
            format!("{field} contains a NUL byte"),
        )),
        text => {
            let text: String = text.chars().filter(|c| !is_unseen(*c)).collect();
            let text = text.trim();
            Ok((!text.is_empty()).then(|| Cow::Owned(text.to_owned())))
        }
    }
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

/// Whether a character is not seen. Nearly all values are ASCII, and known to have none after a look at many bytes at a time.
fn has_unseen(text: &str) -> bool {
    any_byte(text.as_bytes(), |byte| !(0x20..0x7f).contains(&byte)) && text.chars().any(is_unseen)
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
/// before each quote, and the quotes do not belong to the value.
#[inline]
pub(super) fn is_quoted(text: &str) -> bool {
    let text = text.trim();
    // Nearly every value starts with a letter or a digit.
    if text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '+') {
        return false;
    }
    let mut characters = text.chars();
    let ends = characters.next().zip(characters.next_back());
    ends.is_some_and(|ends| QUOTES.contains(&ends))
}

/// Words that databases and programs write for a value that is not there.
const NULL_WORDS: [&str; 9] = [
    "null", "\\n", "none", "nan", "nil", "n/a", "#n/a", "(null)", "<null>",
];

/// Whether a value looks like one that is not there.
#[inline]
pub(super) fn is_null_word(text: &str) -> bool {
    let text = text.trim();
    text.len() <= 6 && { NULL_WORDS.iter() }.any(|word| word.eq_ignore_ascii_case(text))
}

/// The address, and whether it was taken out of a text with more in it: the first one of a list, as proxies write it, or without
/// its port.
pub(super) fn ip(value: Cow<'_, str>) -> Result<(Cow<'_, str>, bool), Failure> {
    if value.parse::<IpAddr>().is_ok() {
        return Ok((value, false));
    }
    let first = value
        .split([',', ';', ' ', '\t'])
        .next()
        .unwrap_or_default();
    let of_socket = |text: &str| text.parse().map(|socket: SocketAddr| socket.ip());
    let bare = first.trim_start_matches('[').trim_end_matches(']');
    match bare.parse().or_else(|_| of_socket(first)) {
        Ok(address) => Ok((Cow::Owned(address.to_string()), true)),
        Err(_) => Err(Failure::new(
            Reason::InvalidIp,
            format!("ip {} is neither IPv4 nor IPv6", quoted(&value)),
        )),
    }
}

pub(super) fn email(value: Cow<'_, str>) -> Result<Cow<'_, str>, Failure> {
    let wrong = |what: &str| {
        Failure::new(
            Reason::InvalidEmail,
            format!("email {} {what}", quoted(&value)),
        )
    };
    let bytes = value.as_bytes();
    let mut ats = memchr_iter(b'@', bytes);
    match (ats.next(), ats.next()) {
        (None, _) => return Err(wrong("has no @")),
        (Some(at), None) if at == 0 || at + 1 == bytes.len() => {
            return Err(wrong("has nothing before or after the @"));
        }
        (Some(_), None) => {}
        (Some(_), Some(_)) => return Err(wrong("has more than one @")),
    }
    if memchr(b' ', bytes).is_some() || !value.is_ascii() && value.contains(char::is_whitespace) {
        return Err(wrong("has a space"));
    }
    if value.len() > EMAIL_CHARACTERS && value.chars().count() > EMAIL_CHARACTERS {
        return Err(wrong("is longer than 254 characters"));
    }
    Ok(value)
}

/// What is wrong with a value that would be sent in every row. The value itself is not repeated, as
/// it may be personal data.
pub(super) fn wrong_constant(value: &str, field: Field) -> Option<&'static str> {
    let Ok(Some(value)) = clean(value.into(), field) else {
        return Some("is blank");
    };
    let (checked, wrong) = match field {
        Field::Name | Field::UserAgent => return None,
        Field::Ip => (ip(value).map(|(ip, _)| ip), "is neither IPv4 nor IPv6"),
        Field::Email => (email(value), "is not an email address"),
        Field::Phone => {
            let wrong = phone::international(value).is_err();
            return wrong.then_some("is not + and 7 to 15 digits");
        }
    };
    checked.is_err().then_some(wrong)
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
