//! JSON that is read but never printed again: members, pointers and numbers as slices of the text.
//!
//! A number beyond 2^53 or a score of 17 digits must come out as it went in, so nothing here builds a tree of values:
//! everything is a slice of the text. `serde_json` decides what is valid.

use std::borrow::Cow;
use std::fmt;

use bytes::BufMut;
use memchr::memchr;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::base::text::{any_byte, any_unsafe_to_print, is_unsafe_to_print};

/// The text of a key or string, unescaped; `None` for anything else.
#[inline]
pub fn string(text: &str) -> Option<Cow<'_, str>> {
    let inner = text.strip_prefix('"')?.strip_suffix('"')?;
    if memchr(b'\\', inner.as_bytes()).is_none() {
        Some(Cow::Borrowed(inner))
    } else {
        serde_json::from_str(text).ok().map(Cow::Owned)
    }
}

/// A JSON value's text for people and for comparing: a string's content, nothing for null, and any other value as it is.
pub(crate) fn text(json: &str) -> Cow<'_, str> {
    match string(json) {
        Some(text) => text,
        None if json == "null" => Cow::Borrowed(""),
        None => Cow::Borrowed(json),
    }
}

/// The value's text on one line: without white space between its tokens, and with JSON escapes for every character that is unsafe
/// to print, so that the file is safe to show on a terminal.
pub(crate) fn on_one_line(text: &str) -> Box<str> {
    if !text.starts_with(['{', '[']) {
        return escape_unsafe(text).into();
    }
    let (mut quoted, mut escaped) = (false, false);
    let mut compact = text.to_owned();
    compact.retain(|c| {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            c if !quoted => return !c.is_ascii_whitespace(),
            _ => {}
        }
        true
    });
    escape_unsafe(&compact).into()
}

/// Appends `text` to `to` as a JSON string. Nearly every text has nothing to escape and is copied as a whole: byte by byte, this
/// took a seventh of the reader's time.
pub(crate) fn put_string(text: &str, to: &mut impl BufMut) {
    if must_escape(text) {
        // Writing a string to memory cannot fail.
        let written = serde_json::to_writer(to.writer(), text);
        debug_assert!(written.is_ok());
    } else {
        to.put_u8(b'"');
        to.put_slice(text.as_bytes());
        to.put_u8(b'"');
    }
}

/// Whether the text has a character that JSON must escape (RFC 8259, section 7).
#[expect(
    clippy::needless_bitwise_bool,
    reason = "without branches the compiler checks many bytes per instruction"
)]
fn must_escape(text: &str) -> bool {
    any_byte(text.as_bytes(), |byte| {
        (byte < 0x20) | (byte == b'"') | (byte == b'\\')
    })
}

/// The same with JSON escapes for every character that is unsafe to print, which do not change the string.
pub(crate) fn put_printable_string(text: &str, to: &mut Vec<u8>) {
    if any_unsafe_to_print(text) {
        let json = serde_json::Value::from(text).to_string();
        to.extend_from_slice(escape_unsafe(&json).as_bytes());
    } else {
        put_string(text, to);
    }
}

/// JSON text with JSON escapes for the characters that are unsafe to print. These can only be inside strings.
pub(crate) fn escape_unsafe(text: &str) -> String {
    if !any_unsafe_to_print(text) {
        return text.to_owned();
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_unsafe_to_print(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                escaped += &format!("\\u{unit:04x}");
            }
        } else {
            escaped.push(c);
        }
    }
    escaped
}

/// Calls `visit` with every member of the object `text` in order: its key as written, including quotes, and its value.
///
/// # Errors
/// `text` is not a JSON object, or something follows it. Members before the fault have been visited.
#[inline]
pub fn members<'a>(text: &'a str, visit: impl FnMut(&'a str, &'a str)) -> serde_json::Result<()> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    deserializer.deserialize_map(Members(visit))?;
    deserializer.end()
}

