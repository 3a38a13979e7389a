//! What must not be repeated: servers like to quote what they refuse, and their words may reach a terminal or a log.

use bytes::Bytes;

use crate::secret::Secret;

/// What a request carried.
#[derive(Debug, Clone)]
pub struct Sent {
    /// The key that went with it.
    pub api_key: Secret,
    /// Its body: a person's data.
    pub body: Bytes,
}

/// Shorter values, as the name `Ann`, are blotted out only where they stand alone: they may be parts of ordinary words.
const LONG: usize = 4;

impl Sent {
    /// `words` of the service, decoded already, with everything that we sent blotted out. Before they are cut: half a
    /// key is still a key.
    pub(super) fn blot(&self, words: &str) -> String {
        let mut blotted = words.replace(self.api_key.expose(), "…");
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
            api_key: Secret::new("test-key"),
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
            api_key: Secret::new("sk/live/1"),
            body: Bytes::from_static(br#"{"name":"Jan\u00e9 Doe","ip":"::1","email":"j@x.org"}"#),
        };
        let words = "key sk/live/1 of Jané Doe <j@x.org> at ::1 is unknown";
        assert_eq!(sent.blot(words), "key … of … <…> at … is unknown");
    }

    #[test]
    fn a_short_value_is_blotted_out_where_it_stands_alone() {
        let sent = Sent {
            api_key: Secret::new("sk/live/1"),
            body: Bytes::from_static(br#"{"name":"Ann"}"#),
        };
        assert_eq!(
            sent.blot("nobody: Ann, in Annapolis, Ann"),
            "nobody: …, in Annapolis, …"
        );
    }
}
