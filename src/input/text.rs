//! Whether the input is text, and UTF-8 unless another encoding was named, judged by its first MiB.
//!
//! The encoding is determined by a byte order mark, or else by the majority of the lines that are
//! not pure ASCII. If most of them are UTF-8, other bytes are the fault of single rows. If not, the
//! file is in another encoding, and none of its rows should be paid for. Other file formats are recognised by their first
//! bytes, or by a NUL byte.

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use memchr::{memchr, memchr2};

use crate::base::encoding::TextEncoding;
use crate::base::error::Error;

/// How much of the input is checked: it is read in no time, and one MiB of users shows the letters
/// that a file has.
pub(super) const HEAD: usize = 1024 * 1024;

pub(super) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Why the input is not readable text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NotText {
    /// It is in another file format.
    OtherFormat(ForeignFormat),
    /// A NUL byte on this line.
    Nul(u64),
    /// This line is in another encoding.
    Encoding(u64),
}

/// Judges the first bytes of an input, of which there are more if it is not `whole`.
///
/// # Errors
/// They are not text, or in another encoding than the settings say.
pub(super) fn check(head: &[u8], encoding: TextEncoding, whole: bool) -> Result<(), NotText> {
    if let Some(format) = foreign(head) {
        return Err(NotText::OtherFormat(format));
    }
    let (mut lines, mut utf8, mut broken, mut first_broken) = (0, 0, 0, None);
    let mut rest = head;
    while !rest.is_empty() {
        let end = memchr2(b'\n', b'\r', rest);
        let (line, after) = rest.split_at(end.unwrap_or(rest.len()));
        let after = after.strip_prefix(b"\r\n").or_else(|| after.get(1..));
        rest = after.unwrap_or_default();
        lines += 1;
        if memchr(0, line).is_some() {
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
            _ => utf8 += 1,
        }
    }
    match first_broken {
        Some(line) if broken > utf8 && encoding.is_utf8() && !head.starts_with(BYTE_ORDER_MARK) => {
            Err(NotText::Encoding(line))
        }
        _ => Ok(()),
    }
}

impl NotText {
    /// The error; `bytes` are the start of the input called `name`.
    pub(super) fn error(&self, name: &str, bytes: &[u8]) -> Error {
        match self {
            Self::OtherFormat(ForeignFormat { what, fix }) => {
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
                let error = Error::usage(format!(
                    "cannot read {name}: line {line} is not UTF-8 and looks like {encoding}"
                ));
                // JSONL is UTF-8 by definition.
                if bytes.trim_ascii_start().starts_with(b"{") {
                    return error.hint(convert(encoding));
                }
                error.hint(format!(
                    "`--encoding {encoding}` reads it and writes the output in the same encoding"
                ))
            }
        }
    }
}

/// How a file gets to be UTF-8.
pub(super) fn convert(encoding: impl std::fmt::Display) -> String {
    format!("convert it with `iconv -f {encoding} -t UTF-8`")
}

/// The likely encoding of bytes that are not UTF-8.
fn encoding(bytes: &[u8]) -> &'static str {
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(bytes, true);
    match detector.guess(None, Utf8Detection::Deny).name() {
        // The detector does not know it.
        guess if guess.starts_with("windows-125") && looks_like_macintosh(bytes) => "macintosh",
        guess => guess,
    }
}

/// Whether most letters that are not ASCII, within words, are where only the old encoding of Macs has them. Excel on a Mac
/// still writes it.
fn looks_like_macintosh(bytes: &[u8]) -> bool {
    let (mut mac, mut others) = (0, 0);
    for three in bytes.windows(3) {
        let [before, byte, after] = three else {
            continue;
        };
        if before.is_ascii_alphabetic() && after.is_ascii_alphabetic() {
            match byte {
                // Elsewhere these are quotes, dashes and the like, as in O’Brien.
                0x85 | 0x91..=0x97 => {}
                0x80..=0x9f | 0xa7 => mac += 1,
                0xc0.. => others += 1,
                _ => {}
            }
        }
    }
    mac > others
}

/// A format that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ForeignFormat {
    /// What it is.
    what: &'static str,
    /// What to do about it.
    fix: &'static str,
}

