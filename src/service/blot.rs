//! What must not be repeated: servers like to quote what they refuse, and their words may reach a terminal or a log.

use std::cmp::Reverse;
use std::sync::Arc;

use bytes::Bytes;

use crate::secret::Secret;

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
    pub fn and(&self, key: &Secret) -> Self {
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

/// Shorter values, as the name `Ann`, are blotted out only where they stand alone: they may be parts of ordinary words.
const LONG: usize = 4;

impl Sent {
    /// `words` of the service, decoded already, with everything that we sent blotted out. Before they are cut: half a
    /// key is still a key.
    pub(super) fn blot(&self, words: &str) -> String {
        let mut blotted = words.to_owned();
        for key in self.api_keys.0.iter() {
            blotted = blotted.replace(key.expose(), "…");
        }
        if let Ok(serde_json::Value::Object(fields)) = serde_json::from_slice(&self.body) {
            let values = fields.values().filter_map(serde_json::Value::as_str);
            for value in values.filter(|value| !value.is_empty()) {
                blotted = if value.len() >= LONG {
                    blotted.replace(value, "…")
                } else {
                    without_word(&blotted, value)
                };
            }
        }
        blotted
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

/// The text without `word` where no letter or digit touches it.
fn without_word(text: &str, word: &str) -> String {
    let (mut kept, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, after)) = rest.split_once(word) {
        kept.push_str(before);
        let touched =
            kept.ends_with(char::is_alphanumeric) || after.starts_with(char::is_alphanumeric);
        kept.push_str(if touched { word } else { "…" });
        rest = after;
    }
    kept + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_and_values_are_blotted_out() {
        let sent = Sent {
            api_keys: Keys::new(Secret::new("sk/live/1")),
            body: Bytes::from_static(br#"{"name":"Jan\u00e9 Doe","ip":"::1","email":"j@x.org"}"#),
        };
        let words = "key sk/live/1 of Jané Doe <j@x.org> at ::1 is unknown";
        assert_eq!(sent.blot(words), "key … of … <…> at … is unknown");
    }

    #[test]
    fn every_key_of_the_run_is_blotted_out_whole() {
        let keys = ["sk-1", "sk-1-new", "sk-0", "sk-1"].map(Secret::new);
        let sent = Sent {
            api_keys: keys
                .iter()
                .fold(Keys::new(Secret::new("old")), |keys, key| keys.and(key)),
            body: Bytes::new(),
        };
        assert_eq!(sent.api_keys.0.len(), 4, "none twice");
        assert_eq!(
            sent.blot("sk-1-new replaced sk-1, sk-0 and old"),
            "… replaced …, … and …"
        );
    }

    #[test]
    fn a_short_value_is_blotted_out_where_it_stands_alone() {
        let sent = Sent {
            api_keys: Keys::new(Secret::new("sk/live/1")),
            body: Bytes::from_static(br#"{"name":"Ann"}"#),
        };
        assert_eq!(
            sent.blot("nobody: Ann, in Annapolis, Ann"),
            "nobody: …, in Annapolis, …"
        );
    }
}
