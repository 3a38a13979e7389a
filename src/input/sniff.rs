//! Detects the format and the delimiter of a text file by its first bytes.
//!
//! Options take precedence over the file extension, and the extension over the bytes.

use bytes::{Bytes, BytesMut};
use memchr::memchr2;
use serde_json::value::RawValue;

use super::buffer::{Buffer, line_end, marks_at};
use super::cells::{CellFormat, RecordScan, find_record};
use super::settings::{FileSettings, FormatChoice, Input};
use super::text::{HEAD, convert};
use crate::base::encoding::TextEncoding;
use crate::base::error::{Error, Result};
use crate::base::text::{printable, quoted};
use crate::fields;
use crate::layout::{Compression, Format};
use crate::raw_json;

/// Delimiters that are tried, the likeliest first.
const DELIMITERS: [u8; 4] = [b',', b';', b'\t', b'|'];
/// How many lines may be above a header.
const HEADER_WITHIN: usize = 20;
/// How many rows a delimiter is judged by.
const SAMPLE_ROWS: usize = 20;

/// Detects the format at the start of the buffer, and takes off what comes before the header.
pub(super) fn detect(settings: &FileSettings, buffer: &mut Buffer) -> Result<(Format, Bytes)> {
    let (mut preamble, encoding) = (BytesMut::new(), settings.encoding);
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

/// Fails if the file is a JSON array of objects, or has objects where cells are expected. No header
/// trials like that.
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

/// Fails if all of a header is in quotes, or if there is more than one character between its cells.
pub(super) fn refuse_other_cells(header: &str, names: &[String], file: &str) -> Result<()> {
    let is_between = |c: char| c == '\t' || c.is_ascii_punctuation() && !"\"'_-.()/".contains(c);
    let has_names = |text: &str| {
        let names = text.split(is_between);
        let known = names.filter(|name| fields::rank(name).is_some());
        known.count() > 1
    };
    if let [only] = names
        && header.trim_start().starts_with('"')
        && has_names(only)
    {
        return Err(cannot_read(file, "each line is in quotes as a whole")
            .hint("`sed -E 's/^\"|\"\\r?$//g; s/\"\"/\"/g'` takes these quotes off"));
    }
    let mut between = { header.split(|c| !is_between(c)) }.filter(|it| !it.is_empty());
    let first = between.next().unwrap_or_default();
    let is_one = between.clone().count() > 0 && between.all(|it| it == first);
    if first.len() > 1 && is_one && has_names(header) {
        let between = quoted(first);
        let what =
            format!("there is {between} between its cells, and a delimiter is one character");
        return Err(cannot_read(file, &what).hint(format!(
            "`perl -pe 's/\\Q{first}\\E/\\t/g'` makes tabs of it; `--delimiter` reads the file as it is"
        )));
    }
    Ok(())
}

/// Texts that are not one object per line: how the first line shows it, what the text is, and what makes it right. The first
/// that fits counts.
type OtherText = (fn(&str) -> bool, &'static str, &'static str);
#[rustfmt::skip]
const OTHER_TEXTS: &[OtherText] = &[
    (has_two_values, "its objects follow each other on one line", ONE_PER_LINE),
    (|line| object(line).is_err_and(|error| error.is_eof()), "its objects extend over several lines", ONE_PER_LINE),
    (|line| object(line.trim_end().trim_end_matches(',')).is_ok(), "it has a comma after each object", "`sed 's/,[[:space:]]*$//'` takes the commas off"),
    (|line| object(&line.replace('\x1e', "")).is_ok(), "it is a sequence of JSON texts (json-seq), with a character 1E before each", "`perl -p -e 's/^\\x1e//'` takes these characters off"),
    (|line| object(&line.replace("-Inf", "Inf").replace("Infinity", "null").replace("NaN", "null")).is_ok(), "it has `NaN` or `Infinity`, which JSON has not", "`sed -E 's/: *(NaN|-?Infinity)/: null/g'` makes `null` of them"),
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

/// The place of the first line that looks like a header, as names of fields are in it. Titles and comments are above the header
/// of some exports.
pub(super) fn header_in(text: &[u8], encoding: TextEncoding) -> Option<usize> {
    let is_known = |cell: &&[u8]| {
        let name = encoding.decode_lossy(cell);
        fields::rank(name.trim_matches(['"', ' ', '\r'])).is_some()
    };
    let mut lines = text.split(|byte| *byte == b'\n').take(HEADER_WITHIN);
    lines.position(|line| {
        let cells = line.split(|byte| DELIMITERS.contains(byte));
        cells.filter(is_known).count() >= 2
    })
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

/// The delimiter that makes the most sense of the first rows. It does not depend on how the bytes
/// arrive: a fixed number of complete rows is used, or all rows.
fn delimiter(buffer: &mut Buffer, settings: &FileSettings) -> Result<u8> {
    loop {
        let head = buffer.bytes.get(..HEAD).unwrap_or(&buffer.bytes);
        let over = buffer.at_end || head.len() == HEAD;
        if let Some(delimiter) = likeliest(head, over, settings.encoding, settings.quotes) {
            return Ok(delimiter);
        }
        buffer.fill()?;
    }
}

/// The delimiter with the most columns whose names we know, then the most rows of equal length, then the most cells without a
/// space in front, as text has one after a comma or semicolon, and then the most columns; `None` if more bytes are needed.
fn likeliest(head: &[u8], over: bool, encoding: TextEncoding, quotes: bool) -> Option<u8> {
    let trial = |delimiter: &u8| {
        let delimiter = *delimiter;
        Trial::of(CellFormat { delimiter, quotes }, head, over, encoding)
    };
    let trials: Option<Vec<Trial>> = DELIMITERS.iter().map(trial).collect();
    let trials = trials?;
    let most = trials.iter().map(|trial| trial.known).max()?;
    let mut best = trials.iter().filter(|trial| trial.known == most);
    // If the header is clear, there is no need to wait for a live pipe's rows.
    if let (Some(only), None) = (best.next(), best.next()) {
        return Some(only.delimiter);
    }
    if !trials.iter().all(|trial| trial.whole) {
        return None;
    }
    // `max_by_key` takes the last of equals, so the likelier delimiters come last.
    let key = |trial: &&Trial| (trial.known, trial.equal, trial.tight, trial.width);
    trials
        .iter()
        .rev()
        .max_by_key(key)
        .map(|trial| trial.delimiter)
}

/// The first rows, split by one delimiter.
struct Trial {
    delimiter: u8,
    /// The number of columns whose names we know.
    known: usize,
    /// The number of rows as long as the header, if that has more than one cell.
    equal: usize,
    /// The number of cells of the header with no space in front.
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
        let is_known = |name: &&[u8]| fields::rank(&encoding.decode_lossy(name)).is_some();
        let known = header.iter().filter(is_known).count();
        let tight = header.iter().filter(|cell| !cell.starts_with(b" ")).count();
        let equal = records.filter(|row| width > 1 && row.len() == width);
        Some(Self {
            delimiter: format.delimiter,
            known: known.min(width.saturating_sub(1)),
            equal: equal.count(),
            tight,
            width,
            whole: over || rows > SAMPLE_ROWS,
        })
    }
}

/// The header and the rows that are used, as far as they are complete, and their number.
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
#[allow(clippy::indexing_slicing)]
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
}
