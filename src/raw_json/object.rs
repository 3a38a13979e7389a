//! The members of an object, one after the other, in one pass over its text.

use std::fmt;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::value::JsonValue;

/// Calls `visit` with every member of the object `text` in order: its key as written, including quotes, and its value.
///
/// # Errors
/// `text` is not a JSON object, or something follows it. Members before the fault have been visited.
#[inline]
pub fn members<'a>(
    text: &'a str,
    visit: impl FnMut(JsonValue<'a>, JsonValue<'a>),
) -> serde_json::Result<()> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    deserializer.deserialize_map(Members(visit))?;
    deserializer.end()
}

struct Members<F>(F);

impl<'de, F: FnMut(JsonValue<'de>, JsonValue<'de>)> Visitor<'de> for Members<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    #[inline]
    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some((key, value)) = map.next_entry::<&RawValue, &RawValue>()? {
            (self.0)(key.into(), value.into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_slices_of_the_text_as_they_are_written() {
        let text = r#" { "a" : 1.50 ,"\u0062":"x\"y", "a":{"c":[1, 2]} } "#;
        let mut found = Vec::new();
        let read = members(text, |key, value| found.push((key.get(), value.get())));
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
}
