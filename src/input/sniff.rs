//! Whether an input is text that can be read, and its format and delimiter, judged by its first MiB.
//!
//! Options take precedence over the file extension, and the extension over the bytes. Other file formats are recognised by
//! their first bytes, or by a NUL byte. If most lines beyond ASCII are UTF-8, other bytes are the fault of single rows. If
//! not, the file is in another encoding, and none of its rows should be paid for.

use bytes::{Bytes, BytesMut};
use memchr::{memchr, memchr_iter, memchr2, memmem};
use serde_json::value::RawValue;

use super::csv::{CellFormat, DELIMITERS, RecordScan, find_record};
use super::settings::{FileSettings, FormatChoice, Input};
use super::source::{BYTE_ORDER_MARK, Buffer, HEAD_BYTES, line_end, marks_at};
use crate::base::error::{Error, Result};
use crate::base::text::{TextEncoding, printable, quoted};
use crate::fields;
use crate::layout::{Compression, Format};
use crate::raw_json;

/// How many rows a delimiter is judged by.
const SAMPLE_ROWS: usize = 20;

/// Fails if the first bytes are not text in the encoding that the settings say. Otherwise detects the format, and takes off
/// what comes before the header.
pub(super) fn detect(settings: &FileSettings, buffer: &mut Buffer) -> Result<(Format, Bytes)> {
    let (mut preamble, encoding) = (BytesMut::new(), settings.encoding);
    let is_whole = buffer.at_end && buffer.head().len() == buffer.bytes.len();
    refuse_other_bytes(buffer.head(), encoding, is_whole, &buffer.source.name)?;
    let marks = marks_at(&buffer.bytes);
    if marks > 0 {
        if !encoding.is_utf8() {
            let file = &buffer.source.name;
            return Err(Error::usage(format!(
                "{file} starts with the byte order mark of UTF-8, but `--encoding` says {encoding}"
            ))
            .hint("leave out `--encoding`"));
        }
        preamble.unsplit(buffer.bytes.split_to(marks));
    }
    let first = buffer.bytes.trim_ascii_start().first();
    // RS is before each object of a json-seq.
    let object = matches!(first, Some(b'{' | 0x1e));
    let format = match settings.format {
        FormatChoice::Detect => by_name(&settings.input).unwrap_or(if object {
            FormatChoice::Jsonl
        } else {
            FormatChoice::Csv
        }),
        given => given,
    };
    refuse_json(format, buffer)?;
    if format == FormatChoice::Jsonl {
        if !encoding.is_utf8() {
            let file = &buffer.source.name;
            return Err(Error::usage(format!(
                "`--encoding` is for CSV and TSV, but {file} is JSONL, which is always UTF-8"
            ))
            .hint(format!("leave it out, or {}", convert(encoding))));
        }
        return Ok((Format::Jsonl, preamble.freeze()));
    }
    let line = separator_line(buffer, &mut preamble)?;
    let by_format = (format == FormatChoice::Tsv).then_some(b'\t');
    let delimiter = match settings.delimiter.or(line).or(by_format) {
        Some(delimiter) => delimiter,
        None => delimiter(buffer, settings)?,
    };
    // Characters would be cut apart.
    if encoding.has_within_characters(delimiter) {
        let delimiter = quoted(&char::from(delimiter).to_string());
        let what = format!("in {encoding}, the delimiter {delimiter} can be half a character");
        return Err(cannot_read(&buffer.source.name, &what).hint(convert(encoding)));
    }
    let quotes = settings.quotes;
    Ok((Format::Delimited { delimiter, quotes }, preamble.freeze()))
}

