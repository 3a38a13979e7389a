//! Risk levels, and the decisions that lists of them stand for.
//!
//! The service's interface names a risk level but gives neither its place nor its values, so both come from the user. A
//! level in no list has no decision: nothing is ever guessed.

use std::borrow::Cow;

use super::decision::Decision;

/// Lists of levels, each with its decision.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Levels(Vec<(Box<str>, Decision)>);

impl Levels {
    /// Adds a level.
    ///
    /// # Errors
    /// The decision whose list has it already.
    pub(crate) fn add(&mut self, level: &str, decision: Decision) -> Result<(), Decision> {
        if let Some(there) = self.decide(level) {
            return Err(there);
        }
        self.0.push((level.trim().into(), decision));
        Ok(())
    }

    /// Whether no level was added.
    #[must_use]
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The levels that mean this decision, in the order in which they were given.
    pub(crate) fn listed(&self, decision: Decision) -> impl Iterator<Item = &str> {
        let mine = self.0.iter().filter(move |(_, means)| *means == decision);
        mine.map(|(level, _)| &**level)
    }

    /// The decision for a level, compared without white space around it and without regard to case; `None` if it is in no
    /// list.
    #[must_use]
    pub(crate) fn decide(&self, level: &str) -> Option<Decision> {
        let level = level.trim();
        let found = self.0.iter().find(|(listed, _)| is_same(listed, level));
        found.map(|(_, decision)| *decision)
    }
}

fn is_same(a: &str, b: &str) -> bool {
    let lower = |c: char| c.to_lowercase();
    a.chars().flat_map(lower).eq(b.chars().flat_map(lower))
}

/// The level that a JSON value stands for: a string's content, or any other value as it was written. `None` for null and
/// for white space.
#[must_use]
pub(crate) fn level_of(json: &str) -> Option<Cow<'_, str>> {
    if json == "null" {
        return None;
    }
    let text = match serde_json::from_str::<String>(json) {
        Ok(text) => Cow::Owned(text),
        Err(_) => Cow::Borrowed(json),
    };
    (!text.trim().is_empty()).then_some(text)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_compared_by_its_text_and_is_in_one_list_only() {
        let mut levels = Levels::default();
        assert!(levels.is_empty());
        levels.add(" Low ", Decision::Approve).unwrap();
        levels.add("0", Decision::Approve).unwrap();
        levels.add("élevé", Decision::Block).unwrap();
        assert_eq!(levels.add("LOW", Decision::Block), Err(Decision::Approve));
        for (level, decision) in [
            ("low", Some(Decision::Approve)),
            ("\tLOW ", Some(Decision::Approve)),
            ("0", Some(Decision::Approve)),
            ("ÉLEVÉ", Some(Decision::Block)),
            ("0.0", None),
            ("00", None),
            ("lo", None),
            ("lower", None),
            ("", None),
        ] {
            assert_eq!(levels.decide(level), decision, "{level}");
        }
    }

    #[test]
    fn a_json_value_is_its_text() {
        for (json, level) in [
            ("1", Some("1")),
            ("1.0", Some("1.0")),
            (r#""high""#, Some("high")),
            (r#""h\u0069gh ""#, Some("high ")),
            (r#""1""#, Some("1")),
            ("true", Some("true")),
            (r#"{"a":1}"#, Some(r#"{"a":1}"#)),
            ("null", None),
            (r#""null""#, Some("null")),
            (r#""""#, None),
            (r#"" \t""#, None),
        ] {
            assert_eq!(level_of(json).as_deref(), level, "{json}");
        }
    }
}
