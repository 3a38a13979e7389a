//! What the first bytes say about a file: encoding, format, delimiter.
//!
//! What was given on the command line wins over the name's end, and that over a look at the bytes.

use super::{Buffer, Input, Settings};
use crate::error::{Error, Result};
use crate::fields;
use crate::layout::Format;

/// The format as a person gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FormatChoice {
    /// By the name's end or a look at the first bytes.
    #[default]
    Detect,
    /// Comma or another delimiter.
    Csv,
    /// Tab.
    Tsv,
    /// One JSON object a line.
    Jsonl,
}

/// Delimiters that are looked for, the likelier ones first.
const DELIMITERS: [u8; 4] = [b',', b';', b'\t', b'|'];
/// Rows that a delimiter is judged by.
const SAMPLE_ROWS: usize = 20;

/// Finds out the format of what the buffer begins with.
pub(super) fn detect(settings: &Settings, buffer: &mut Buffer) -> Result<Format> {
    let bytes = &buffer.bytes;
    let utf16 = matches!(bytes.get(..2), Some([0xff, 0xfe] | [0xfe, 0xff]))
        || matches!(bytes.get(..4), Some([0, a, 0, b] | [a, 0, b, 0]) if *a != 0 && *b != 0);
    if utf16 {
        return Err(
            Error::usage(format!("{} looks like UTF-16", buffer.source.name()))
                .hint("convert it with `iconv -f UTF-16 -t UTF-8`"),
        );
    }
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let format = match settings.format {
        FormatChoice::Detect => {
            by_name(&settings.input).unwrap_or_else(|| match text.trim_ascii_start().first() {
                Some(b'{') => FormatChoice::Jsonl,
                _ => FormatChoice::Csv,
            })
        }
        given => given,
    };
    Ok(match format {
        FormatChoice::Jsonl => Format::Jsonl,
        FormatChoice::Tsv => Format::Delimited {
            delimiter: settings.delimiter.unwrap_or(b'\t'),
        },
        FormatChoice::Csv | FormatChoice::Detect => Format::Delimited {
            delimiter: settings.delimiter.unwrap_or_else(|| delimiter(text)),
        },
    })
}

fn by_name(input: &Input) -> Option<FormatChoice> {
    let Input::File(path) = input else {
        return None;
    };
    let name = path.file_name()?.to_str()?.to_ascii_lowercase();
    let name = name
        .strip_suffix(".gz")
        .or_else(|| name.strip_suffix(".zst"))
        .unwrap_or(&name);
    match name.rsplit_once('.')?.1 {
        "csv" => Some(FormatChoice::Csv),
        "tsv" | "tab" => Some(FormatChoice::Tsv),
        "jsonl" | "ndjson" => Some(FormatChoice::Jsonl),
        _ => None,
    }
}

/// The delimiter that makes the most sense of the first rows: most columns with a name that we know, then rows of
/// equal length, then most columns.
fn delimiter(sample: &[u8]) -> u8 {
    let score = |delimiter: u8| {
        let mut reader = ::csv::ReaderBuilder::new()
            .delimiter(delimiter)
            .flexible(true)
            .has_headers(false)
            .from_reader(sample);
        let mut rows = reader
            .byte_records()
            .take(SAMPLE_ROWS)
            .map_while(Result::ok);
        let header = rows.next().unwrap_or_default();
        let known = header
            .iter()
            .filter(|name| fields::rank(&String::from_utf8_lossy(name)).is_some())
            .count();
        let equal = rows.filter(|row| row.len() == header.len()).count();
        (
            known.min(header.len().saturating_sub(1)),
            if header.len() > 1 { equal } else { 0 },
            header.len(),
        )
    };
    // `max_by_key` takes the last of equals, so the likelier delimiters come last.
    DELIMITERS
        .into_iter()
        .rev()
        .max_by_key(|delimiter| score(*delimiter))
        .unwrap_or(b',')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delimiter_is_found() {
        for (sample, expected) in [
            ("name,email\na,b\n", b','),
            ("name;email;note\n\"a,b\";c;\"d,e,f\"\n", b';'),
            ("name\temail\n1,5\tb\n", b'\t'),
            ("name|email|ip\na|b|c\n", b'|'),
            ("first name, last;name;email;ip\na;b;c;d\n", b';'),
            ("name\na\n", b','),
            ("", b','),
        ] {
            assert_eq!(
                char::from(delimiter(sample.as_bytes())),
                char::from(expected),
                "{sample:?}"
            );
        }
    }
}