/// Fails if these first bytes of an input are not text, or not in the encoding that the settings say. The input has more if it is
/// not `whole`.
fn refuse_other_bytes(head: &[u8], encoding: TextEncoding, whole: bool, file: &str) -> Result<()> {
    if let Some((what, fix)) = other_format(head) {
        return Err(cannot_read(file, &format!("it is {what}")).hint(fix));
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
        // In a file with the mark of UTF-8, other bytes are the fault of single rows.
        if !is_marked && memchr(0, line).is_some() {
            let what = format!("it is not text: line {lines} contains a NUL byte");
            return Err(cannot_read(file, &what).hint(
                "rescore reads CSV, TSV and JSONL; if it is one of these, remove NUL bytes with `tr -d '\\000'`",
            ));
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
            let error = cannot_read(file, &format!("line {line} is not UTF-8"));
            // JSONL is UTF-8 by definition.
            Err(error.hint(if head.trim_ascii_start().starts_with(b"{") {
                convert("ENCODING")
            } else {
                "save it as \"CSV UTF-8\"; or name its encoding with `--encoding`, and look at the names with `rescore check --show 9` before paying".to_owned()
            }))
        }
        (None, Some((line, character))) if utf8 > few && !encoding.is_utf8() && !is_marked => {
            let text = character.to_string();
            let read = encoding.decode_lossy(text.as_bytes());
            Err(Error::usage(format!(
                "{file} is UTF-8, but `--encoding` says {encoding}: `{character}` in line {line} would be read as `{read}`"
            ))
            .hint("leave out `--encoding`"))
        }
        _ => Ok(()),
    }
}

/// How to convert a file to UTF-8.
fn convert(encoding: impl std::fmt::Display) -> String {
    format!("convert it with `iconv -f {encoding} -t UTF-8`")
}

/// Formats that are not text: the offset of the bytes that tell them apart, these bytes, in which `?` is any byte but NUL, what
/// the file is, and what to do. Other binary files are found by a NUL byte.
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

/// A header may start with this many letters by chance.
const FEW_LETTERS: usize = 5;

/// If a file with these first bytes is one of [`FORMATS`]: what it is, and what to do.
fn other_format(start: &[u8]) -> Option<(&'static str, &'static str)> {
    let is_binary = memchr(0, start).is_some();
    let is_byte = |(mark, byte): (&u8, &u8)| mark == byte || *mark == b'?' && *byte != 0;
    let (.., what, fix) = FORMATS.iter().find(|(at, mark, ..)| {
        let is_text = mark.iter().all(u8::is_ascii_graphic) && mark.len() <= FEW_LETTERS;
        let bytes = start.get(*at..at + mark.len());
        (is_binary || !is_text) && bytes.is_some_and(|bytes| mark.iter().zip(bytes).all(is_byte))
    })?;
    Some((*what, *fix))
}

fn by_name(input: &Input) -> Option<FormatChoice> {
    let Input::File(path) = input else {
        return None;
    };
    let name = path.file_name()?.to_str()?.to_ascii_lowercase();
    match Compression::split_name(&name).0.rsplit_once('.')?.1 {
        "csv" => Some(FormatChoice::Csv),
        "tsv" | "tab" => Some(FormatChoice::Tsv),
        "jsonl" | "ndjson" => Some(FormatChoice::Jsonl),
        _ => None,
    }
}

/// Fails if the file is a JSON array of objects, or has objects in place of cells. No header starts like that.
fn refuse_json(format: FormatChoice, buffer: &Buffer) -> Result<()> {
    let text = buffer.bytes.trim_ascii_start();
    let Some((first, rest)) = text.split_first() else {
        return Ok(());
    };
    let next = rest.trim_ascii_start().first();
    let name = &*buffer.source.name;
    // `[` may be alone on the first line.
    if *first == b'[' && matches!(next, None | Some(b'{')) {
        let what = "it is a JSON array, and JSONL has one object per line";
        return Err(cannot_read(name, what).hint("`jq -c '.[]'` puts each object on one line"));
    }
    if *first == b'{' && matches!(next, None | Some(b'"' | b'}')) && format != FormatChoice::Jsonl {
        return Err(cannot_read(name, "it contains JSON objects")
            .hint("`--format jsonl` reads one object per line"));
    }
    Ok(())
}

