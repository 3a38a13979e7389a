//! Strings that cannot be printed by accident, and what finds in a text what it must not show: a key or a part of a person's
//! data, in whatever form.
//!
//! A key stays in a [`Secret`] from the moment it is read until it is put into a header, in one place. Texts are compared without
//! case and punctuation, as written and with escapes undone. Nothing here knows what a secret is for or where a text comes from.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;

/// A string whose `Debug` shows nothing and that has no `Display`. Clones share it.
#[derive(Clone)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Wraps the string.
    pub fn new(value: impl Into<Arc<str>>) -> Self {
        Self(value.into())
    }

    /// The string itself. Every caller needs review.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// A shorter base64 text could be an ordinary word.
const MIN_BASE64: usize = 8;

/// This many letters and digits in a row give a person's value away anywhere …
const TELLING_PART: usize = 5;
/// … unless the value itself is shorter, down to this: fewer are in many words.
const MIN_VALUE: usize = 4;
/// A word gives away a person's value if it starts with this many letters of one of its words: `Jan`, `Jan***`, `janet`.
const TELLING_START: usize = 3;

/// What a text must not show.
#[derive(Debug, Default)]
pub(crate) struct Hidden {
    /// Letters and digits, and how many consecutive ones of them give it away.
    forms: Vec<(Vec<char>, usize)>,
    /// How words start.
    starts: Vec<String>,
    /// Texts in lower case that give it away as they are.
    wholes: Vec<String>,
}

impl Hidden {
    /// Half of the key gives it away, or eight letters and digits.
    pub(crate) fn add_key(&mut self, key: &str) {
        let length = folded(key).chars().count();
        self.add_forms(key, length.div_ceil(2).clamp(4, 8).min(length));
    }

    /// Adds a person's name, email address, phone number or address.
    pub(crate) fn add_value(&mut self, value: &str) {
        self.add_whole(value);
        // The last part of a domain, such as `com`, is in most links.
        let value = match value.rsplit_once('.') {
            Some((before, _)) if value.contains('@') => before,
            _ => value,
        };
        if folded(value).chars().count() >= MIN_VALUE {
            self.add_forms(value, TELLING_PART);
            // Base64 of another case looks different.
            self.add_forms(&value.to_lowercase(), TELLING_PART);
        }
        self.starts.extend(starts(value));
    }

    /// Adds a text whose parts may be shown.
    pub(crate) fn add_whole(&mut self, text: &str) {
        if text.len() >= TELLING_START {
            self.wholes.push(text.to_lowercase());
        }
    }

    /// Adds a text plain, in hexadecimal digits and in base64; `part` characters of the plain one give it away.
    fn add_forms(&mut self, text: &str, part: usize) {
        let hex: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
        let mut forms = vec![(folded(text), part), (hex, part * 2)];
        // Three bytes make four characters, so a text has three alignments. Characters that depend on the text's surroundings are
        // left out.
        for (before, touched) in [("", 0), ("-", 2), ("--", 3)] {
            let shifted = format!("{before}{text}");
            let mut encoded = STANDARD_NO_PAD.encode(&shifted).split_off(touched);
            if shifted.len() % 3 != 0 {
                encoded.pop();
            }
            let encoded = folded(&encoded);
            if encoded.len() >= MIN_BASE64 {
                let part = (part * 4).div_ceil(3).max(MIN_BASE64);
                forms.push((encoded, part));
            }
        }
        for (form, part) in forms {
            self.forms.push((form.chars().collect(), part));
        }
    }

