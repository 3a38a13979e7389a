//! Delimited rows with our cells added.
//!
//! A row's own bytes are copied, never parsed and printed again.

use crate::base::text::{TextEncoding, any_byte};
use crate::layout::{ColumnContent, Format, Layout};
use crate::row::{RawRow, RowNumber, Span};
use crate::verdict::{Decision, Failure, Score, Verdict, harmless_cell, id_cell};

/// Encodes rows, and single cells. Cells are quoted if they contain the delimiter, or another one that a spreadsheet may use:
/// many split at the delimiter of the machine's locale or the user's choice, and the text after it could be a formula.
pub(super) struct CsvEncoder {
    delimiter: u8,
    quotes: bool,
    encoding: TextEncoding,
}

/// The columns in front of a reject.
pub(super) const REJECT: [&str; 3] = ["reject_row", "reject_reason", "reject_message"];
/// The columns in front of a row whose decision changed.
pub(super) const CHANGE: [&str; 5] = [
    "change_row",
    "old_decision",
    "old_score",
    "new_decision",
    "new_score",
];

/// A decision that differs from the one before.
pub(super) struct DecisionChange<'a> {
    pub(super) before: Decision,
    /// `None` if only the decision is known.
    pub(super) score_before: Option<&'a Score>,
    pub(super) now: Decision,
    pub(super) score_now: &'a Score,
}

/// Delimiters that spreadsheets use, besides the file's own.
const SPLITS: [u8; 2] = *b";\t";

impl CsvEncoder {
    /// For a file in this format.
    pub(super) fn new(format: Format, encoding: TextEncoding) -> Self {
        let (delimiter, quotes) = match format {
            Format::Delimited { delimiter, quotes } => (delimiter, quotes),
            Format::Jsonl => (b',', true),
        };
        Self {
            delimiter,
            quotes,
            encoding,
        }
    }

    fn put(&self, out: &mut Vec<u8>, text: &str) {
        let cell = &*self.encoding.encode(text);
        if !self.may_need_quotes(cell) {
            out.extend_from_slice(cell);
            return;
        }
        if !self.quotes {
            let ends = |byte: &u8| *byte == self.delimiter || *byte == b'\r' || *byte == b'\n';
            out.extend(
                cell.iter()
                    .map(|byte| if ends(byte) { b' ' } else { *byte }),
            );
            return;
        }
        out.push(b'"');
        for byte in cell {
            if *byte == b'"' {
                out.push(b'"');
            }
            out.push(*byte);
        }
        out.push(b'"');
    }

    /// Whether a cell has a byte for which it could be quoted. Nearly none has: ids, scores and words.
    #[allow(
        clippy::needless_bitwise_bool,
        reason = "without branches the compiler checks many bytes per instruction"
    )]
    fn may_need_quotes(&self, cell: &[u8]) -> bool {
        let [semicolon, tab] = SPLITS;
        any_byte(cell, |byte| {
            (byte == self.delimiter)
                | (byte == semicolon)
                | (byte == tab)
                | (byte == b'"')
                | (byte == b'\r')
                | (byte == b'\n')
        })
    }

    pub(super) fn header(&self, out: &mut Vec<u8>, header: &RawRow, layout: &Layout) {
        out.extend_from_slice(header.before());
        out.extend_from_slice(header.content());
        for (column, name) in layout.columns.iter().enumerate() {
            if !header.has(column) {
                out.push(self.delimiter);
                self.put(out, name);
            }
        }
        out.extend_from_slice(header.line_end());
    }

    /// Writes a row with its verdict; without one, it keeps what an earlier run wrote.
    pub(super) fn row(
        &self,
        out: &mut Vec<u8>,
        row: &RawRow,
        verdict: Option<&Verdict>,
        layout: &Layout,
    ) {
        out.extend_from_slice(row.before());
        let only_decisions = layout.columns.only_decisions;
        match verdict {
            None => out.extend_from_slice(row.content()),
            Some(verdict) => splice(out, row, layout, row.content.end, |out, content| {
                self.put_verdict(out, verdict, content);
            }),
        }
        if only_decisions {
            out.extend_from_slice(row.line_end());
            return;
        }
        let header = layout.header.as_ref();
        for column in 0..layout.columns.len() {
            // A column that the header does not have is appended, also to a row with too few cells.
            if !header.is_some_and(|header| header.has(column)) {
                out.push(self.delimiter);
                if let Some(verdict) = verdict {
                    self.put_verdict(out, verdict, layout.columns.content(column));
                }
            }
        }
        out.extend_from_slice(row.line_end());
    }

    fn put_verdict(&self, out: &mut Vec<u8>, verdict: &Verdict, content: ColumnContent) {
        let (answer, decision) = match verdict {
            Verdict::Scored(answer, decision) => (answer, decision),
            Verdict::Failed(failure) => {
                if content == ColumnContent::Reason {
                    self.put(out, failure.reason.word());
                }
                return;
            }
        };
        match content {
            ColumnContent::TransactionId => {
                self.put(out, &id_cell(answer.transaction_id.as_str()));
            }
            // Digits, sign, point and exponent never need quotes, whatever the delimiter.
            ColumnContent::Score => out.extend_from_slice(answer.score.digits().as_bytes()),
            ColumnContent::Decision => {
                out.extend_from_slice(decision.map_or("", Decision::word).as_bytes());
            }
            ColumnContent::Reason => {}
            ColumnContent::Captured(index) => {
                let Some(Some(raw)) = answer.captured.get(index) else {
                    return;
                };
                match serde_json::from_str::<String>(raw) {
                    Ok(text) => self.put(out, &harmless_cell(&text)),
                    // Numbers, booleans, arrays and objects stay as the JSON that was sent. Only
                    // negative numbers start like a formula, and they are harmless.
                    Err(_) => self.put(out, raw),
                }
            }
        }
    }

    /// The header of the rejects or the changes, with these names in front of the input's: after the cells of a ragged row
    /// they would end up in any column.
    pub(super) fn header_beside(
        &self,
        out: &mut Vec<u8>,
        names: &[&str],
        header: &RawRow,
        layout: &Layout,
    ) {
        out.extend_from_slice(&layout.preamble);
        for name in names {
            self.put(out, name);
            out.push(self.delimiter);
        }
        put_line(out, header);
    }

    /// A reject is the original row with three cells in front.
    pub(super) fn reject(
        &self,
        out: &mut Vec<u8>,
        number: RowNumber,
        row: &RawRow,
        failure: &Failure,
    ) {
        out.extend_from_slice(number.to_string().as_bytes());
        out.push(self.delimiter);
        self.put(out, failure.reason.word());
        out.push(self.delimiter);
        self.put(out, &harmless_cell(&failure.message));
        out.push(self.delimiter);
        put_line(out, row);
    }

    /// A change is the original row with five cells in front.
    pub(super) fn change(
        &self,
        out: &mut Vec<u8>,
        number: RowNumber,
        row: &RawRow,
        change: &DecisionChange<'_>,
    ) {
        // All of these are our own words or digits, also what was taken from the row, and never
        // need quotes.
        for cell in [
            &*number.to_string(),
            change.before.word(),
            change.score_before.map_or("", Score::digits),
            change.now.word(),
            change.score_now.digits(),
        ] {
            out.extend_from_slice(cell.as_bytes());
            out.push(self.delimiter);
        }
        put_line(out, row);
    }
}

