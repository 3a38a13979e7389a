//! Where a value is in a JSON text.

use std::fmt;

use serde_json::value::RawValue;

use super::object::members;
use super::value::{JsonValue, string};

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
    #[must_use]
    pub(crate) fn to_all() -> Self {
        Self(Box::default())
    }

    /// The pointer to a member of the outermost object.
    #[must_use]
    pub(crate) fn of_member(name: &str) -> Self {
        Self(Box::new([name.into()]))
    }

    /// The name of the outermost member, and the rest of the path.
    #[must_use]
    pub(crate) fn split_first(&self) -> (&str, &[Box<str>]) {
        match self.0.split_first() {
            Some((first, rest)) => (first, rest),
            None => ("", &[]),
        }
    }

    /// The value in this JSON text, if it exists.
    #[must_use]
    pub(crate) fn find<'a>(&self, text: &'a str) -> Option<JsonValue<'a>> {
        let value: &RawValue = serde_json::from_str(text).ok()?;
        follow(value.into(), &self.0).ok().flatten()
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

/// A member that was looked up appears twice in its object, so nobody can know which one is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ambiguous;

/// Follows the tokens of a pointer, starting at `value`.
///
/// # Errors
/// [`Ambiguous`] if a member on the path appears twice.
pub(crate) fn follow<'a>(
    value: JsonValue<'a>,
    tokens: &[Box<str>],
) -> Result<Option<JsonValue<'a>>, Ambiguous> {
    let mut at = value;
    for token in tokens {
        let text = at.get();
        let found = if text.starts_with('[') {
            // Nearly nobody looks into arrays: this need not be fast.
            let elements: Vec<&RawValue> = serde_json::from_str(text).unwrap_or_default();
            let index: Option<usize> = token.parse().ok();
            let found = index.and_then(|index| elements.get(index).copied());
            found.map(JsonValue::from)
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
        at = value;
    }
    Ok(Some(at))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn find(text: &str, pointer: &str) -> Option<String> {
        Pointer::parse(pointer)
            .unwrap()
            .find(text)
            .map(|value| value.get().to_owned())
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
    }

    #[test]
    fn a_member_that_appears_twice_is_ambiguous() {
        let value: &RawValue = serde_json::from_str(r#"{"a":1,"\u0061":2}"#).unwrap();
        assert_eq!(
            follow(value.into(), &["a".into()]).map(|found| found.map(JsonValue::get)),
            Err(Ambiguous)
        );
    }
}
