//! The encoding of a delimited file, by its name in the WHATWG Encoding Standard.
//!
//! Only supersets of ASCII are encodings here: in the others, not even a line end is a byte of its own.

use std::borrow::Cow;
use std::fmt;

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};
use icu_normalizer::ComposingNormalizerBorrowed;

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

/// Whether a text beyond ASCII was UTF-8 that was read as Latin-1 or windows-1252 and encoded again: `JÃ¼rgen` for `Jürgen`.
pub(crate) fn is_encoded_twice(text: &str) -> bool {
    // A letter of two bytes becomes two letters, so one that stands alone is a letter as it should be. Most do.
    let is_lone = |run: &[u8]| matches!(run, [0xc2..=0xdf, _]);
    let bytes = text.as_bytes();
    let mut runs = bytes.chunk_by(|a, b| a.is_ascii() == b.is_ascii());
    if runs.any(is_lone) {
        return false;
    }
    let (bytes, _, has_others) = WINDOWS_1252.encode(text);
    !has_others && !text.is_ascii() && std::str::from_utf8(&bytes).is_ok()
}

/// Signs that no word starts or ends with. In other encodings, some of their bytes are letters.
const SIGNS: &str = "€‚ƒ„†‡ˆ‰‹•˜™›¡¢£¤¥¦¨¬¯±´µ¶¸¼½¾¿";
/// Signs that may be within a word.
const WITHIN_WORDS: &str = "’‘ʼ‐‑–—·\u{ad}\u{200c}\u{200d}";
/// Letters beyond ASCII of Icelandic, the only language with the first four.
const ICELANDIC: &str = "ðþÐÞáéíóúýæöÁÉÍÓÚÝÆÖ";

/// How many letters and signs of a decoded text are odd, and how many letters beyond ASCII fit their words. In a wrong encoding,
/// words have signs and capitals in their middle, letters of two scripts, or Icelandic letters beside those of other languages.
pub(crate) fn oddities(text: &str) -> (usize, usize) {
    let is_letter = |c: char| c.is_alphabetic() && !SIGNS.contains(c);
    let is_sign = |c: char| {
        matches!(c, 'ƒ' | '\u{80}'..='\u{bf}' | '\u{2c6}'..='\u{2dd}' | '\u{2010}'..='\u{2bff}' | '\u{fffd}')
            && !is_letter(c)
            && !WITHIN_WORDS.contains(c)
    };
    let (mut fitting, mut odd, mut icelandic, mut not_icelandic) = (0, 0, 0, 0);
    let (mut before, mut characters) = (' ', text.chars().peekable());
    while let Some(c) = characters.next() {
        let after = characters.peek().copied().unwrap_or(' ');
        let (follows, precedes) = (is_letter(before), is_letter(after));
        if is_sign(c) {
            let opens = after.is_lowercase() && !"¡¿‹‚".contains(c);
            let is_odd = follows && precedes || SIGNS.contains(c) && (follows || opens);
            odd += usize::from(is_odd || c == char::REPLACEMENT_CHARACTER);
        } else if !c.is_ascii() && is_letter(c) && (follows || precedes) {
            let is_latin = matches!(c, ..'\u{250}' | '\u{1e00}'..='\u{1eff}');
            let is_odd =
                c.is_uppercase() && follows && (before.is_lowercase() || after.is_lowercase())
                    || c.is_lowercase() && after.is_uppercase()
                    || !is_latin && (before.is_ascii_alphabetic() || after.is_ascii_alphabetic());
            odd += usize::from(is_odd);
            fitting += usize::from(!is_odd);
            icelandic += usize::from("ðþÐÞ".contains(c));
            not_icelandic += usize::from(!ICELANDIC.contains(c));
        }
        before = c;
    }
    if not_icelandic > icelandic {
        odd += icelandic;
    }
    (odd, fitting)
}

/// The letters that nearly all code pages of MS-DOS have, from byte 0x80 on.
const DOS_LETTERS: &str = "ÇüéâäàåçêëèïîìÄÅÉæÆôöòûùÿÖÜ¢£¥₧ƒáíóúñÑ";

/// A text of MS-DOS, with U+FFFD for what depends on its code page.
pub(crate) fn decode_dos(bytes: &[u8]) -> String {
    let letters: Vec<_> = DOS_LETTERS.chars().collect();
    let decode = |byte: &u8| match byte {
        0..0x80 => char::from(*byte),
        0xe1 => 'ß',
        _ => { letters.get(usize::from(*byte) - 0x80) }.map_or(char::REPLACEMENT_CHARACTER, |c| *c),
    };
    bytes.iter().map(decode).collect()
}

impl fmt::Display for TextEncoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.other.unwrap_or(UTF_8).name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn names_that_nobody_has_are_not_plausible() {
        for (text, expected) in [
            (
                "José García, Zoë, Jürgen Groß, ÅSA ÖBERG, O’Brien, n° 1",
                true,
            ),
            ("Łukasz Wiśniewski, Dvořák, Ayşe Yılmaz", true),
            ("Привет Иванов, Ελένη, 山田 太郎, ก้าน, محمد", true),
            ("Þórður Sigurðsson, Guðrún Ævarsdóttir", true),
            ("JosŽ García", false),
            ("Jos‚ Garc¡a", false),
            ("JosÇ Garc°a", false),
            ("JÅrgen MÅller", false),
            ("£ukasz Wiœniewski", false),
            ("Jânis Bçrziòð", false),
            ("рРИВЕТ иВАНОВ", false),
            ("Jos茅 Garc铆a", false),
            ("J\u{fffd}rgen", false),
            ("¼uvre Müller", false),
            ("Џривет €ванов", false),
            ("\u{fffd} \u{fffd}", false),
            ("JosÉ", false),
        ] {
            let (odd, fitting) = oddities(text);
            assert_eq!(odd == 0 && fitting > 0, expected, "{text}");
        }
        // A guest from Iceland is one letter of many.
        assert_eq!(oddities("Þór, Irène, Zoë"), (1, 4));
        assert_eq!(
            decode_dos(b"J\x81rgen Gro\xe1 \xb0"),
            "Jürgen Groß \u{fffd}"
        );
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
