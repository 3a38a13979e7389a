//! The cells and members expected for the invented verdicts, written without the code in `output`.

use rescore::internals::{
    Answer, Decision, Format, Layout, RawRow, Row, RowNumber, Score, TransactionId, Verdict,
};

/// A further field of the answer, as it came.
const LEVEL: &str = r#"{"k":"v, w"}"#;

/// The name of the column for reasons, if there is one.
pub(super) const REASON: &str = "why not";

/// A verdict that no other row has. Its id needs quotes in both formats.
pub(super) fn scored(number: RowNumber) -> Verdict {
    let answer = Answer {
        transaction_id: TransactionId::new(&id(number)).unwrap(),
        score: Score::from_json_number("1.50").unwrap(),
        captured: Box::new([Some(LEVEL.into())]),
    };
    Verdict::Scored(answer, Some(Decision::Approve))
}

fn id(number: RowNumber) -> String {
    format!("T~{number} \"a,b\"")
}

/// The value of one of our columns, as a reader of CSV sees it and as it stands in JSON; nothing where there is none.
fn ours(layout: &Layout, row: &Row, verdict: &Verdict, column: usize) -> Option<[String; 2]> {
    match (verdict, column) {
        (Verdict::Failed(failure), _) if is_reason(layout, column) => Some([
            failure.reason.to_string(),
            format!("\"{}\"", failure.reason),
        ]),
        _ if is_reason(layout, column) => None,
        (Verdict::Failed(_), _) => None,
        (_, 0) => Some([id(row.number), format!("\"T~{} \\\"a,b\\\"\"", row.number)]),
        (_, 1) => Some(["1.50", "1.50"].map(str::to_owned)),
        (_, 2) => Some(["approve", "\"approve\""].map(str::to_owned)),
        _ => Some([LEVEL, LEVEL].map(str::to_owned)),
    }
}

pub(super) fn value(layout: &Layout, row: &Row, verdict: &Verdict, column: usize) -> String {
    let [value, _] = ours(layout, row, verdict, column).unwrap_or_default();
    value
}

pub(super) fn json(layout: &Layout, row: &Row, verdict: &Verdict, column: usize) -> String {
    let ours = ours(layout, row, verdict, column);
    ours.map_or_else(|| "null".to_owned(), |[_, json]| json)
}

/// Whether this is the column for reasons, the last one.
fn is_reason(layout: &Layout, column: usize) -> bool {
    layout.columns.last().is_some_and(|last| last == REASON) && column == layout.columns.len() - 1
}

/// A cell as written in the file.
pub(super) fn quoted(text: &str, delimiter: u8) -> Vec<u8> {
    let special = |byte: u8| byte == delimiter || byte == b'"';
    if text.bytes().any(special) {
        format!("\"{}\"", text.replace('"', "\"\"")).into_bytes()
    } else {
        text.as_bytes().to_vec()
    }
}

/// Whether the output appends this column, instead of replacing an old one.
pub(super) fn is_appended(there: &RawRow, column: usize) -> bool {
    !there.scored_cells.iter().any(|(_, ours)| *ours == column)
}

/// What replaces an old cell or its name, and what is appended to the row.
pub(super) struct Ours {
    pub(super) replaced: Vec<Vec<u8>>,
    pub(super) appended: Vec<u8>,
}

impl Ours {
    pub(super) fn of_header(layout: &Layout, header: &RawRow, delimiter: u8) -> Self {
        let mut appended = Vec::new();
        for (column, name) in layout.columns.iter().enumerate() {
            if is_appended(header, column) {
                appended.push(delimiter);
                appended.extend(quoted(name, delimiter));
            }
        }
        let replaced = { header.scored_cells.iter() }.map(|(span, _)| header.slice(*span).to_vec());
        Self {
            replaced: replaced.collect(),
            appended,
        }
    }

    pub(super) fn of_cells(layout: &Layout, row: &Row, verdict: &Verdict, delimiter: u8) -> Self {
        let header = layout.header.as_ref().unwrap();
        let cell = |column| quoted(&value(layout, row, verdict, column), delimiter);
        let mut appended = Vec::new();
        for column in 0..layout.columns.len() {
            if is_appended(header, column) {
                appended.push(delimiter);
                appended.extend(cell(column));
            }
        }
        let replaced = row.raw.scored_cells.iter().map(|(_, column)| cell(*column));
        Self {
            replaced: replaced.collect(),
            appended,
        }
    }

    pub(super) fn of_members(layout: &Layout, row: &Row, verdict: &Verdict) -> Self {
        let content = row.raw.content().trim_ascii();
        let mut first = content
            .trim_ascii_end()
            .strip_suffix(b"}")
            .unwrap()
            .trim_ascii()
            == b"{";
        let mut appended = Vec::new();
        for (column, name) in layout.columns.iter().enumerate() {
            if is_appended(&row.raw, column) {
                if !std::mem::take(&mut first) {
                    appended.push(b',');
                }
                appended.extend(
                    format!("\"{name}\":{}", json(layout, row, verdict, column)).into_bytes(),
                );
            }
        }
        let replaced = row.raw.scored_cells.iter();
        let replaced = replaced.map(|(_, column)| json(layout, row, verdict, *column).into_bytes());
        Self {
            replaced: replaced.collect(),
            appended,
        }
    }

    /// Whether the written row is the row that was read with only these changes. After the appended ones comes the row's
    /// `tail`: a JSON object's last brace and what follows it, otherwise nothing.
    pub(super) fn are_all_that_is_new(&self, written: &[u8], row: &RawRow, tail: &[u8]) -> bool {
        let taken_out = || {
            let written = written.strip_suffix(row.line_end())?.strip_suffix(tail)?;
            let mut written = written.strip_suffix(&*self.appended)?;
            let end = row.bytes.len() - row.line_end().len() - tail.len();
            let mut copied = 0;
            for ((span, _), new) in row.scored_cells.iter().zip(&self.replaced) {
                let span = span.range();
                written = written.strip_prefix(&row.bytes[copied..span.start])?;
                written = written.strip_prefix(&**new)?;
                copied = span.end;
            }
            Some(written == &row.bytes[copied..end])
        };
        taken_out() == Some(true)
    }
}

/// The delimiter of a layout, or nothing.
pub(super) fn delimiter(layout: &Layout) -> Option<u8> {
    match layout.format {
        Format::Delimited { delimiter, .. } => Some(delimiter),
        Format::Jsonl => None,
    }
}
