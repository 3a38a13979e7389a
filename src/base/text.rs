//! Foreign text, such as that of a file or a service: its encoding, which of its characters do something to a terminal instead of
//! being shown, and how a message shows it. Also what it may have been meant to be, and how a few instructions check every byte of
//! a value.
//!
//! An encoding has its name in the WHATWG Encoding Standard. Only supersets of ASCII are encodings here: in the others, not even a
//! line end is a byte of its own.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};
use icu_normalizer::ComposingNormalizerBorrowed;

/// Whether the character can control a terminal, break a line, or reverse the direction of text: control characters (C0,
/// DEL, C1), the marks, embeddings, overrides and isolates of bidirectional text, Unicode's line and paragraph separators,
/// and the byte order mark. Accents, joiners and emoji are safe.
pub fn is_unsafe_to_print(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{61c}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2066}'..='\u{2069}'
                | '\u{feff}'
        )
}

/// Whether any character of the text [`is_unsafe_to_print`].
pub(crate) fn any_unsafe_to_print(text: &str) -> bool {
    // Ids and numbers of every answer are checked here, and nearly all are plain ASCII.
    let plain = text
        .bytes()
        .fold(true, |plain, byte| plain & (0x20..0x7f).contains(&byte));
    !plain && text.chars().any(is_unsafe_to_print)
}

/// Whether `is_one` is true of any byte. There is no branch for each byte, and for a short text no loop over single bytes:
/// every value of every row comes through here, and most have 10 to 30 bytes.
#[inline]
pub(crate) fn any_byte(bytes: &[u8], is_one: impl Fn(u8) -> bool + Copy) -> bool {
    // The last block overlaps the one before it, so that nothing is left over.
    if let Some(last) = bytes.last_chunk::<16>() {
        let (blocks, _) = bytes.as_chunks::<16>();
        let in_last = any_of(last, is_one);
        return blocks
            .iter()
            .fold(in_last, |found, block| found | any_of(block, is_one));
    }
    match (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
        (Some(first), Some(last)) => any_of(first, is_one) | any_of(last, is_one),
        _ => bytes.iter().any(|byte| is_one(*byte)),
    }
}

/// The same for a block of bytes: the compiler makes one or two instructions of it.
#[inline]
fn any_of<const N: usize>(bytes: &[u8; N], is_one: impl Fn(u8) -> bool) -> bool {
    bytes
        .iter()
        .fold(false, |found, byte| found | is_one(*byte))
}

