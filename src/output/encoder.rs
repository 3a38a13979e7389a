//! Rows as they are written: with the cells or members of their verdicts added, and as the lines of rejects and changes.
//!
//! A row's own bytes are copied, never parsed and printed again. Cells are added at its end, members before the last brace of
//! an object; values that an earlier run wrote are replaced.

use super::file::OutputFile;
use crate::base::text::{TextEncoding, any_byte};
use crate::layout::{ColumnContent, Format, Layout};
use crate::raw_json::{put_printable_string, put_string};
use crate::row::{RawRow, RowNumber, Span};
use crate::verdict::{Decision, Failure, Reason, Score, Verdict, harmless_cell, id_cell};

/// The columns in front of a reject.
pub(super) const REJECT_COLUMNS: [&str; 3] = ["reject_row", "reject_reason", "reject_message"];
/// The columns in front of a row whose decision changed.
pub(super) const CHANGE_COLUMNS: [&str; 5] = [
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

/// Encodes the rows of a file with this layout.
pub(super) struct RowEncoder {
    pub(super) layout: Layout,
    cells: CellEncoder,
    /// The text before the value of each new member, such as `,"decision":`. It is the same in every row.
    member_heads: Box<[Box<[u8]>]>,
}

impl RowEncoder {
    pub(super) fn new(layout: Layout) -> Self {
        let head = |name: &String| {
            let mut head = vec![b','];
            put_string(name, &mut head);
            head.push(b':');
            head.into()
        };
        Self {
            cells: CellEncoder::new(layout.format, layout.encoding),
            member_heads: layout.columns.iter().map(head).collect(),
            layout,
        }
    }

    /// The start of the output: what comes before its header, and the header.
    pub(super) fn start(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.layout.preamble);
        let Some(header) = &self.layout.header else {
            return;
        };
        out.extend_from_slice(header.before());
        out.extend_from_slice(header.content());
        for (column, name) in self.layout.columns.iter().enumerate() {
            if !header.has(column) {
                out.push(self.cells.delimiter);
                self.cells.put(out, name);
            }
        }
        out.extend_from_slice(header.line_end());
    }

    /// The start of the rejects or the changes, with these names in front of the input's: after the cells of a row with the
    /// wrong number of cells they would end up in any column.
    pub(super) fn start_beside(&self, file: &mut Option<OutputFile>, names: &[&str]) {
        if let (Some(file), Some(header)) = (file, &self.layout.header) {
            let out = &mut file.buffer;
            out.extend_from_slice(&self.layout.preamble);
            for name in names {
                self.cells.put_in_front(out, name);
            }
            put_line(out, header);
        }
    }

    /// A row with its verdict; without one, it keeps what an earlier run wrote.
    pub(super) fn row(&self, out: &mut Vec<u8>, row: &RawRow, verdict: Option<&Verdict>) {
        out.extend_from_slice(row.before());
        match self.layout.format {
            Format::Delimited { .. } => self.row_with_cells(out, row, verdict),
            Format::Jsonl => self.row_with_members(out, row, verdict),
        }
        out.extend_from_slice(row.line_end());
    }

    fn row_with_cells(&self, out: &mut Vec<u8>, row: &RawRow, verdict: Option<&Verdict>) {
        let columns = &self.layout.columns;
        match verdict {
            None => out.extend_from_slice(row.content()),
            Some(verdict) => self.splice(out, row, row.content.end, |out, content| {
                self.cells.put_verdict(out, verdict, content);
            }),
        }
        if columns.only_decisions {
            return;
        }
        let header = self.layout.header.as_ref();
        for column in 0..columns.len() {
            // A column that the header does not have is appended, also to a row with too few cells.
            if !header.is_some_and(|header| header.has(column)) {
                out.push(self.cells.delimiter);
                if let Some(verdict) = verdict {
                    let content = columns.content(column);
                    self.cells.put_verdict(out, verdict, content);
                }
            }
        }
    }

    fn row_with_members(&self, out: &mut Vec<u8>, row: &RawRow, verdict: Option<&Verdict>) {
        let Some(brace) = last_brace(row).filter(|_| !verdict.is_some_and(keeps_its_members))
        else {
            return out.extend_from_slice(row.content());
        };
        let Span { start, end } = row.content;
        let members = row.slice(Span { start, end: brace });
        match verdict {
            None => out.extend_from_slice(members),
            Some(_) => self.splice(out, row, brace, |out, content| {
                put_value(out, verdict, content);
            }),
        }
        // The first member of an object has no comma before it.
        let mut comma = usize::from(members.trim_ascii() == b"{");
        for (column, head) in self.member_heads.iter().enumerate() {
            if !row.has(column) {
                out.extend_from_slice(head.get(comma..).unwrap_or_default());
                comma = 0;
                put_value(out, verdict, self.layout.columns.content(column));
            }
        }
        out.extend_from_slice(row.slice(Span { start: brace, end }));
    }

    /// Copies a row's content up to `end`, with the values of added columns written by `put`. If only decisions are written,
    /// the others stay as they are.
    fn splice(
        &self,
        out: &mut Vec<u8>,
        row: &RawRow,
        end: u32,
        mut put: impl FnMut(&mut Vec<u8>, ColumnContent),
    ) {
        let columns = &self.layout.columns;
        let mut start = row.content.start;
        for (span, column) in &row.scored_cells {
            let content = columns.content(*column);
            if columns.only_decisions && content != ColumnContent::Decision {
                continue;
            }
            let end = span.start;
            out.extend_from_slice(row.slice(Span { start, end }));
            put(out, content);
            start = span.end;
        }
        out.extend_from_slice(row.slice(Span { start, end }));
    }

    /// A reject: the original row with three cells or members more. A line of JSONL that is not an object becomes the text of a
    /// member.
    pub(super) fn reject(
        &self,
        out: &mut Vec<u8>,
        number: RowNumber,
        row: &RawRow,
        failure: &Failure,
    ) {
        let reason = failure.reason.word();
        if let Format::Delimited { .. } = self.layout.format {
            let number = number.to_string();
            for cell in [&*number, reason, &*harmless_cell(&failure.message)] {
                self.cells.put_in_front(out, cell);
            }
            return put_line(out, row);
        }
        let is_json = serde_json::from_slice::<serde::de::IgnoredAny>(row.content()).is_ok();
        let brace = last_brace(row).filter(|_| is_json);
        put_object_line(out, row, brace, |out| {
            let [row_name, reason_name, message_name] = REJECT_COLUMNS;
            let front = format!(
                "\"{row_name}\":{number},\"{reason_name}\":\"{reason}\",\"{message_name}\":"
            );
            out.extend_from_slice(front.as_bytes());
            put_string(&failure.message, out);
            if brace.is_none() {
                out.extend_from_slice(b",\"reject_line\":");
                put_string(&String::from_utf8_lossy(row.content()), out);
            }
        });
    }

    /// A change: the original row with five cells or members more.
    pub(super) fn change(
        &self,
        out: &mut Vec<u8>,
        number: RowNumber,
        row: &RawRow,
        change: &DecisionChange<'_>,
    ) {
        let (number, before, now) = (number.to_string(), change.before.word(), change.now.word());
        let (score_before, score_now) = (change.score_before, change.score_now.digits());
        if let Format::Delimited { .. } = self.layout.format {
            let score_before = score_before.map_or("", Score::digits);
            for cell in [&*number, before, score_before, now, score_now] {
                self.cells.put_in_front(out, cell);
            }
            return put_line(out, row);
        }
        let score_before = score_before.map_or("null", Score::digits);
        put_object_line(out, row, last_brace(row), |out| {
            let [row_name, old_decision, old_score, new_decision, new_score] = CHANGE_COLUMNS;
            let members = format!(
                "\"{row_name}\":{number},\"{old_decision}\":\"{before}\",\"{old_score}\":{score_before},\"{new_decision}\":\"{now}\",\"{new_score}\":{score_now}"
            );
            out.extend_from_slice(members.as_bytes());
        });
    }
}

