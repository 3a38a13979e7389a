//! File formats that cannot be read, recognised by their first bytes, and what to do about each.
//!
//! This file must not know where the bytes come from. Formats that it does not know show by a NUL
//! byte, or by their encoding.

/// How many bytes are needed: the signature of a tar archive is the furthest from the start.
pub(super) const START: usize = 512;

/// A format that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ForeignFormat {
    /// What it is.
    pub(super) what: &'static str,
    /// What to do about it.
    pub(super) fix: &'static str,
}

/// The bytes by which a format is recognised.
struct Signature {
    at: usize,
    bytes: &'static [u8],
    format: ForeignFormat,
}

const fn signature(
    at: usize,
    bytes: &'static [u8],
    what: &'static str,
    fix: &'static str,
) -> Signature {
    let format = ForeignFormat { what, fix };
    Signature { at, bytes, format }
}

const SAVE_AS: &str = "save it as \"CSV UTF-8\"";

const SIGNATURES: &[Signature] = &[
    signature(0, ZIP, "a zip archive", "unpack it first with `unzip`"),
    signature(0, OLE, "an Excel workbook", SAVE_AS),
    signature(0, b"PAR1\x15", "a Parquet file", PARQUET_TO_CSV),
    signature(4, b"1AY&SY", "bzip2 data", "unpack it first with `bunzip2`"),
    signature(0, b"\xfd7zXZ\0", "xz data", "unpack it first with `unxz`"),
    signature(
        0,
        SEVEN_ZIP,
        "a 7-Zip archive",
        "unpack it first with `7z x`",
    ),
    signature(
        257,
        b"ustar",
        "a tar archive",
        "unpack it first with `tar -xf`",
    ),
    signature(0, b"%PDF-", "a PDF document", EXPORT),
    // Before UTF-16, whose mark starts with the same bytes.
    signature(0, b"\xff\xfe\0\0", UTF_32, FROM_UTF_32),
    signature(0, b"\0\0\xfe\xff", UTF_32, FROM_UTF_32),
    signature(0, b"\xff\xfe", UTF_16, FROM_UTF_16),
    signature(0, b"\xfe\xff", UTF_16, FROM_UTF_16),
];

const OLE: &[u8] = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1";
const SEVEN_ZIP: &[u8] = b"7z\xbc\xaf\x27\x1c";
const EXPORT: &str = "export the table as CSV from the program that created it";
const PARQUET_TO_CSV: &str = "convert it to CSV first, for instance with \
    `duckdb -c \"COPY (FROM 'users.parquet') TO 'users.csv'\"`";

const UTF_16: &str = "UTF-16 text";
const FROM_UTF_16: &str = "convert it with `iconv -f UTF-16 -t UTF-8`";
const UTF_32: &str = "UTF-32 text";
const FROM_UTF_32: &str = "convert it with `iconv -f UTF-32 -t UTF-8`";

/// It looks like ASCII, and its names would be sent as garbage.
pub(super) const ISO_2022_JP: ForeignFormat = ForeignFormat {
    what: "ISO-2022-JP text",
    fix: "convert it with `iconv -f ISO-2022-JP -t UTF-8`",
};

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
pub(super) fn foreign(start: &[u8]) -> Option<ForeignFormat> {
    let has = |at: usize, mark: &[u8]| start.get(at..).is_some_and(|rest| rest.starts_with(mark));
    let sheet = SHEETS.iter().find(|(name, _)| has(ZIP_NAME, name));
    if let Some((_, what)) = sheet.filter(|_| has(0, ZIP)) {
        return Some(ForeignFormat { what, fix: SAVE_AS });
    }
    if let Some(fix) = without_mark(start) {
        return Some(ForeignFormat { what: UTF_16, fix });
    }
    let found = SIGNATURES.iter().find(|known| has(known.at, known.bytes));
    found.map(|known| known.format)
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

    /// The start of a zip archive whose first file has this name and this uncompressed content.
    fn zip(name: &str, content: &str) -> Vec<u8> {
        let mut start = b"PK\x03\x04\x14\0\0\0\0\0".to_vec();
        start.resize(30, 0);
        start.extend_from_slice(name.as_bytes());
        start.extend_from_slice(content.as_bytes());
        start
    }

    #[test]
    fn formats_are_recognised_by_their_first_bytes() {
        let mut tar = b"users.csv".to_vec();
        tar.resize(257, 0);
        tar.extend_from_slice(b"ustar\x0000");
        for (start, what) in [
            (zip("[Content_Types].xml", ""), "an Excel workbook"),
            (zip("xl/worksheets/sheet1.xml", ""), "an Excel workbook"),
            (zip("docProps/app.xml", ""), "an Excel workbook"),
            (
                zip("mimetype", "application/vnd.oasis.opendocument.spreadsheet"),
                "an OpenDocument spreadsheet",
            ),
            (zip("users.csv", "name,email"), "a zip archive"),
            (b"BZh91AY&SY\0".to_vec(), "bzip2 data"),
            (b"\xfd7zXZ\0\0\x04".to_vec(), "xz data"),
            (b"PAR1\x15\x04".to_vec(), "a Parquet file"),
            (b"%PDF-1.7\n".to_vec(), "a PDF document"),
            (tar, "a tar archive"),
            (b"n\0a\0m\0".to_vec(), "UTF-16 text"),
            (b"\xfe\xff\0n".to_vec(), "UTF-16 text"),
            (b"\xff\xfe\0\0n\0\0\0".to_vec(), "UTF-32 text"),
            (b"\0\0\xfe\xff\0\0\0n".to_vec(), "UTF-32 text"),
        ] {
            assert_eq!(foreign(&start).map(|foreign| foreign.what), Some(what));
        }
    }

    #[test]
    fn text_with_the_same_first_letters_is_text() {
        for start in ["", "P", "PK,name", "BZh9,name", "PAR1,name", "name,email"] {
            assert_eq!(foreign(start.as_bytes()), None, "{start}");
        }
    }
}