    /// Whether any of it is in the words.
    pub(crate) fn is_in(&self, words: &str) -> bool {
        let mut words = words.to_owned();
        loop {
            let (text, lower) = (folded(&words), words.to_lowercase());
            let mut forms = self.forms.iter();
            if forms.any(|(form, part)| has_part(&text, form, *part))
                || self.wholes.iter().any(|whole| lower.contains(whole))
                || starts(&words).any(|start| self.starts.contains(&start))
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
    let mut parts = form.windows(part.max(1));
    part > 0 && parts.any(|part| text.contains(&part.iter().collect::<String>()))
}

/// The first letters of each word that has enough of them, in lower case.
fn starts(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|c: char| !c.is_alphanumeric());
    words.filter_map(|word| {
        let start: String = word.chars().take(TELLING_START).collect();
        let is_enough = start.chars().filter(|c| c.is_alphabetic()).count() == TELLING_START;
        is_enough.then(|| start.to_lowercase())
    })
}

/// Only letters and digits, in lower case.
fn folded(text: &str) -> String {
    let letters = text.chars().filter(|c| c.is_alphanumeric());
    letters.flat_map(char::to_lowercase).collect()
}

/// The text with escapes of URLs (`%2F`), JSON (`\u002f`, `\x2f`) and HTML (`&#47;`, `&#x2f;`) undone once.
fn unescaped(text: &str) -> String {
    let (mut plain, mut rest) = (Vec::with_capacity(text.len()), text);
    while let Some(first) = rest.chars().next() {
        let (code, length) = escape(rest).unwrap_or((first.into(), first.len_utf8()));
        match u8::try_from(code) {
            // In URLs it is a byte of UTF-8.
            Ok(byte) if first == '%' => plain.push(byte),
            _ => {
                let character = char::from_u32(code).unwrap_or(first);
                plain.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
        rest = rest.get(length..).unwrap_or_default();
    }
    String::from_utf8_lossy(&plain).into_owned()
}

/// The code that the escape at the start of the text stands for, and its length.
fn escape(text: &str) -> Option<(u32, usize)> {
    let hex = |from: usize, to: usize| {
        let digits = text.get(from..to)?;
        let all = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        all.then(|| u32::from_str_radix(digits, 16).ok())?
    };
    if text.starts_with('%') {
        return Some((hex(1, 3)?, 3));
    }
    if text.starts_with("\\u") {
        return Some((hex(2, 6)?, 6));
    }
    if text.starts_with("\\x") {
        return Some((hex(2, 4)?, 4));
    }
    let (digits, _) = text.strip_prefix("&#")?.split_once(';')?;
    let code = match digits.strip_prefix(['x', 'X']) {
        Some(digits) => u32::from_str_radix(digits, 16).ok()?,
        None => digits.parse().ok()?,
    };
    Some((code, digits.len() + 3))
}

#[cfg(test)]
#[expect(clippy::string_slice, reason = "the key of these tests is ASCII")]
mod tests {
    use base64::engine::general_purpose::{STANDARD, URL_SAFE};

    use super::*;

    const KEY: &str = "sk_live/51H?x~Qz+0aB";

    #[test]
    fn debug_shows_nothing_of_the_secret() {
        assert_eq!(format!("{:?}", Secret::new("hunter2")), "Secret(…)");
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
        let mut keys = Hidden::default();
        keys.add_key("other-key-00");
        keys.add_key(KEY);
        for form in forms {
            assert!(keys.is_in(&form), "{form}");
            assert!(keys.is_in(&format!("no key: '{form}', sorry")), "{form}");
        }
        for words in [
            "",
            "unknown API key",
            "the key sk_live…0aB has expired, see https://example.com/docs?topic=keys&lang=en",
            "100 % of the quota is used; request 44de328f-0a55-4c1c-8b1e-4f3c2f6b3d11 &c; \\u12 \\",
        ] {
            assert!(!keys.is_in(words), "{words}");
        }
    }

    #[test]
    fn a_part_of_a_person_is_found_in_every_form_and_ordinary_words_are_none() {
        let mut person = Hidden::default();
        for value in [
            "Agnieszka Żółtowska",
            "Aga.Z82@Mail.Firma.pl",
            "+4915112345678",
            "203.0.113.171",
        ] {
            person.add_value(value);
        }
        person.add_whole("Mozilla/5.0");
        for shown in [
            "no user Agnieszka",
            "AGNIESZKA_ŻÓŁTOWSKA",
            "user agn*** is blocked",
            "zoltowska? did you mean Żółtowski?",
            r"Ż\u00f3\u0142towska",
            "%C5%BB%C3%B3%C5%82towska",
            "&#379;&#243;&#322;towska",
            "aga.z82@mail.firma.pl",
            "aga.z82%40mail.firma.pl",
            "aga z82 at mail firma pl",
            "4915112345678",
            "0151 1234-5678 is not a mobile number",
            "numbers in 12345 are blocked",
            "203-0-113-171",
            "mozilla/5.0 is outdated",
            &STANDARD.encode("Agnieszka"),
            &STANDARD.encode("to: aga.z82@mail.firma.pl"),
            &URL_SAFE.encode("Aga.Z82@Mail.Firma.pl"),
            &STANDARD.encode("+4915112345678"),
            "41676e6965737a6b61",
        ] {
            assert!(person.is_in(shown), "{shown}");
        }
        for words in [
            "",
            "unknown API key",
            "your plan has expired, see https://docs.example.pl/errors#402 or write to sales",
            "the phone number has 13 digits, and its country code 49 is not supported",
            "request 44de328f-0a55-4c1c-8b1e-4f3c2f6b3d11 was refused at 2026-11-28T19:12:16Z",
        ] {
            assert!(!person.is_in(words), "{words}");
        }
        // Names of two letters that are words, and what says nothing of anybody.
        let mut person = Hidden::default();
        for value in ["Jo Li", "王芳", "::1", "1.1", ""] {
            person.add_value(value);
        }
        for (words, shows) in [
            ("no, join the list", false),
            ("王芳?", true),
            ("jo.li", true),
        ] {
            assert_eq!(person.is_in(words), shows, "{words}");
        }
    }
}
