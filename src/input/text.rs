//! Whether the input is text, and UTF-8 unless another encoding was named, judged by its first MiB.
//!
//! The encoding is determined by a byte order mark, or else by the majority of the lines that are
//! not pure ASCII. If most of them are UTF-8, other bytes are the fault of single rows. If not, the
//! file is in another encoding, and none of its rows should be paid for; which one is only said if it makes names of its words.
//! Other file formats are recognised by their first bytes, or by a NUL byte.

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use memchr::{memchr, memchr2};

use crate::base::encoding::{TextEncoding, decode_dos, oddities};
use crate::base::error::Error;

/// How much of the input is checked: it is read in no time, and one MiB of users shows the letters
/// that a file has.
pub(super) const HEAD: usize = 1024 * 1024;

pub(super) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Why the input is not readable text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NotText {
    /// It is in another file format.
    OtherFormat(Named),
    /// A NUL byte on this line.
    Nul(u64),
    /// This line is in another encoding.
    Encoding(u64),
    /// It is UTF-8, and not in this encoding: the first line beyond ASCII, and a character of it.
    Utf8(TextEncoding, u64, char),
}

/// Judges the first bytes of an input, of which there are more if it is not `whole`.
///
/// # Errors
/// They are not text, or in another encoding than the settings say.
pub(super) fn check(head: &[u8], encoding: TextEncoding, whole: bool) -> Result<(), NotText> {
    if let Some(format) = foreign(head) {
        return Err(NotText::OtherFormat(format));
    }
    let (mut lines, mut utf8, mut broken) = (0, 0, 0);
    let (mut first_broken, mut first_utf8) = (None, None);
    let is_marked = head.starts_with(BYTE_ORDER_MARK);
    let mut rest = head;
    while !rest.is_empty() {
        let end = memchr2(b'\n', b'\r', rest);
        let (line, after) = rest.split_at(end.unwrap_or(rest.len()));
        let after = after.strip_prefix(b"\r\n").or_else(|| after.get(1..));
        rest = after.unwrap_or_default();
        lines += 1;
        // Where it says itself that it is UTF-8, other bytes are the fault of single rows.
        if !is_marked && memchr(0, line).is_some() {
            return Err(NotText::Nul(lines));
        }
        if line.is_ascii() {
            continue;
        }
        // The head may end within a character.
        let is_cut = end.is_none() && !whole;
        match std::str::from_utf8(line) {
            Err(e) if !is_cut || e.error_len().is_some() => {
                broken += 1;
                first_broken = first_broken.or(Some(lines));
            }
            text => {
                utf8 += 1;
                let mut characters = text.unwrap_or_default().chars();
                let character = characters.find(|c| !c.is_ascii());
                first_utf8 = first_utf8.or(Some(lines).zip(character));
            }
        }
    }
    // A few characters of two bytes may be UTF-8 by chance.
    let few = if encoding.is_single_byte() { 0 } else { 2 };
    match (first_broken, first_utf8) {
        (Some(line), _) if broken > utf8 && encoding.is_utf8() && !is_marked => {
            Err(NotText::Encoding(line))
        }
        (None, Some((line, character))) if utf8 > few && !encoding.is_utf8() && !is_marked => {
            Err(NotText::Utf8(encoding, line, character))
        }
        _ => Ok(()),
    }
}

impl NotText {
    /// The error; `bytes` are the start of the input called `name`.
    pub(super) fn error(&self, name: &str, bytes: &[u8]) -> Error {
        match self {
            Self::OtherFormat((what, fix)) => {
                Error::usage(format!("cannot read {name}: it is {what}")).hint(*fix)
            }
            Self::Nul(line) => Error::usage(format!(
                "cannot read {name}: it is not text: line {line} contains a NUL byte"
            ))
            .hint(
                "rescore reads CSV, TSV and JSONL; if it is one of these, remove NUL bytes with \
                 `tr -d '\\000'`",
            ),
            Self::Encoding(line) => {
                let encoding = encoding(bytes.get(..HEAD).unwrap_or(bytes));
                let (what, fix) = match encoding {
                    Err((what, fix)) => (what.to_owned(), fix.to_owned()),
                    Ok(encoding) => (
                        format!(" and looks like {encoding}"),
                        // JSONL is UTF-8 by definition.
                        if bytes.trim_ascii_start().starts_with(b"{") {
                            convert(encoding)
                        } else {
                            format!(
                                "`--encoding {encoding}` reads it and writes the output in the same encoding"
                            )
                        },
                    ),
                };
                Error::usage(format!(
                    "cannot read {name}: line {line} is not UTF-8{what}"
                ))
                .hint(fix)
            }
            Self::Utf8(encoding, line, character) => {
                let text = character.to_string();
                let read = encoding.decode_lossy(text.as_bytes());
                Error::usage(format!(
                    "{name} is UTF-8, but `--encoding` says {encoding}: `{character}` in line {line} would be read as `{read}`"
                ))
                .hint("leave out `--encoding`")
            }
        }
    }
}

/// How a file gets to be UTF-8.
pub(super) fn convert(encoding: impl std::fmt::Display) -> String {
    format!("convert it with `iconv -f {encoding} -t UTF-8`")
}