/// Texts that are not one object per line: whether the first line shows it, what the text is, and what corrects it. The first
/// that fits counts.
type OtherText = (fn(&str) -> bool, &'static str, &'static str);
#[rustfmt::skip]
const OTHER_TEXTS: &[OtherText] = &[
    (has_two_values, "its objects follow each other on one line", ONE_PER_LINE),
    (|line| object(line).is_err_and(|error| error.is_eof()), "its objects extend over several lines", ONE_PER_LINE),
    (|line| object(line.trim_end().trim_end_matches(',')).is_ok(), "it has a comma after each object", "`sed 's/,[[:space:]]*$//'` takes the commas off"),
    (|line| object(&line.replace('\x1e', "")).is_ok(), "it is a sequence of JSON texts (json-seq), with a character 1E before each", "`perl -p -e 's/^\\x1e//'` takes these characters off"),
    (|line| object(&line.replace("-Inf", "Inf").replace("Infinity", "null").replace("NaN", "null")).is_ok(), "it has `NaN` or `Infinity`, which JSON does not know", "`sed -E 's/: *(NaN|-?Infinity)/: null/g'` makes `null` of them"),
    (|line| object(&line.replace('\'', "\"").replace("None", "null").replace("True", "true").replace("False", "false")).is_ok(), "its quotes are single ones, as Python prints objects", "write it with Python's `json.dumps`"),
    (|line| line.trim_start().starts_with('{'), "its first line is not valid JSON", "`jq -c .` says where"),
    (|_| true, "none of its first lines is an object", "`--format csv` reads CSV, whatever the file's name"),
];
const ONE_PER_LINE: &str = "`jq -c .` puts each object on one line, as JSONL has them";

fn object(text: &str) -> serde_json::Result<()> {
    raw_json::members(text, |_, _| ())
}

fn has_two_values(line: &str) -> bool {
    let values = serde_json::Deserializer::from_str(line).into_iter::<&RawValue>();
    values.take(2).flatten().count() == 2
}

/// Fails if none of the first lines is an object. The very first line shows why.
pub(super) fn refuse_other_text(first: Option<&[u8]>, file: &str) -> Result<()> {
    let first = first.map(String::from_utf8_lossy);
    let found = first.and_then(|first| OTHER_TEXTS.iter().find(|(is_it, ..)| is_it(&first)));
    found.map_or(Ok(()), |(_, what, fix)| {
        Err(cannot_read(file, what).hint(*fix))
    })
}

fn cannot_read(file: &str, what: &str) -> Error {
    Error::usage(format!("cannot read {file}: {what}"))
}

/// The error for a file of one object, if all users are in a member of it.
pub(super) fn wrapped(object: &str, file: &str) -> Option<Error> {
    let mut array = None;
    let _ = raw_json::members(object, |key, value| {
        let inner = value.strip_prefix('[').unwrap_or_default();
        if inner.trim_start().starts_with('{') {
            array.get_or_insert(key);
        }
    });
    let key = printable(array?);
    let what = format!("it is one object with an array, {key}, and JSONL has one object per line");
    let fix = format!("`jq -c '.[{key}][]'` puts each object of the array on one line");
    Some(cannot_read(file, &what).hint(fix))
}

/// Takes Excel's first line that names the delimiter, such as `sep=;`, off the buffer.
fn separator_line(buffer: &mut Buffer, preamble: &mut BytesMut) -> Result<Option<u8>> {
    let Some(at) = memchr2(b'\n', b'\r', &buffer.bytes) else {
        return Ok(None);
    };
    let line = buffer.bytes.get(..at).unwrap_or_default();
    let line = line
        .strip_prefix(b"\"")
        .and_then(|line| line.strip_suffix(b"\""))
        .unwrap_or(line);
    let delimiter = match line {
        [s, e, p, b'=', delimiter] if [*s, *e, *p].eq_ignore_ascii_case(b"sep") => *delimiter,
        _ => return Ok(None),
    };
    if delimiter != b'\t' && !delimiter.is_ascii_punctuation() || b"\".+-".contains(&delimiter) {
        return Ok(None);
    }
    let length = loop {
        match line_end(&buffer.bytes, at, buffer.at_end) {
            Some(length) => break length,
            None => buffer.fill()?,
        }
    };
    preamble.unsplit(buffer.bytes.split_to(at + length));
    buffer.line += 1;
    buffer.fill_first_line()?;
    Ok(Some(delimiter))
}

