//! The members of an object, one after the other, in one pass over its text.
//!
//! Every row of a JSONL file comes through here. What nearly all members are made of (strings without escapes, plain
//! numbers) is passed over here; all other values, and the error for a text that is not an object, are left to
//! `serde_json`.

use memchr::memchr2;
use serde::de::{Deserialize, Error};
use serde_json::value::RawValue;

use super::value::JsonValue;
use crate::base::any_byte::any_byte;

/// A member of an object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ObjectMember<'a> {
    /// Its key as written, with quotes.
    pub(crate) key: JsonValue<'a>,
    /// Its value.
    pub(crate) value: JsonValue<'a>,
    /// Whether its key is the one that was expected.
    pub(crate) is_expected: bool,
}

/// The key of a member that was read. Other objects are likely to have it at the same place.
#[derive(Debug)]
pub(crate) struct KnownKey(Box<str>);

impl KnownKey {
    /// The key of this member.
    pub(crate) fn of(member: &ObjectMember<'_>) -> Self {
        Self(member.key.get().into())
    }
}

/// Takes the members of an object as they are read.
pub(crate) trait TakeMembers<'a> {
    /// The key that the next member is likely to have: it is found sooner.
    #[inline]
    fn expected(&self) -> Option<&KnownKey> {
        None
    }

    /// Takes the next member.
    fn take(&mut self, member: ObjectMember<'a>);
}

impl<'a, F: FnMut(ObjectMember<'a>)> TakeMembers<'a> for F {
    #[inline]
    fn take(&mut self, member: ObjectMember<'a>) {
        self(member);
    }
}

/// Reads the object `text`, and gives every member to `taker`, in order.
///
/// # Errors
/// `text` is not a JSON object, or something follows it, as `serde_json` says.
#[inline]
pub(crate) fn read_object<'a>(
    text: &'a str,
    taker: &mut impl TakeMembers<'a>,
) -> serde_json::Result<()> {
    let mut cursor = Cursor {
        text,
        at: 0,
        has_control: any_control(text.as_bytes()),
    };
    match cursor.object(taker) {
        Some(()) => Ok(()),
        None => fault(text),
    }
}

/// Calls `visit` with every member of the object `text` in order: its key as written, including
/// quotes, and its value.
///
/// # Errors
/// As for [`read_object`].
#[inline]
pub fn members<'a>(
    text: &'a str,
    mut visit: impl FnMut(JsonValue<'a>, JsonValue<'a>),
) -> serde_json::Result<()> {
    read_object(text, &mut |member: ObjectMember<'a>| {
        visit(member.key, member.value);
    })
}

/// A place in the text of an object. What it finds is `None` if the text is broken.
struct Cursor<'a> {
    text: &'a str,
    /// The offset of the next byte.
    at: usize,
    /// Whether the text has control characters, which strings must not have. There may be some between members.
    has_control: bool,
}

impl<'a> Cursor<'a> {
    /// Passes over the whole object.
    // One loop in which the taker's work is inlined: a member that is returned from a function is stored and loaded
    // again, which took as long as finding it.
    #[inline]
    fn object(&mut self, taker: &mut impl TakeMembers<'a>) -> Option<()> {
        self.pass(b'{')?;
        if self.token()? != b'}' {
            loop {
                let (key, is_expected) = match self.expected(taker.expected()) {
                    Some(key) => (key, true),
                    None => (self.key()?, false),
                };
                self.pass(b':')?;
                let value = self.value()?;
                taker.take(ObjectMember {
                    key,
                    value,
                    is_expected,
                });
                if self.token()? != b',' {
                    break;
                }
                self.at += 1;
            }
        }
        self.pass(b'}')?;
        self.token().is_none().then_some(())
    }

    /// The next byte that is not white space; it is not passed over.
    #[inline]
    fn token(&mut self) -> Option<u8> {
        loop {
            match self.text.as_bytes().get(self.at)? {
                b' ' | b'\t' | b'\n' | b'\r' => self.at += 1,
                byte => return Some(*byte),
            }
        }
    }

    /// Passes over a byte, and white space before it.
    #[inline]
    fn pass(&mut self, byte: u8) -> Option<()> {
        if self.token()? != byte {
            return None;
        }
        self.at += 1;
        Some(())
    }

    /// The bytes from the next one on.
    #[inline]
    fn rest(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    /// The next `length` bytes.
    #[inline]
    fn take(&mut self, length: usize) -> Option<&'a str> {
        let end = self.at + length;
        let taken = self.text.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }

    /// The key, if it is this one.
    #[inline]
    fn expected(&mut self, expected: Option<&KnownKey>) -> Option<JsonValue<'a>> {
        let KnownKey(key) = expected?;
        self.token()?;
        if !self.rest().starts_with(key.as_bytes()) {
            return None;
        }
        self.take(key.len()).map(JsonValue::of)
    }

    /// The key, whatever it is.
    #[cold]
    fn key(&mut self) -> Option<JsonValue<'a>> {
        if self.token()? != b'"' {
            return None;
        }
        self.value()
    }

    #[inline]
    fn value(&mut self) -> Option<JsonValue<'a>> {
        let first = self.token()?;
        if first == b'"' {
            if let Some(length) = self.plain_string() {
                return self.take(length).map(JsonValue::plain_string);
            }
        } else if let Some(length) = plain_length(first, self.rest()) {
            return self.take(length).map(JsonValue::of);
        }
        let length = self.any_value()?;
        self.take(length).map(JsonValue::of)
    }

    /// The length of the string that starts here, if it is one without escapes.
    #[inline]
    fn plain_string(&self) -> Option<usize> {
        let inner = self.rest().get(1..)?;
        let length = memchr2(b'"', b'\\', inner)?;
        let (inner, rest) = inner.split_at_checked(length)?;
        let is_plain = rest.first() == Some(&b'"') && !(self.has_control && any_control(inner));
        is_plain.then_some(length + 2)
    }

    /// The length of a value of any kind that starts here.
    #[cold]
    fn any_value(&self) -> Option<usize> {
        let mut deserializer = serde_json::Deserializer::from_str(self.text.get(self.at..)?);
        let value = <&RawValue>::deserialize(&mut deserializer).ok()?;
        Some(value.get().len())
    }
}

fn any_control(text: &[u8]) -> bool {
    any_byte(text, |byte| byte < 0x20)
}

/// The length of a literal or a plain number at the start of `text`, which starts with the byte `first`; `None` for
/// anything else.
#[inline]
fn plain_length(first: u8, text: &[u8]) -> Option<usize> {
    let literal = match first {
        b'n' => &b"null"[..],
        b't' => b"true",
        b'f' => b"false",
        _ => return number_length(text),
    };
    text.starts_with(literal).then_some(literal.len())
}

/// The length of a number without sign and exponent that ends with the member or the object.
#[inline]
fn number_length(text: &[u8]) -> Option<usize> {
    let digits = |from: usize| {
        let rest = text.get(from..)?;
        let count = rest.iter().position(|byte| !byte.is_ascii_digit())?;
        (count > 0).then_some(from + count)
    };
    let mut end = digits(0)?;
    if text.first() == Some(&b'0') && end > 1 {
        return None;
    }
    if text.get(end) == Some(&b'.') {
        end = digits(end + 1)?;
    }
    matches!(text.get(end), Some(b',' | b'}')).then_some(end)
}

/// What is wrong with a text that is not an object.
#[cold]
fn fault(text: &str) -> serde_json::Result<()> {
    let _: &RawValue = serde_json::from_str(text)?;
    // What has not been read must not pass for an object without it.
    Err(Error::custom("not a JSON object"))
}
