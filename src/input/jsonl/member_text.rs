//! The text of the members that are sent.
//!
//! This file must not know which members they are.

use std::borrow::Cow;

use crate::base::error::quoted;
use crate::fields::Field;
use crate::raw_json::{self, JsonValue, Pointer};
use crate::verdict::{Failure, Reason};

/// A member's name, for messages.
pub(super) fn quoted_key(key: JsonValue<'_>) -> String {
    quoted(&raw_json::string(key).unwrap_or_default())
}

/// The text of a member that is sent, or of a value in it at this pointer. Null counts as absent.
pub(super) fn text<'a>(
    value: JsonValue<'a>,
    pointer: Option<&Pointer>,
    field: Field,
    intact: impl Fn(JsonValue<'_>) -> bool,
) -> Result<Option<Cow<'a, str>>, Failure> {
    let value = match pointer {
        Some(pointer) => match raw_json::follow(value, pointer.split_first().1) {
            Ok(Some(value)) => value,
            Ok(None) => return Ok(None),
            Err(raw_json::Ambiguous) => {
                return Err(Failure::new(
                    Reason::DuplicateKey,
                    format!("a member on the path to {field} appears twice"),
                ));
            }
        },
        None => value,
    };
    if !intact(value) {
        return Err(Failure::new(
            Reason::NotUtf8,
            format!("{field} is not UTF-8"),
        ));
    }
    match raw_json::string(value) {
        Some(text) => Ok(Some(text)),
        None if value.get() == "null" => Ok(None),
        None => {
            let wrong = match value.get().as_bytes().first() {
                Some(b'{') => "is an object, not a string",
                Some(b'[') => "is an array, not a string",
                Some(b't' | b'f') => "is a boolean, not a string",
                Some(b'"') => "has broken escapes",
                _ => "is a number, not a string",
            };
            Err(Failure::new(Reason::WrongType, format!("{field} {wrong}")))
        }
    }
}