/// The delimiter that fits the first rows best. It does not depend on how the bytes arrive: a fixed number of complete rows is
/// used, or all rows.
fn delimiter(buffer: &mut Buffer, settings: &FileSettings) -> Result<u8> {
    loop {
        let head = buffer.head();
        let over = buffer.at_end || head.len() == HEAD_BYTES;
        if let Some(delimiter) = likeliest(head, over, settings.encoding, settings.quotes) {
            let header = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
            let all = memchr_iter(delimiter, header).count();
            let twice = memmem::find_iter(header, &[delimiter; 2]).count();
            // The columns that are added would have one of them between their cells.
            if twice > 0 && twice * 2 == all {
                let delimiter = char::from(delimiter);
                let what = format!(
                    "there is `{delimiter}{delimiter}` between its cells, and a delimiter is one character"
                );
                return Err(cannot_read(&buffer.source.name, &what)
                    .hint("`--delimiter` reads the file as it is"));
            }
            return Ok(delimiter);
        }
        buffer.fill()?;
    }
}

/// The delimiter with the most columns whose names mean fields, then the most rows of equal length, then the most cells that do
/// not start with a space, as what follows a comma in a text does, and then the most columns; `None` if more bytes are needed.
fn likeliest(head: &[u8], over: bool, encoding: TextEncoding, quotes: bool) -> Option<u8> {
    let trial = |delimiter: &u8| {
        let delimiter = *delimiter;
        Trial::of(CellFormat { delimiter, quotes }, head, over, encoding)
    };
    let trials: Option<Vec<Trial>> = DELIMITERS.iter().map(trial).collect();
    let trials = trials?;
    let most = trials.iter().map(|trial| trial.fields).max()?;
    let mut best = trials.iter().filter(|trial| trial.fields == most);
    // If the header decides, the rows of a live pipe need not be waited for.
    if let (Some(only), None) = (best.next(), best.next()) {
        return Some(only.delimiter);
    }
    if !trials.iter().all(|trial| trial.whole) {
        return None;
    }
    // `max_by_key` takes the last of equals, so the likelier delimiters come last.
    let key = |trial: &&Trial| (trial.fields, trial.equal, trial.tight, trial.width);
    let best = trials.iter().rev().max_by_key(key)?;
    Some(best.delimiter)
}

/// The first rows, split by one delimiter.
struct Trial {
    delimiter: u8,
    /// The number of columns whose names mean fields.
    fields: usize,
    /// The number of rows as long as the header, if that has more than one cell.
    equal: usize,
    /// The number of cells of the header that do not start with a space.
    tight: usize,
    width: usize,
    /// Whether all the rows that are used have arrived.
    whole: bool,
}

impl Trial {
    /// `None` if the header is not complete yet.
    fn of(format: CellFormat, head: &[u8], over: bool, encoding: TextEncoding) -> Option<Self> {
        let (text, rows) = whole_rows(format, head, over);
        if rows == 0 && !over {
            return None;
        }
        let mut reader = ::csv::ReaderBuilder::new()
            .delimiter(format.delimiter)
            .quoting(format.quotes)
            .flexible(true)
            .has_headers(false)
            .from_reader(text);
        let mut records = reader.byte_records().map_while(Result::ok);
        let header = records.next().unwrap_or_default();
        let width = header.len();
        let is_field = |name: &&[u8]| fields::rank(&encoding.decode_lossy(name)).is_some();
        let fields = header.iter().filter(is_field).count();
        let tight = header.iter().filter(|cell| !cell.starts_with(b" ")).count();
        let equal = records.filter(|row| width > 1 && row.len() == width);
        Some(Self {
            delimiter: format.delimiter,
            fields: fields.min(width.saturating_sub(1)),
            equal: equal.count(),
            tight,
            width,
            whole: over || rows > SAMPLE_ROWS,
        })
    }
}