/// What a file is, and what to do about it.
pub(super) type Named = (&'static str, &'static str);
const CESU_8: Named = (
    " but CESU-8, as Java and Oracle write it, with surrogates",
    "convert it with `python3 -c \"import sys; text = sys.stdin.buffer.read().decode('utf-8', 'surrogatepass'); sys.stdout.buffer.write(text.encode('utf-16', 'surrogatepass').decode('utf-16').encode())\"`",
);
const DOS: Named = (
    " and looks like a code page of MS-DOS",
    "save it as \"CSV UTF-8\", or find out its code page for `iconv`, as in `iconv -f CP850 -t UTF-8`, and look at the names",
);
const UNCLEAR: Named = (
    ", and its encoding is not clear",
    "save it as \"CSV UTF-8\", or find out how it was written for `iconv -f ENCODING -t UTF-8`",
);

/// The likely encoding of bytes that are not UTF-8. A guess that makes names that nobody has is none.
fn encoding(bytes: &[u8]) -> Result<TextEncoding, Named> {
    let is_surrogate = |three: &[u8]| matches!(three, [0xed, 0xa0..=0xbf, 0x80..=0xbf]);
    let mut wrong = bytes.utf8_chunks().flat_map(|chunk| chunk.invalid());
    if bytes.windows(3).any(is_surrogate) && wrong.all(|byte| matches!(byte, 0xed | 0x80..=0xbf)) {
        return Err(CESU_8);
    }
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(bytes, true);
    let fits = |label: &str| {
        let encoding = TextEncoding::of_label(label).ok();
        encoding.filter(|encoding| is_plausible(oddities(&encoding.decode_lossy(bytes))))
    };
    let guess = detector.guess(None, Utf8Detection::Deny).name();
    // Small letters of Russian in MS-DOS start here. Without any, the text may as well be Hebrew.
    if guess == "IBM866" && bytes.iter().all(|byte| *byte < 0xa0) {
        return Err(DOS);
    }
    let (odd, fitting) = oddities(&decode_dos(bytes));
    // The detector does not know these two. Excel on a Mac still writes the first, and its "CSV (MS-DOS)" the second, in which
    // each country has some letters of its own.
    match fits(guess).or_else(|| fits("macintosh").filter(|_| odd > 0 && odd >= fitting)) {
        Some(found) => Ok(found),
        None if is_plausible((odd, fitting)) => Err(DOS),
        None => Err(UNCLEAR),
    }
}

/// Whether so few letters of so many are odd that they may be slips of the pen.
const fn is_plausible((odd, fitting): (usize, usize)) -> bool {
    odd * 20 < fitting
}

