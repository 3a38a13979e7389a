//! Finds a text in the service's words even if it is written in another way there.
//!
//! Found are: another case, added or missing characters other than letters and digits, escapes of
//! JSON, URLs and HTML (also nested), base64 in either alphabet at any position of the encoded
//! text, hexadecimal digits, and any part that is long enough. Not found are other encodings,
//! ciphers and hashes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;

/// Marks where something was removed from the words: no match extends across it.
pub(super) const GAP: char = '\0';

/// A shorter base64 text could be an ordinary word.
const SHORTEST_ENCODED: usize = 8;

/// What to look for: the forms of a text, and how many consecutive characters of each give it away.
#[derive(Default)]
pub(super) struct Traces(Vec<(Vec<char>, usize)>);

impl Traces {
    /// Adds a secret: half of it gives it away, or eight consecutive letters and digits.
    pub(super) fn add_secret(&mut self, secret: &str) {
        let length = folded(secret).chars().count();
        self.add(secret, length.div_ceil(2).clamp(4, 8).min(length));
    }

    /// Adds a value of a person. A short one only counts as a whole: parts of it are in ordinary
    /// words.
    pub(super) fn add_value(&mut self, value: &str) {
        match folded(value).chars().count() {
            0..5 => {}
            length @ 5..8 => self.add(value, length),
            length => self.add(value, (length / 2).clamp(6, 8)),
        }
    }

    fn add(&mut self, text: &str, part: usize) {
        self.push(&folded(text), part);
        let bytes = text.as_bytes();
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        self.push(&hex, part * 2);
        // Three bytes make four characters, so there are three alignments of a text. Characters
        // that depend on the text's surroundings are left out.
        for (before, touched) in [("", 0), ("-", 2), ("--", 3)] {
            let shifted = [before.as_bytes(), bytes].concat();
            let mut encoded = STANDARD_NO_PAD.encode(&shifted).split_off(touched);
            if shifted.len() % 3 != 0 {
                encoded.pop();
            }
            let encoded = folded(&encoded);
            if encoded.len() >= SHORTEST_ENCODED {
                self.push(&encoded, (part * 4).div_ceil(3).max(SHORTEST_ENCODED));
            }
        }
    }

    fn push(&mut self, form: &str, part: usize) {
        let form: Vec<_> = form.chars().collect();
        if part > 0 {
            self.0.push((form, part));
        }
    }

    /// Whether any of these is in the words.
    pub(super) fn are_in(&self, words: &str) -> bool {
        let mut words = words.to_owned();
        loop {
            let text = folded(&words);
            if self
                .0
                .iter()
                .any(|(form, part)| has_part(&text, form, *part))
            {
                return true;
            }
            // Text that was escaped several times gets shorter each time.
            let plain = unescaped(&words);
            if plain == words {
                return false;
            }
            words = plain;
        }
    }
}

fn has_part(text: &str, form: &[char], part: usize) -> bool {
    let part = part.min(form.len());
    part > 0
        && form
            .windows(part)
            .any(|part| text.contains(&part.iter().collect::<String>()))
}

/// Only letters and digits, in lower case.
pub(super) fn folded(text: &str) -> String {
    text.chars()
        .filter(|c| c.is_alphanumeric() || *c == GAP)
        .flat_map(char::to_lowercase)
        .collect()
}

/// The text with escapes of URLs (`%2F`), JSON (`\u002f`, `\x2f`) and HTML (`&#47;`, `&amp;`) undone once.
fn unescaped(text: &str) -> String {
    let (mut plain, mut rest) = (Vec::with_capacity(text.len()), text);
    while let Some(first) = rest.chars().next() {
        let (bytes, length) = escape(rest).unwrap_or_else(|| {
            let mut buffer = [0; 4];
            (
                first.encode_utf8(&mut buffer).as_bytes().to_vec(),
                first.len_utf8(),
            )
        });
        plain.extend(bytes);
        rest = rest.get(length..).unwrap_or_default();
    }
    String::from_utf8_lossy(&plain).into_owned()
}