/// The header and the rows by which a delimiter is judged, as far as they are complete, and their number.
fn whole_rows(format: CellFormat, head: &[u8], over: bool) -> (&[u8], usize) {
    let (mut end, mut rows, mut cells) = (0, 0, Vec::new());
    while rows <= SAMPLE_ROWS
        && let Some(rest) = head.get(end..)
        && let RecordScan::Record(extent) = find_record(rest, format, over, &mut cells)
    {
        end += extent.end;
        rows += 1;
    }
    (head.get(..end).unwrap_or(head), rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delimiter_is_found() {
        for (sample, expected) in [
            ("name;email;note\n\"a,b\";c;\"d,e,f\"\n", b';'),
            ("name\temail\n1,5\tb\n", b'\t'),
            ("name|email|ip\na|b|c\n", b'|'),
            ("first name, last;name;email;ip\na;b;c;d\n", b';'),
            ("name\na\n", b','),
            (
                "a@e.com\t8.8.8.1\tBrowser/5.0 (X11; Linux; rv:1, like Gecko)\n",
                b'\t',
            ),
            ("", b','),
        ] {
            let found =
                likeliest(sample.as_bytes(), true, TextEncoding::UTF_8, true).map(char::from);
            assert_eq!(found, Some(char::from(expected)), "{sample:?}");
        }
    }

    #[test]
    fn the_delimiter_is_the_same_however_much_is_there_when_it_is_found() {
        // The first rows suggest the comma, most rows the semicolon.
        let unclear = format!("a;b,c\n1,2\n{}", "1;2\n".repeat(30));
        for (text, expected, least) in [
            // The header is clear.
            ("id;Name;E-Mail;ip\n", b';', 18),
            (&unclear, b';', 6 + 4 + 19 * 4),
        ] {
            let found = |length: usize| {
                likeliest(&text.as_bytes()[..length], false, TextEncoding::UTF_8, true)
            };
            for length in 0..text.len() {
                let expected = (length >= least).then_some(expected);
                assert_eq!(found(length), expected, "{length} of {text:?}");
            }
            assert_eq!(found(text.len()), Some(expected));
        }
    }

    #[test]
    fn most_lines_that_are_not_ascii_decide() {
        let (not_utf8, nul) = ("line LINE is not UTF-8", "line LINE contains a NUL byte");
        for (text, is_whole, refused) in [
            (&b"name\r\nJane\r\n"[..], true, None),
            (b"name\r\nJ\xfcrgen\r\nJ\xc3\xbcrgen", true, None),
            (b"\xef\xbb\xbfJ\xfcrgen\nJ\xfcrgen\n", true, None),
            (
                b"name\r\n\r\nJ\xfcrgen\r\nJ\xc3\xbcrgen\rJos\xe9\n",
                true,
                Some((3, not_utf8)),
            ),
            (b"name\rJane\r\rJos\xe9", true, Some((4, not_utf8))),
            // One good letter does not make a line UTF-8.
            (b"\xc3\xbc,\xfc\n", true, Some((1, not_utf8))),
            (b"name\n\nJa\0ne\n", true, Some((3, nul))),
            // The head may end within a letter, the file may not.
            (b"J\xc3", true, Some((1, not_utf8))),
            (b"J\xc3", false, None),
            (b"J\xfc", false, Some((1, not_utf8))),
        ] {
            let refusal = refuse_other_bytes(text, TextEncoding::UTF_8, is_whole, "x").err();
            let message = refusal.as_ref().map(Error::message);
            let (said, words) = (message.unwrap_or_default(), refused.unwrap_or((0, "")));
            let words = words.1.replace("LINE", &words.0.to_string());
            assert_eq!(refused.is_some(), message.is_some(), "{text:?} {said}");
            assert!(said.ends_with(&words), "{text:?} {is_whole}: {said}");
        }
    }

    #[test]
    fn text_with_the_first_letters_of_another_format_is_text() {
        for start in ["", "P", "PK,name", "BZh9,name", "PAR1,name", "name,email"] {
            assert_eq!(other_format(start.as_bytes()), None, "{start}");
        }
    }
}