struct Members<F>(F);

impl<'de, F: FnMut(&'de str, &'de str)> Visitor<'de> for Members<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    #[inline]
    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some((key, value)) = map.next_entry::<&RawValue, &RawValue>()? {
            (self.0)(key.get(), value.get());
        }
        Ok(())
    }
}

/// The path of a value in a JSON text (RFC 6901), such as `/summary/risk_level`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pointer(Box<[Box<str>]>);

impl Pointer {
    /// Parses a pointer. It starts with `/` and names at least one member.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let Some(rest) = text.strip_prefix('/') else {
            return Err(format!(
                "`{text}` is not a JSON pointer: it must start with `/`, as in `/summary/risk_level`"
            ));
        };
        Ok(Self(
            rest.split('/')
                .map(|token| token.replace("~1", "/").replace("~0", "~").into())
                .collect(),
        ))
    }

    /// The pointer to the whole text, which is written as nothing.
    pub(crate) fn to_all() -> Self {
        Self(Box::default())
    }

    /// The pointer to a member of the outermost object.
    pub(crate) fn of_member(name: &str) -> Self {
        Self(Box::new([name.into()]))
    }

    /// The name of the outermost member, and the rest of the path.
    pub(crate) fn split_first(&self) -> (&str, &[Box<str>]) {
        match self.0.split_first() {
            Some((first, rest)) => (first, rest),
            None => ("", &[]),
        }
    }

    /// The pointers to the members that this JSON text has where it leaves the path.
    pub(crate) fn others(&self, text: &str) -> Vec<String> {
        let (mut path, mut others) = (self.clone(), Vec::new());
        while let (true, Some((_, parent))) = (others.is_empty(), path.0.split_last()) {
            path = Self(parent.into());
            let _ = members(path.find(text).unwrap_or_default(), |key, _| {
                let name = string(key).map(|key| Self::of_member(&key));
                others.extend(name.map(|name| format!("{path}{name}")));
            });
        }
        others
    }

    /// The value in this JSON text, if it exists.
    pub(crate) fn find<'a>(&self, text: &'a str) -> Option<&'a str> {
        let value: &RawValue = serde_json::from_str(text).ok()?;
        follow(value.get(), &self.0).ok().flatten()
    }
}

/// The pointer as the user writes it.
impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|token| {
            let token = token.replace('~', "~0").replace('/', "~1");
            write!(f, "/{token}")
        })
    }
}

/// A member that was looked up appears twice in its object, so nobody can tell which one is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ambiguous;