/// What the escape at the start of the text stands for, and its length.
fn escape(text: &str) -> Option<(Vec<u8>, usize)> {
    let hex = |from: usize, length: usize| {
        let digits = text.get(from..from + length)?;
        let digits = digits
            .bytes()
            .all(|byte| byte.is_ascii_hexdigit())
            .then_some(digits)?;
        u32::from_str_radix(digits, 16).ok()
    };
    let character = |code: u32| Some(char::from_u32(code)?.to_string().into_bytes());
    if text.starts_with('%') {
        return Some((vec![u8::try_from(hex(1, 2)?).ok()?], 3));
    }
    if text.starts_with("\\u") {
        return Some((character(hex(2, 4)?)?, 6));
    }
    if text.starts_with("\\x") {
        return Some((character(hex(2, 2)?)?, 4));
    }
    let (name, _) = text.strip_prefix('&')?.split_once(';')?;
    let code = match name.strip_prefix('#') {
        Some(code) => match code.strip_prefix(['x', 'X']) {
            Some(code) => u32::from_str_radix(code, 16).ok()?,
            None => code.parse().ok()?,
        },
        None => match name {
            "amp" => '&',
            "lt" => '<',
            "gt" => '>',
            "quot" => '"',
            "apos" => '\'',
            _ => return None,
        }
        .into(),
    };
    Some((character(code)?, name.len() + 2))
}

#[cfg(test)]
#[allow(clippy::string_slice)]
mod tests {
    use base64::engine::general_purpose::{STANDARD, URL_SAFE};

    use super::*;

    const KEY: &str = "sk_live/51H?x~Qz+0aB";

    fn of_key(words: &str) -> bool {
        let mut traces = Traces::default();
        traces.add_secret(KEY);
        traces.are_in(words)
    }

    #[test]
    fn a_key_is_found_in_every_form() {
        let hex = |separator: &str| {
            let digits: Vec<_> = KEY.bytes().map(|byte| format!("{byte:02X}")).collect();
            digits.join(separator)
        };
        let each = |before: &str, after: &str| {
            let escaped = KEY.bytes().map(|byte| format!("{before}{byte:02x}{after}"));
            escaped.collect::<String>()
        };
        let grouped: Vec<_> = KEY.chars().map(String::from).collect();
        let mut forms = vec![
            KEY.to_owned(),
            KEY.to_uppercase(),
            grouped.join("-"),
            grouped.join("\u{200b}"),
            format!("{}-{}", &KEY[..7], &KEY[7..]),
            "sk_live\\/51H?x~Qz+0aB".to_owned(),
            "sk_live%2F51H%3Fx~Qz%2B0aB".to_owned(),
            "sk_live%252F51H%253Fx~Qz%252B0aB".to_owned(),
            "sk_live&#x2F;51H&quest;x~Qz&#43;0aB".to_owned(),
            hex(""),
            hex(":"),
            each("%", ""),
            each("\\u00", ""),
            each("\\\\u00", ""),
            each("\\x", ""),
            each("&#x", ";"),
            // Half of it, and masked keys that show too much.
            KEY[..10].to_owned(),
            KEY[8..].to_owned(),
            "sk_live/51H********".to_owned(),
        ];
        for before in ["", "a", "ab", "Bearer ", "user:"] {
            for after in ["", "!", "}}"] {
                let text = format!("{before}{KEY}{after}");
                forms.push(STANDARD.encode(&text));
                forms.push(URL_SAFE.encode(&text).replace('=', ""));
                forms.push(STANDARD.encode(&text).to_lowercase());
            }
        }
        let encoded = STANDARD.encode(KEY);
        forms.push(format!("{} {}", &encoded[..9], &encoded[9..]));
        for form in forms {
            assert!(of_key(&form), "{form}");
            assert!(of_key(&format!("no such key: '{form}', sorry")), "{form}");
        }
    }

    #[test]
    fn ordinary_words_are_not_traces() {
        for words in [
            "",
            "unknown API key",
            "the key sk_live…0aB has expired, see https://example.com/docs?topic=keys&lang=en",
            "100 % of the quota is used; request 44de328f-0a55-4c1c-8b1e-4f3c2f6b3d11 &c; \\u12 \\",
        ] {
            assert!(!of_key(words), "{words}");
        }
        let mut traces = Traces::default();
        for value in [
            "Anne",
            "Jane Doe",
            "jane.doe@example.org",
            "203.0.113.7",
            "+15550100199",
        ] {
            traces.add_value(value);
        }
        for words in [
            "the email address cannot be checked at the moment",
            "channel closed, try again in 2030 ms",
            "phone number is not from a known country (+1)",
        ] {
            assert!(!traces.are_in(words), "{words}");
        }
        for words in [
            "no user JANE-DOE",
            "doe's host is example.org",
            "203_0_113_7 is on a list",
            "ip 3230332e302e3131332e37",
            "phone 1 555 010",
            "eyJlbWFpbCI6ImphbmUuZG9lQGV4YW1wbGUub3JnIn0=",
        ] {
            assert!(traces.are_in(words), "{words}");
        }
    }

    #[test]
    fn nothing_is_found_across_a_gap() {
        assert!(of_key("sk_live/51H"));
        assert!(!of_key("sk_li\0ve/51"));
    }
}