/// The first bytes of formats that people have in place of text. Other binary files are found by a NUL byte.
const SIGNATURES: &[(&[u8], &str, &str)] = &[
    (ZIP, "a zip archive", "unpack it first with `unzip`"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", WORKBOOK, SAVE_AS),
    (b"PAR1\x15", "a Parquet file", PARQUET_TO_CSV),
    (b"ARROW1", "an Arrow file", ARROW_TO_CSV),
    (b"Obj\x01", "an Avro file", AVRO_TO_JSONL),
    (b"SQLite format 3\0", "an SQLite database", SQLITE_TO_CSV),
    (
        GZIP,
        "gzip data within compressed data",
        "unpack it once more with `gunzip`",
    ),
    (
        b"\x28\xb5\x2f\xfd",
        "zstd data within compressed data",
        "unpack it once more with `unzstd`",
    ),
    (
        b"BZh91AY&SY",
        "bzip2 data",
        "unpack it first with `bunzip2`",
    ),
    (b"\xfd7zXZ\0", "xz data", "unpack it first with `unxz`"),
    (
        b"7z\xbc\xaf\x27\x1c",
        "a 7-Zip archive",
        "unpack it first with `7z x`",
    ),
    (
        b"\xff\xfe",
        UTF_16,
        "convert it with `iconv -f UTF-16 -t UTF-8`",
    ),
    (
        b"\xfe\xff",
        UTF_16,
        "convert it with `iconv -f UTF-16 -t UTF-8`",
    ),
];

const SAVE_AS: &str = "save it as \"CSV UTF-8\"";
const PARQUET_TO_CSV: &str = "convert it to CSV first, for instance with \
    `duckdb -c \"COPY (FROM 'users.parquet') TO 'users.csv'\"`";
const ARROW_TO_CSV: &str = "convert it to CSV first, for instance with \
    `python3 -c \"import pandas; pandas.read_feather('users.arrow').to_csv('users.csv', index=False)\"`";
const ORC_TO_CSV: &str = "convert it to CSV first, for instance with \
    `python3 -c \"import pandas; pandas.read_orc('users.orc').to_csv('users.csv', index=False)\"`";
const AVRO_TO_JSONL: &str =
    "convert it to JSONL first, for instance with `fastavro users.avro > users.jsonl`";
const SQLITE_TO_CSV: &str =
    "write a table as CSV first: `sqlite3 -header -csv users.db 'SELECT * FROM users' > users.csv`";
const DUCKDB_TO_CSV: &str =
    "write a table as CSV first: `duckdb users.duckdb -c \"COPY users TO 'users.csv'\"`";
const UTF_16: &str = "UTF-16 text";
const GZIP: &[u8] = b"\x1f\x8b";
/// Where the mark of a `DuckDB` database is.
const DUCKDB_MARK: usize = 8;

const ZIP: &[u8] = b"PK\x03\x04";
/// The offset of the first file's name in a zip archive.
const ZIP_NAME: usize = 30;
/// Spreadsheets are zip archives that start with a file with one of these names.
const SHEETS: &[(&[u8], &str)] = &[
    (b"[Content_Types].xml", WORKBOOK),
    (b"_rels/", WORKBOOK),
    (b"docProps/", WORKBOOK),
    (b"xl/", WORKBOOK),
    (
        b"mimetypeapplication/vnd.oasis.opendocument.spreadsheet",
        "an OpenDocument spreadsheet",
    ),
];
const WORKBOOK: &str = "an Excel workbook";

/// The format of a file with these first bytes, if it is one of these.
fn foreign(start: &[u8]) -> Option<ForeignFormat> {
    let has = |at: usize, mark: &[u8]| start.get(at..).is_some_and(|rest| rest.starts_with(mark));
    let sheet = SHEETS.iter().find(|(name, _)| has(ZIP_NAME, name));
    if let Some((_, what)) = sheet.filter(|_| has(0, ZIP)) {
        return Some(ForeignFormat { what, fix: SAVE_AS });
    }
    if has(DUCKDB_MARK, b"DUCK") && memchr(0, start).is_some() {
        return Some(ForeignFormat {
            what: "a DuckDB database",
            fix: DUCKDB_TO_CSV,
        });
    }
    // A header may start with these letters as well.
    if has(0, b"ORC") && memchr(0, start).is_some() {
        return Some(ForeignFormat {
            what: "an ORC file",
            fix: ORC_TO_CSV,
        });
    }
    if let Some(fix) = without_mark(start) {
        return Some(ForeignFormat { what: UTF_16, fix });
    }
    let found = SIGNATURES.iter().find(|(mark, ..)| has(0, mark));
    found.map(|(_, what, fix)| ForeignFormat { what, fix })
}

/// How UTF-16 without a byte order mark is converted, whose byte order iconv has to be told; a letter in every other byte
/// shows it.
const fn without_mark(start: &[u8]) -> Option<&'static str> {
    match start {
        [1..=u8::MAX, 0, 1..=u8::MAX, 0, ..] => {
            Some("convert it with `iconv -f UTF-16LE -t UTF-8`")
        }
        [0, 1..=u8::MAX, 0, 1..=u8::MAX, ..] => {
            Some("convert it with `iconv -f UTF-16BE -t UTF-8`")
        }
        _ => None,
    }
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
            assert_eq!(encoding(text), expected, "{text:?}");
        }
    }

    #[test]
    fn text_with_the_first_letters_of_another_format_is_text() {
        for start in ["", "P", "PK,name", "BZh9,name", "PAR1,name", "name,email"] {
            assert_eq!(foreign(start.as_bytes()), None, "{start}");
        }
    }
}
