//! Cleaning and checking one value.
//!
//! The interface asks the client to strip white space and sanitise (section 2.1, rule 3). Values stay borrowed from the
//! row's bytes wherever nothing has to be taken out.

use std::borrow::Cow;
use std::net::IpAddr;

use super::Field;
use crate::error::quoted;
use crate::verdict::{Failure, Reason};

/// The longest address that a mail path can carry (RFC 5321, section 4.5.3.1.3, less the angle brackets).
const EMAIL_CHARACTERS: usize = 254;
/// Digits of a phone number: ITU-T E.164 allows 15; the service documents at least 7.
const PHONE_DIGITS: std::ops::RangeInclusive<usize> = 7..=15;

/// The value without white space around it and control characters in it; `None` when nothing is left.
///
/// # Errors
/// A NUL byte or bytes that are not UTF-8: a replacement character must never reach a paid call.
pub(super) fn clean(
    value: Option<Cow<'_, [u8]>>,
    field: Field,
) -> Result<Option<Cow<'_, str>>, Failure> {
    let Some(bytes) = value else { return Ok(None) };
    if memchr::memchr(0, &bytes).is_some() {
        return Err(Failure::new(
            Reason::NulByte,
            format!("{field} has a NUL byte"),
        ));
    }
    let not_utf8 = |valid_up_to: usize| {
        Failure::new(
            Reason::NotUtf8,
            format!("{field} is not UTF-8 from its byte {} on", valid_up_to + 1),
        )
    };
    let text = match bytes {
        Cow::Borrowed(bytes) => {
            Cow::Borrowed(std::str::from_utf8(bytes).map_err(|e| not_utf8(e.valid_up_to()))?)
        }
        Cow::Owned(bytes) => Cow::Owned(
            String::from_utf8(bytes).map_err(|e| not_utf8(e.utf8_error().valid_up_to()))?,
        ),
    };
    let text = if text.chars().any(char::is_control) {
        Cow::Owned(text.chars().filter(|c| !c.is_control()).collect())
    } else {
        text
    };
    let text = match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.trim()),
        Cow::Owned(text) if text.trim().len() == text.len() => Cow::Owned(text),
        Cow::Owned(text) => Cow::Owned(text.trim().to_owned()),
    };
    Ok((!text.is_empty()).then_some(text))
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
    match value.split_once('@') {
        None => return Err(wrong("has no @")),
        Some(("", _) | (_, "")) => return Err(wrong("has nothing on one side of its @")),
        Some((_, domain)) if domain.contains('@') => return Err(wrong("has more than one @")),
        Some(_) => {}
    }
    if value.chars().any(char::is_whitespace) {
        return Err(wrong("has a space"));
    }
    if value.chars().count() > EMAIL_CHARACTERS {
        return Err(wrong("is longer than 254 characters"));
    }
    Ok(value)
}

pub(super) fn phone(value: Cow<'_, str>) -> Result<Cow<'_, str>, Failure> {
    let ornament = |c: char| {
        c.is_whitespace()
            || matches!(
                c,
                '.' | '-' | '\u{2010}'..='\u{2015}' | '(' | ')' | '[' | ']'
            )
    };
    let bare: Cow<'_, str> = if value.contains(ornament) {
        Cow::Owned(value.replace(ornament, ""))
    } else {
        Cow::Borrowed(&value)
    };
    let bare = match bare.strip_prefix("00") {
        Some(rest) => Cow::Owned(format!("+{rest}")),
        None => bare,
    };
    let digits = bare.strip_prefix('+').unwrap_or_default();
    if PHONE_DIGITS.contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit()) {
        let changed = matches!(bare, Cow::Owned(_));
        return Ok(if changed {
            Cow::Owned(bare.into_owned())
        } else {
            value
        });
    }
    Err(Failure::new(
        Reason::InvalidPhone,
        format!("phone {} is not + and 7 to 15 digits", quoted(&value)),
    ))
}