/// The first bytes of formats that people have in place of text, and where they are; `?` is any byte but NUL. Other binary
/// files are found by a NUL byte.
#[rustfmt::skip]
const FORMATS: &[(usize, &[u8], &str, &str)] = &[
    // Spreadsheets are zip archives that start with a file with one of these names.
    (30, b"[Content_Types].xml", WORKBOOK, SAVE_AS),
    (30, b"_rels/", WORKBOOK, SAVE_AS),
    (30, b"docProps/", WORKBOOK, SAVE_AS),
    (30, b"xl/", WORKBOOK, SAVE_AS),
    (30, b"mimetypeapplication/vnd.oasis.opendocument.spreadsheet", "an OpenDocument spreadsheet", SAVE_AS),
    (0, b"PK\x03\x04", "a zip archive", "unpack it first with `unzip`"),
    (0, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", WORKBOOK, SAVE_AS),
    (0, b"PAR1", "a Parquet file", "convert it to CSV first, for instance with `duckdb -c \"COPY (FROM 'users.parquet') TO 'users.csv'\"`"),
    (0, b"ARROW1", "an Arrow file", "convert it to CSV first, for instance with `python3 -c \"import pandas; pandas.read_feather('users.arrow').to_csv('users.csv', index=False)\"`"),
    (0, b"ORC", "an ORC file", "convert it to CSV first, for instance with `python3 -c \"import pandas; pandas.read_orc('users.orc').to_csv('users.csv', index=False)\"`"),
    (0, b"Obj\x01", "an Avro file", "convert it to JSONL first, for instance with `fastavro users.avro > users.jsonl`"),
    (0, b"SQLite format 3\0", "an SQLite database", "write a table as CSV first: `sqlite3 -header -csv users.db 'SELECT * FROM users' > users.csv`"),
    (8, b"DUCK", "a DuckDB database", "write a table as CSV first: `duckdb users.duckdb -c \"COPY users TO 'users.csv'\"`"),
    (257, b"ustar", "a tar archive", "unpack it first with `tar -xf`"),
    (0, b"\x1f\x8b", "gzip data within compressed data", "unpack it once more with `gunzip`"),
    (0, b"\x28\xb5\x2f\xfd", "zstd data within compressed data", "unpack it once more with `unzstd`"),
    (0, b"BZh91AY&SY", "bzip2 data", "unpack it first with `bunzip2`"),
    (0, b"\xfd7zXZ\0", "xz data", "unpack it first with `unxz`"),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive", "unpack it first with `7z x`"),
    (0, b"Rar!\x1a\x07", "a RAR archive", "unpack it first with `unrar x`"),
    (0, b"\x04\x22\x4d\x18", "lz4 data", "unpack it first with `lz4 -d`"),
    (0, b"\x1f\x9d", "data of `compress` (.Z)", "unpack it first with `gunzip`"),
    (0, b"\xff\xfe\0\0", UTF_32, "convert it with `iconv -f UTF-32 -t UTF-8`"),
    (0, b"\0\0\xfe\xff", UTF_32, "convert it with `iconv -f UTF-32 -t UTF-8`"),
    (0, b"\xff\xfe", UTF_16, "convert it with `iconv -f UTF-16 -t UTF-8`"),
    (0, b"\xfe\xff", UTF_16, "convert it with `iconv -f UTF-16 -t UTF-8`"),
    // Without a byte order mark, iconv needs to be told the order.
    (0, b"?\0?\0", UTF_16, "convert it with `iconv -f UTF-16LE -t UTF-8`"),
    (0, b"\0?\0?", UTF_16, "convert it with `iconv -f UTF-16BE -t UTF-8`"),
    (0, b"?\0\0\0", UTF_32, "convert it with `iconv -f UTF-32LE -t UTF-8`"),
    (0, b"\0\0\0?", UTF_32, "convert it with `iconv -f UTF-32BE -t UTF-8`"),
];

const SAVE_AS: &str = "save it as \"CSV UTF-8\"";
const WORKBOOK: &str = "an Excel workbook";
const UTF_16: &str = "UTF-16 text";
const UTF_32: &str = "UTF-32 text";

/// A header may start with so few letters as well.
const FEW_LETTERS: usize = 5;

/// The format of a file with these first bytes, if it is one of these.
fn foreign(start: &[u8]) -> Option<Named> {
    let is_binary = memchr(0, start).is_some();
    let is_byte = |(mark, byte): (&u8, &u8)| mark == byte || *mark == b'?' && *byte != 0;
    let (.., what, fix) = FORMATS.iter().find(|(at, mark, ..)| {
        let is_text = mark.iter().all(u8::is_ascii_graphic) && mark.len() <= FEW_LETTERS;
        let bytes = start.get(*at..at + mark.len());
        (is_binary || !is_text) && bytes.is_some_and(|bytes| mark.iter().zip(bytes).all(is_byte))
    })?;
    Some((*what, *fix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_lines_that_are_not_ascii_decide() {
        for (text, is_whole, expected) in [
            (&b"name\r\nJane\r\n"[..], true, Ok(())),
            (b"name\r\nJ\xfcrgen\r\nJ\xc3\xbcrgen", true, Ok(())),
            (b"\xef\xbb\xbfJ\xfcrgen\nJ\xfcrgen\n", true, Ok(())),
            (
                b"name\r\n\r\nJ\xfcrgen\r\nJ\xc3\xbcrgen\rJos\xe9\n",
                true,
                Err(NotText::Encoding(3)),
            ),
            (b"name\rJane\r\rJos\xe9", true, Err(NotText::Encoding(4))),
            // One good letter does not make a line UTF-8.
            (b"\xc3\xbc,\xfc\n", true, Err(NotText::Encoding(1))),
            (b"name\n\nJa\0ne\n", true, Err(NotText::Nul(3))),
            // The head may end within a letter, the file may not.
            (b"J\xc3", true, Err(NotText::Encoding(1))),
            (b"J\xc3", false, Ok(())),
            (b"J\xfc", false, Err(NotText::Encoding(1))),
        ] {
            let found = check(text, TextEncoding::UTF_8, is_whole);
            assert_eq!(found, expected, "{text:?} {is_whole}");
        }
    }

    #[test]
    fn the_encoding_is_guessed() {
        for (text, expected) in [
            (
                &b"Jos\xe9 Mu\xf1oz, J\xfcrgen Stra\xdfe"[..],
                "windows-1252",
            ),
            (b"Ren\xe9 Lef\xe8vre, S\x9cur O\x92Brien", "windows-1252"),
            (
                b"\xcf\xf0\xe8\xe2\xe5\xf2, \xc8\xe2\xe0\xed \xcf\xe5\xf2\xf0\xee\xe2",
                "windows-1251",
            ),
            (
                b"J\x9frgen M\x9fller, Gro\xa7e Stra\xa7e; Ren\x8e Lef\x8fvre",
                "macintosh",
            ),
            (
                b"Luk\xe1\x9a Dvo\xf8\xe1k, Ji\xf8\xed Ne\x9d\xe1sek, Tom\xe1\x9a",
                "windows-1250",
            ),
        ] {
            let found = encoding(text).map(|found| found.to_string());
            assert_eq!(found.as_deref(), Ok(expected), "{text:?}");
        }
    }

    #[test]
    fn text_with_the_first_letters_of_another_format_is_text() {
        for start in ["", "P", "PK,name", "BZh9,name", "PAR1,name", "name,email"] {
            assert_eq!(foreign(start.as_bytes()), None, "{start}");
        }
    }
}
