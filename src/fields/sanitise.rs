//! Sanitising and checking of single values.
//!
//! The interface asks the client to strip white space and to sanitise (section 2.1, rule 3). Values
//! stay borrowed from the row's bytes unless something has to be removed.

use std::borrow::Cow;
use std::net::IpAddr;

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

/// The text without surrounding white space and without control characters; `None` if nothing is
/// left.
///
/// # Errors
/// A NUL byte.
pub(super) fn clean(text: Cow<'_, str>, field: Field) -> Result<Option<Cow<'_, str>>, Failure> {
    match text {
        Cow::Borrowed(text) if !may_have_control(text) => {
            let text = text.trim();
            Ok((!text.is_empty()).then_some(Cow::Borrowed(text)))
        }
        text if text.contains('\0') => Err(Failure::new(
            Reason::NulByte,
            format!("{field} contains a NUL byte"),
        )),
        text => {
            let text: String = text.chars().filter(|c| !c.is_control()).collect();
            let text = text.trim();
            Ok((!text.is_empty()).then(|| Cow::Owned(text.to_owned())))
        }
    }
}

/// Whether there is a byte that may belong to a control character.
#[allow(
    clippy::needless_bitwise_bool,
    reason = "without branches the compiler checks many bytes per instruction"
)]
fn may_have_control(text: &str) -> bool {
    // C1 controls are U+0080 to U+009F, in UTF-8 C2 80 to C2 9F.
    any_byte(text.as_bytes(), |byte| {
        (byte < 0x20) | (byte == 0x7f) | (byte == 0xc2)
    })
}

pub(super) fn ip(value: Cow<'_, str>) -> Result<Cow<'_, str>, Failure> {
    match value.parse::<IpAddr>() {
        Ok(_) => Ok(value),
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
        Field::Ip => (ip(value), "is neither IPv4 nor IPv6"),
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