/// The text with control characters escaped, so that nothing from a file or a server can control a terminal.
pub(crate) fn printable(text: &str) -> String {
    if !any_unsafe_to_print(text) {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_unsafe_to_print(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

/// A path for a message; within a sentence, the caller puts it in backticks.
pub(crate) fn display(path: &Path) -> String {
    printable(&path.display().to_string())
}

/// How many characters of a foreign value a message quotes: enough to recognise it, too few to flood a terminal.
const QUOTED_CHARACTERS: usize = 80;

/// A value in backticks, cut at 80 characters, control characters escaped.
pub(crate) fn quoted(value: &str) -> String {
    format!("`{}`", cut(value, QUOTED_CHARACTERS))
}

/// How many characters of a column's name are shown: no real name is longer.
pub(crate) const COLUMN_CHARACTERS: usize = 40;

/// A column's name, cut at 40 characters, control characters escaped.
pub(crate) fn column(name: &str) -> String {
    cut(name, COLUMN_CHARACTERS)
}

fn cut(value: &str, characters: usize) -> String {
    let start: String = value.chars().take(characters).collect();
    let more = if start.len() < value.len() { "…" } else { "" };
    format!("{}{more}", printable(&start))
}

/// The one of these names that was probably meant by a misspelt one.
pub(crate) fn nearest<'a>(misspelt: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    /// Unless only one letter is wrong, names less alike than this are noise.
    const MIN_LIKENESS: f64 = 0.75;
    let likeness = |name: &str| strsim::normalized_damerau_levenshtein(misspelt, name);
    let nearest = names.max_by(|a, b| likeness(a).total_cmp(&likeness(b)))?;
    let is_alike =
        likeness(nearest) >= MIN_LIKENESS || strsim::damerau_levenshtein(misspelt, nearest) == 1;
    is_alike.then_some(nearest)
}

/// An encoding that is a superset of ASCII; UTF-8 unless another one was named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TextEncoding {
    /// `None` is UTF-8, which needs no conversion.
    other: Option<&'static Encoding>,
}

impl TextEncoding {
    /// UTF-8.
    pub const UTF_8: Self = Self { other: None };

    /// The encoding with this label of the standard, such as `windows-1252`, `latin1` or `sjis`.
    ///
    /// # Errors
    /// There is none, or it cannot be read, with what to do.
    pub(crate) fn of_label(label: &str) -> Result<Self, String> {
        // The standard's own "replacement" stands for encodings that it refuses to decode.
        let encoding = Encoding::for_label_no_replacement(label.as_bytes()).ok_or(
            "expected the name of an encoding, such as `utf-8`, `windows-1252`, `shift_jis` or `gb18030`",
        )?;
        if !encoding.is_ascii_compatible() {
            let name = encoding.name();
            return Err(format!(
                "{name} is not a superset of ASCII; convert the file with `iconv -f {name} -t UTF-8`"
            ));
        }
        let other = (encoding != UTF_8).then_some(encoding);
        Ok(Self { other })
    }

    /// Whether each of its characters is one byte.
    pub(crate) fn is_single_byte(self) -> bool {
        self.other.is_some_and(Encoding::is_single_byte)
    }

    /// Whether it is UTF-8.
    #[inline]
    pub(crate) const fn is_utf8(self) -> bool {
        self.other.is_none()
    }

    /// Decodes bytes; `None` if they are not text in this encoding.
    pub(crate) fn decode(self, bytes: Cow<'_, [u8]>) -> Option<Cow<'_, str>> {
        let encoding = self.other.unwrap_or(UTF_8);
        match bytes {
            Cow::Borrowed(bytes) => {
                encoding.decode_without_bom_handling_and_without_replacement(bytes)
            }
            Cow::Owned(bytes) => encoding
                .decode_without_bom_handling_and_without_replacement(&bytes)
                .map(|text| Cow::Owned(text.into_owned())),
        }
    }

    /// Decodes bytes, with replacement characters for those that are not text.
    #[inline]
    pub(crate) fn decode_lossy(self, bytes: &[u8]) -> Cow<'_, str> {
        match self.other {
            Some(encoding) => encoding.decode_without_bom_handling(bytes).0,
            None => String::from_utf8_lossy(bytes),
        }
    }

    /// Encodes a text. A character that the encoding does not have becomes `&#8594;`, as in the forms of web pages:
    /// nothing is lost, as it would be with a question mark.
    #[inline]
    pub(crate) fn encode(self, text: &str) -> Cow<'_, [u8]> {
        match self.other {
            Some(encoding) => encoding.encode(text).0,
            None => Cow::Borrowed(text.as_bytes()),
        }
    }

    /// Whether it has all characters of a text.
    pub(crate) fn has_all_of(self, text: &str) -> bool {
        self.other.is_none_or(|encoding| !encoding.encode(text).2)
    }

    /// Whether this byte can also be the second half of a character, as `|` in Shift JIS. In a character of four bytes,
    /// which only GB 18030 has, such a half is a digit.
    pub(crate) fn has_within_characters(self, byte: u8) -> bool {
        let is_character = |lead: u8| {
            let text = self.decode(Cow::Owned(vec![lead, byte]));
            text.is_some_and(|text| text.chars().count() == 1)
        };
        !self.is_utf8() && (0x80..=0xff).any(is_character)
    }
}

/// The text with composed letters (NFC), as in `é` for an `e` with an accent after it: the two look the same.
#[inline]
pub(crate) fn composed(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    ComposingNormalizerBorrowed::new_nfc().normalize(text)
}

/// Whether a program read UTF-8 as Latin-1 or windows-1252 and encoded the text again: `JÃ¼rgen` for `Jürgen`.
pub(crate) fn is_encoded_twice(text: &str) -> bool {
    // A letter of two bytes becomes two letters, so a single one between ASCII is as it should be. Most are.
    let is_lone = |run: &[u8]| matches!(run, [0xc2..=0xdf, _]);
    let bytes = text.as_bytes();
    let mut runs = bytes.chunk_by(|a, b| a.is_ascii() == b.is_ascii());
    if runs.any(is_lone) {
        return false;
    }
    let (bytes, _, has_others) = WINDOWS_1252.encode(text);
    !has_others && !text.is_ascii() && std::str::from_utf8(&bytes).is_ok()
}

