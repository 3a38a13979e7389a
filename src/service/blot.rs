//! What must not be repeated: servers like to quote what they refuse, and their words may reach a terminal or a log.

use std::cmp::Reverse;
use std::sync::Arc;

use bytes::Bytes;

use super::traces::{GAP, Traces};
use crate::base::secret::Secret;

/// Every key that a run has used. Of a rotated key the service may repeat either, in any answer. Clones share them.
#[derive(Debug, Clone)]
pub struct Keys(Arc<[Secret]>);

impl Keys {
    /// The key that a run begins with.
    #[must_use]
    pub fn new(key: Secret) -> Self {
        Self(Arc::new([key]))
    }

    /// These and one more.
    #[must_use]
    pub(crate) fn and(&self, key: &Secret) -> Self {
        let others = self.0.iter().filter(|known| known.expose() != key.expose());
        let mut keys: Vec<_> = others.chain([key]).cloned().collect();
        // One may be the beginning of another: blotted out first, it would leave the rest of the longer one.
        keys.sort_by_key(|key| Reverse(key.expose().len()));
        Self(keys.into())
    }
}

/// What a request carried.
#[derive(Debug, Clone)]
pub struct Sent {
    /// The key that went with it, and all others that the run had used when the answer came.
    pub api_keys: Keys,
    /// Its body: a person's data.
    pub body: Bytes,
}

/// Shorter values, as the name `Ann`, are taken out only where they stand alone: they may be parts of ordinary words.
const LONG: usize = 4;

impl Sent {
    /// `words` of the service, decoded already, without anything that we sent. `None` where traces of it are left: then
    /// they must not be shown at all.
    ///
    /// It takes words as a whole, before they are cut: half a key is still a key.
    pub(super) fn redact(&self, words: &str) -> Option<String> {
        let mut words: Vec<char> = words.chars().filter(|c| *c != GAP).collect();
        let mut traces = Traces::default();
        for key in self.api_keys.0.iter() {
            words = without(&words, key.expose(), false);
            traces.add_secret(key.expose());
        }
        if let Ok(serde_json::Value::Object(fields)) = serde_json::from_slice(&self.body) {
            for value in fields.values().filter_map(serde_json::Value::as_str) {
                words = without(&words, value, value.len() < LONG);
                traces.add_value(value);
            }
            // Services greet people by one of their names, and turn names around.
            for field in ["name", "email"] {
                let value = fields.get(field).and_then(serde_json::Value::as_str);
                let parts = value
                    .unwrap_or_default()
                    .split(|c: char| !c.is_alphanumeric());
                for part in parts.filter(|part| part.chars().count() > 1) {
                    words = without(&words, part, true);
                }
            }
        }
        let words: String = words.into_iter().collect();
        (!traces.are_in(&words)).then(|| words.replace(GAP, "…"))
    }

    /// A request that carried nothing, for tests.
    #[cfg(test)]
    pub(crate) fn nothing() -> Self {
        Self {
            api_keys: Keys::new(Secret::new("test-key")),
            body: Bytes::new(),
        }
    }
}

/// The text without `word` in any case, or with `alone` only where no letter or digit touches it.
fn without(text: &[char], word: &str, alone: bool) -> Vec<char> {
    let lower = |c: &char| c.to_lowercase().next().unwrap_or(*c);
    let word: Vec<_> = word.chars().map(|c| lower(&c)).collect();
    let (mut kept, mut rest) = (Vec::with_capacity(text.len()), text);
    while let [first, others @ ..] = rest {
        let here = rest.get(..word.len());
        let same = here.is_some_and(|here| here.iter().map(lower).eq(word.iter().copied()));
        let after = rest.get(word.len()..).unwrap_or_default();
        let touched = [kept.last(), after.first()]
            .into_iter()
            .flatten()
            .any(|c| c.is_alphanumeric());
        if same && !word.is_empty() && !(alone && touched) {
            kept.push(GAP);
            rest = after;
        } else {
            kept.push(*first);
            rest = others;
        }
    }
    kept
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn key_and_values_are_taken_out() {
        let sent = Sent {
            api_keys: Keys::new(Secret::new("sk/live/1")),
            body: Bytes::from_static(br#"{"name":"Jan\u00e9 Doe","ip":"::1","email":"j@x.org"}"#),
        };
        let words = "key sk/live/1 of Jané Doe <j@x.org> at ::1 is unknown";
        let redacted = "key … of … <…> at … is unknown";
        assert_eq!(sent.redact(words).as_deref(), Some(redacted));
        assert_eq!(
            sent.redact(&words.to_uppercase()).unwrap(),
            redacted.to_uppercase()
        );
        assert_eq!(sent.redact("DOE, Jané (j)").as_deref(), Some("…, … (j)"));
    }

    #[test]
    fn every_key_of_the_run_is_taken_out_whole() {
        let keys = ["sk-1", "sk-1-new", "sk-0", "sk-1"].map(Secret::new);
        let sent = Sent {
            api_keys: keys
                .iter()
                .fold(Keys::new(Secret::new("old")), |keys, key| keys.and(key)),
            body: Bytes::new(),
        };
        assert_eq!(sent.api_keys.0.len(), 4, "none twice");
        assert_eq!(
            sent.redact("sk-1-new replaced sk-1, sk-0 and old")
                .as_deref(),
            Some("… replaced …, … and …")
        );
    }

    #[test]
    fn a_short_value_is_taken_out_where_it_stands_alone() {
        let sent = Sent {
            api_keys: Keys::new(Secret::new("sk/live/1")),
            body: Bytes::from_static(br#"{"name":"Ann"}"#),
        };
        assert_eq!(
            sent.redact("nobody: Ann, in Annapolis, ann").as_deref(),
            Some("nobody: …, in Annapolis, …")
        );
    }
}