/// Follows the tokens of a pointer, starting at `value`.
///
/// # Errors
/// [`Ambiguous`] if a member on the path appears twice.
pub(crate) fn follow<'a>(
    value: &'a str,
    tokens: &[Box<str>],
) -> Result<Option<&'a str>, Ambiguous> {
    let mut text = value;
    for token in tokens {
        let found = if text.starts_with('[') {
            // Pointers into arrays are rare: this need not be fast.
            let elements: Vec<&RawValue> = serde_json::from_str(text).unwrap_or_default();
            let index: Option<usize> = token.parse().ok();
            let found = index.and_then(|index| elements.get(index).copied());
            found.map(RawValue::get)
        } else {
            let (mut found, mut twice) = (None, false);
            let read = members(text, |key, value| {
                if string(key).is_some_and(|key| key == **token) {
                    twice |= found.is_some();
                    found = Some(value);
                }
            });
            if twice {
                return Err(Ambiguous);
            }
            if read.is_ok() { found } else { None }
        };
        let Some(value) = found else { return Ok(None) };
        text = value;
    }
    Ok(Some(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> &str {
        serde_json::from_str::<&RawValue>(text).unwrap().get()
    }

    #[test]
    fn a_captured_value_fits_on_one_line() {
        let spread = value("{ \"a b\" : [ 1.0,\n\t\"c \\\" d\" ] }");
        assert_eq!(&*on_one_line(spread), "{\"a b\":[1.0,\"c \\\" d\"]}");
        for (written, kept) in [
            ("[ \"a\u{9b}b\" ]", r#"["a\u009bb"]"#),
            ("\"\u{202e}é\u{7f}\"", r#""\u202eé\u007f""#),
            ("-1.50", "-1.50"),
        ] {
            assert_eq!(&*on_one_line(value(written)), kept);
        }
    }

    #[test]
    fn texts_are_escaped_as_serde_json_does() {
        let each: Vec<_> = ('\0'..='\u{ff}').map(String::from).collect();
        let further = ["Jane Doe", "O'Neil \\ \"J\"", "Łukasz 🦀 \u{2028}", ""];
        for text in each.iter().map(String::as_str).chain(further) {
            let mut written = b"{".to_vec();
            put_string(text, &mut written);
            assert_eq!(written, format!("{{{}", serde_json::json!(text)).as_bytes());
        }
    }

    #[test]
    fn members_are_slices_of_the_text_as_they_are_written() {
        let text = r#" { "a" : 1.50 ,"\u0062":"x\"y", "a":{"c":[1, 2]} } "#;
        let mut found = Vec::new();
        let read = members(text, |key, value| found.push((key, value)));
        assert!(read.is_ok());
        let expected = [
            ("\"a\"", "1.50"),
            (r#""\u0062""#, r#""x\"y""#),
            ("\"a\"", r#"{"c":[1, 2]}"#),
        ];
        assert_eq!(found, expected);
        for not_an_object in ["[1]", "1", "{} x", "{\"a\":1", "{\"a\":\"\t\"}", ""] {
            assert!(
                members(not_an_object, |_, _| ()).is_err(),
                "{not_an_object}"
            );
        }
    }

    fn find(text: &str, pointer: &str) -> Option<String> {
        Pointer::parse(pointer)
            .unwrap()
            .find(text)
            .map(ToOwned::to_owned)
    }

    #[test]
    fn pointers_find_values_as_written() {
        let text = r#"{"a":{"b/c":[1, 2.50 ,{"d":9007199254740993}]},"":0}"#;
        assert_eq!(find(text, "/a/b~1c/1").as_deref(), Some("2.50"));
        assert_eq!(
            find(text, "/a/b~1c/2/d").as_deref(),
            Some("9007199254740993")
        );
        assert_eq!(find(text, "/").as_deref(), Some("0"));
        for absent in ["/x", "/a/x", "/a/b~1c/9", "/a/b~1c/x", "/a/b~1c/1/z"] {
            assert_eq!(find(text, absent), None, "{absent}");
        }
        assert!(Pointer::parse("a").is_err());
        for (pointer, others) in [
            ("/x/y", &["/a", "/"][..]),
            ("/a/x", &["/a/b~1c"]),
            ("/a/b~1c/2/x", &["/a/b~1c/2/d"]),
            ("/a/b~1c/9", &["/a/b~1c"]),
        ] {
            let pointer = Pointer::parse(pointer).unwrap();
            assert_eq!(pointer.others(text), others, "{pointer}");
        }
    }

    #[test]
    fn a_member_that_appears_twice_is_ambiguous() {
        let value: &RawValue = serde_json::from_str(r#"{"a":1,"\u0061":2}"#).unwrap();
        assert_eq!(follow(value.get(), &["a".into()]), Err(Ambiguous));
    }

    #[test]
    fn deeply_nested_values_take_no_stack() {
        let deep = "[".repeat(200_000);
        assert!(members(&deep, |_, _| ()).is_err());
        assert!(members(&format!("{{\"a\":{deep}"), |_, _| ()).is_err());
        let closed = format!("{deep}{}", "]".repeat(200_000));
        assert!(members(&format!("{{\"a\":{closed}}}"), |_, _| ()).is_ok());
        assert!(find(&closed, "/0/0").is_some());
    }
}