/// Copies a row's content up to `end`, with the values of our columns written by `put`. Where only decisions are written, the
/// others stay as they are.
pub(super) fn splice(
    out: &mut Vec<u8>,
    row: &RawRow,
    layout: &Layout,
    end: u32,
    mut put: impl FnMut(&mut Vec<u8>, ColumnContent),
) {
    let mut start = row.content.start;
    for (span, column) in &row.scored_cells {
        let content = layout.columns.content(*column);
        if layout.columns.only_decisions && content != ColumnContent::Decision {
            continue;
        }
        let end = span.start;
        out.extend_from_slice(row.slice(Span { start, end }));
        put(out, content);
        start = span.end;
    }
    out.extend_from_slice(row.slice(Span { start, end }));
}

fn put_line(out: &mut Vec<u8>, row: &RawRow) {
    out.extend_from_slice(row.content());
    out.extend_from_slice(row.line_end_or_new());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_from_outside_is_one_cell_and_no_formula_in_any_spreadsheet() {
        for (text, cell) in [
            ("plain", "plain"),
            ("a,b", "\"a,b\""),
            ("a;=1+1", "\"a;=1+1\""),
            ("=1+1", "'=1+1"),
            (" =1+1", "' =1+1"),
            ("\t=1+1", "' =1+1"),
            ("\u{a0}@SUM(A1)", "'\u{a0}@SUM(A1)"),
            ("a\"b;", "\"a\"\"b;\""),
        ] {
            let mut out = Vec::new();
            let format = Format::Delimited {
                delimiter: b',',
                quotes: true,
            };
            let cells = CsvEncoder::new(format, TextEncoding::UTF_8);
            cells.put(&mut out, &harmless_cell(text));
            assert_eq!(String::from_utf8_lossy(&out), cell);
        }
        let mut out = Vec::new();
        let format = Format::Delimited {
            delimiter: b'|',
            quotes: true,
        };
        let cells = CsvEncoder::new(format, TextEncoding::UTF_8);
        // A transaction id, and JSON as sent.
        for cell in ["a;b", "[1,\t2]", "a|b", "a,b"] {
            cells.put(&mut out, cell);
            out.push(b'|');
        }
        assert_eq!(out, b"\"a;b\"|\"[1,\t2]\"|\"a|b\"|a,b|");
    }

    proptest::proptest! {
        #[test]
        fn a_cell_is_written_as_the_csv_crate_writes_it(text in "[a-c,;|\"'\t\r\n é#-]{0,6}", delimiter in "[,;|\t]") {
            let [delimiter] = <[u8; 1]>::try_from(delimiter.as_bytes()).unwrap();
            let mut out = Vec::new();
            let format = Format::Delimited { delimiter, quotes: true };
            CsvEncoder::new(format, TextEncoding::UTF_8).put(&mut out, &text);
            let splits = text.bytes().any(|byte| SPLITS.contains(&byte));
            let quotes = if splits { ::csv::QuoteStyle::Always } else { ::csv::QuoteStyle::Necessary };
            let mut writer = ::csv::WriterBuilder::new();
            writer.delimiter(delimiter).quote_style(quotes);
            let mut writer = writer.from_writer(Vec::new());
            // Not as the only cell, which is quoted if it is empty.
            writer.write_record([&text, "x"]).unwrap();
            let whole = writer.into_inner().unwrap();
            let last = if splits { &b"\"x\"\n"[..] } else { b"x\n" };
            out.push(delimiter);
            proptest::prop_assert_eq!(Some(&*out), whole.strip_suffix(last));
        }
    }
}