impl fmt::Display for TextEncoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.other.unwrap_or(UTF_8).name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_distinguished_from_text() {
        for c in [
            '\0', '\t', '\n', '\r', '\u{1b}', '\u{7f}', '\u{85}', '\u{9b}', '\u{9d}', '\u{2029}',
            '\u{202e}', '\u{2066}', '\u{feff}',
        ] {
            assert!(is_unsafe_to_print(c), "{}", c.escape_unicode());
            assert!(
                any_unsafe_to_print(&format!("a{c}b")),
                "{}",
                c.escape_unicode()
            );
        }
        for c in [' ', 'é', '\u{200d}', '\u{301}', '漢', 'ا', '🦀', '…'] {
            assert!(!is_unsafe_to_print(c), "{}", c.escape_unicode());
            assert!(
                !any_unsafe_to_print(&format!("a{c}b")),
                "{}",
                c.escape_unicode()
            );
        }
    }

    #[test]
    fn a_byte_is_found_wherever_it_is() {
        for length in 0..70 {
            let mut bytes = vec![b'a'; length];
            assert!(!any_byte(&bytes, |byte| byte == b'x'), "{length}");
            for at in 0..length {
                bytes.fill(b'a');
                bytes.splice(at..=at, [b'x']);
                assert!(any_byte(&bytes, |byte| byte == b'x'), "{at} of {length}");
            }
        }
    }

    #[test]
    fn foreign_text_cannot_control_a_terminal() {
        assert_eq!(quoted("a\u{1b}[2Jb\u{202e}"), "`a\\u{1b}[2Jb\\u{202e}`");
        assert_eq!(quoted(&"x".repeat(100)).chars().count(), 83);
    }

    fn named(label: &str) -> TextEncoding {
        TextEncoding::of_label(label).unwrap()
    }

    #[test]
    fn labels_of_the_standard_are_known_and_only_supersets_of_ascii_can_be_read() {
        for (label, name) in [
            ("windows-1252", "windows-1252"),
            ("Latin1", "windows-1252"),
            ("iso-8859-1", "windows-1252"),
            ("cp1251", "windows-1251"),
            ("sjis", "Shift_JIS"),
            ("gb2312", "GBK"),
            ("GB18030", "gb18030"),
            ("koi8-r", "KOI8-R"),
            (" utf8 ", "UTF-8"),
        ] {
            assert_eq!(named(label).to_string(), name);
        }
        assert!(named("utf-8").is_utf8());
        for label in [
            "utf-16",
            "utf-16be",
            "iso-2022-jp",
            "iso-2022-kr",
            "windows1252",
            "",
        ] {
            assert!(TextEncoding::of_label(label).is_err(), "{label}");
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        for (label, text, bytes) in [
            ("windows-1252", "Jürgen €", &b"J\xfcrgen \x80"[..]),
            ("shift_jis", "表 ソ", b"\x95\x5c \x83\x5c"),
            ("gb18030", "中 €", b"\xd6\xd0 \xa2\xe3"),
            ("koi8-r", "Привет", b"\xf0\xd2\xc9\xd7\xc5\xd4"),
            ("big5", "許", b"\xb3\x5c"),
            ("utf-8", "ü", b"\xc3\xbc"),
        ] {
            let encoding = named(label);
            assert_eq!(&*encoding.encode(text), bytes, "{label}");
            assert_eq!(encoding.decode(bytes.into()).as_deref(), Some(text));
            assert_eq!(encoding.decode_lossy(bytes), text);
            assert!(encoding.has_all_of(text));
        }
        let latin = named("latin1");
        assert!(!latin.has_all_of("→"));
        assert_eq!(&*latin.encode("a→ü"), b"a&#8594;\xfc");
        // Half a character, and bytes that stand for nothing.
        for (label, bytes) in [
            ("sjis", &b"\x95"[..]),
            ("windows-1253", b"\xaa"),
            ("utf-8", b"\xfc"),
        ] {
            assert_eq!(named(label).decode(bytes.into()), None, "{label}");
        }
    }

    #[test]
    fn bytes_that_can_be_half_a_character_are_known() {
        for (label, within, never) in [
            ("sjis", &b"|\\@`{}~^_[]"[..], &b",;\t \"\r\n:#!/'=&"[..]),
            ("gbk", b"|\\@`{}~^_[]", b",;\t \"\r\n:#!/'=&"),
            ("gb18030", b"|\\@", b",;\t \"\r\n:#!/'=&"),
            ("big5", b"|\\@`{}~^_[]", b",;\t \"\r\n:#!/'=&"),
            ("euc-kr", b"az", b",;\t|\\@{ \"\r\n"),
            ("euc-jp", b"", b",;\t|\\@{ \"\r\n"),
            ("windows-1252", b"", b",;\t|\\@{ \"\r\n"),
            ("utf-8", b"", b",;\t|\\@{ \"\r\n"),
        ] {
            let encoding = named(label);
            let has = |byte: &u8| encoding.has_within_characters(*byte);
            assert!(within.iter().all(has), "{label}");
            assert!(!never.iter().any(has), "{label}");
        }
    }
}