/// Encodes single cells. They are quoted if they contain the delimiter, or another one that a spreadsheet may use: many split at
/// the delimiter of the machine's locale or the user's choice, and the text after it could be a formula.
struct CellEncoder {
    delimiter: u8,
    quotes: bool,
    encoding: TextEncoding,
}

/// Delimiters that spreadsheets use, besides the file's own.
const SPREADSHEET_DELIMITERS: [u8; 2] = *b";\t";

impl CellEncoder {
    const fn new(format: Format, encoding: TextEncoding) -> Self {
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

    fn put_in_front(&self, out: &mut Vec<u8>, text: &str) {
        self.put(out, text);
        out.push(self.delimiter);
    }

    fn put(&self, out: &mut Vec<u8>, text: &str) {
        let cell = &*self.encoding.encode(text);
        if !self.may_need_quotes(cell) {
            out.extend_from_slice(cell);
            return;
        }
        if !self.quotes {
            let ends = |byte: &u8| *byte == self.delimiter || *byte == b'\r' || *byte == b'\n';
            let cell = cell.iter();
            out.extend(cell.map(|byte| if ends(byte) { b' ' } else { *byte }));
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
    #[expect(
        clippy::needless_bitwise_bool,
        reason = "without branches the compiler checks many bytes per instruction"
    )]
    fn may_need_quotes(&self, cell: &[u8]) -> bool {
        let [semicolon, tab] = SPREADSHEET_DELIMITERS;
        any_byte(cell, |byte| {
            (byte == self.delimiter)
                | (byte == semicolon)
                | (byte == tab)
                | (byte == b'"')
                | (byte == b'\r')
                | (byte == b'\n')
        })
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
                    // Numbers, booleans, arrays and objects stay as the JSON that was sent. Only negative numbers start like a
                    // formula, and they are harmless.
                    Err(_) => self.put(out, raw),
                }
            }
        }
    }
}

