//! Removes keys and personal data from the service's words: servers like to quote what they refuse,
//! and their words may end up on a terminal or in a log.

use std::cmp::Reverse;
use std::sync::Arc;

use bytes::Bytes;

use super::traces::{GAP, Traces};
use crate::base::secret::Secret;

/// Every API key that a run has used. After a rotation, any answer may repeat the old or the new
/// key. Clones share the keys.
#[derive(Debug, Clone)]
pub struct ApiKeys(Arc<[Secret]>);

impl ApiKeys {
    /// The key that a run starts with.
    #[must_use]
    pub fn new(key: Secret) -> Self {
        Self(Arc::new([key]))
    }

    /// These keys and one more.
    #[must_use]
    pub(crate) fn and(&self, key: &Secret) -> Self {
        let others = self.0.iter().filter(|known| known.expose() != key.expose());
        let mut keys: Vec<_> = others.chain([key]).cloned().collect();
        // One key may be a prefix of another. Redacted first, it would leave the rest of the longer
        // one.
        keys.sort_by_key(|key| Reverse(key.expose().len()));
        Self(keys.into())
    }
}

/// What a request contained.
#[derive(Debug, Clone)]
pub struct SentRequest {
    /// Its key, and all other keys that the run had used when the answer came.
    pub api_keys: ApiKeys,
    /// Its body: personal data.
    pub body: Bytes,
}

/// Shorter values, such as the name `Ann`, are removed only where they stand alone: they may be
/// parts of ordinary words.
const LONG: usize = 4;

impl SentRequest {
    /// The service's `words`, already decoded, without anything that we sent. `None` if traces of
    /// it remain: then the words must not be shown at all.
    ///
    /// The words must be complete, not cut: half a key is still a secret.
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
            // Services address people by one of their names, or swap the names.
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

    /// A request without content, for tests.
    #[cfg(test)]
    pub(crate) fn nothing() -> Self {
        Self {
            api_keys: ApiKeys::new(Secret::new("test-key")),
            body: Bytes::new(),
        }
    }
}

/// The text without `word`, ignoring case; with `alone`, only where no letter or digit is next to
/// it.
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
    fn key_and_values_are_removed() {
        let sent = SentRequest {
            api_keys: ApiKeys::new(Secret::new("sk/live/1")),
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
    fn every_key_of_the_run_is_removed_whole() {
        let keys = ["sk-1", "sk-1-new", "sk-0", "sk-1"].map(Secret::new);
        let sent = SentRequest {
            api_keys: keys
                .iter()
                .fold(ApiKeys::new(Secret::new("old")), |keys, key| keys.and(key)),
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
    fn a_short_value_is_removed_where_it_stands_alone() {
        let sent = SentRequest {
            api_keys: ApiKeys::new(Secret::new("sk/live/1")),
            body: Bytes::from_static(br#"{"name":"Ann"}"#),
        };
        assert_eq!(
            sent.redact("nobody: Ann, in Annapolis, ann").as_deref(),
            Some("nobody: …, in Annapolis, …")
        );
    }
}