fn put_line(out: &mut Vec<u8>, row: &RawRow) {
    out.extend_from_slice(row.content());
    out.extend_from_slice(row.line_end_or_new());
}

/// Whether a line stays as it is: it is not an object, so it cannot have members, or it has members of another program with the
/// names of added ones.
const fn keeps_its_members(verdict: &Verdict) -> bool {
    match verdict {
        Verdict::Failed(failure) => matches!(
            failure.reason,
            Reason::NotJson | Reason::NotAnObject | Reason::ExistingColumns
        ),
        Verdict::Scored(..) => false,
    }
}

/// The position of the object's last brace in the row.
fn last_brace(row: &RawRow) -> Option<u32> {
    let content = row.content().trim_ascii_end();
    content
        .ends_with(b"}")
        .then(|| Span::new(0, content.len() - 1).end + row.content.start)
}

fn put_value(out: &mut Vec<u8>, verdict: Option<&Verdict>, content: ColumnContent) {
    let value = match verdict {
        Some(Verdict::Scored(answer, decision)) => match (content, decision) {
            (ColumnContent::TransactionId, _) => {
                return put_printable_string(answer.transaction_id.as_str(), out);
            }
            (ColumnContent::Score, _) => Some(answer.score.digits()),
            (ColumnContent::Decision, Some(decision)) => return put_string(decision.word(), out),
            (ColumnContent::Decision, None) | (ColumnContent::Reason, _) => None,
            (ColumnContent::Captured(index), _) => {
                answer.captured.get(index).and_then(Option::as_deref)
            }
        },
        Some(Verdict::Failed(failure)) if content == ColumnContent::Reason => {
            return put_string(failure.reason.word(), out);
        }
        Some(Verdict::Failed(_)) | None => None,
    };
    // Null, never 0 or an empty string: an absent score must not look like a low one.
    out.extend_from_slice(value.unwrap_or("null").as_bytes());
}

/// Writes a line of the rejects or the changes in JSONL: the original object with more members before its last brace, which is
/// at `brace`, or without a brace an object with only these members.
fn put_object_line(
    out: &mut Vec<u8>,
    row: &RawRow,
    brace: Option<u32>,
    members: impl FnOnce(&mut Vec<u8>),
) {
    let Span { start, end } = row.content;
    let (head, tail) = match brace {
        Some(brace) => (
            row.slice(Span { start, end: brace }),
            row.slice(Span { start: brace, end }),
        ),
        None => (&b"{"[..], &b"}"[..]),
    };
    out.extend_from_slice(head);
    if head.trim_ascii() != b"{" {
        out.push(b',');
    }
    members(out);
    out.extend_from_slice(tail);
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
            let cells = CellEncoder::new(format, TextEncoding::UTF_8);
            cells.put(&mut out, &harmless_cell(text));
            assert_eq!(String::from_utf8_lossy(&out), cell);
        }
        let mut out = Vec::new();
        let format = Format::Delimited {
            delimiter: b'|',
            quotes: true,
        };
        let cells = CellEncoder::new(format, TextEncoding::UTF_8);
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
            CellEncoder::new(format, TextEncoding::UTF_8).put(&mut out, &text);
            let splits = text.bytes().any(|byte| SPREADSHEET_DELIMITERS.contains(&byte));
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
