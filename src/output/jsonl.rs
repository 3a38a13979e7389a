//! JSON lines with our members added.
//!
//! A line's own bytes are copied. Our members are added before the last brace, or replace old ones.

use super::csv::{CHANGE, DecisionChange, REJECT, splice};
use crate::layout::{ColumnContent, Layout};
use crate::raw_json::{put_printable_string, put_string};
use crate::row::{RawRow, RowNumber, Span};
use crate::verdict::{Failure, Reason, Score, Verdict};

/// The text before the value of each new member, such as `,"decision":`. It is the same in every row.
pub(super) struct MemberHeads(Box<[Box<[u8]>]>);

impl MemberHeads {
    /// For members with the names of these columns.
    pub(super) fn new(columns: &[String]) -> Self {
        let head = |name: &String| {
            let mut head = vec![b','];
            put_string(name, &mut head);
            head.push(b':');
            head.into()
        };
        Self(columns.iter().map(head).collect())
    }
}

/// Writes a row with its verdict; without one, it keeps what an earlier run wrote.
pub(super) fn write_row(
    out: &mut Vec<u8>,
    row: &RawRow,
    verdict: Option<&Verdict>,
    layout: &Layout,
    heads: &MemberHeads,
) {
    out.extend_from_slice(row.before());
    match brace(row) {
        Some(brace) if !verdict.is_some_and(stays) => {
            with_members(out, row, verdict, layout, heads, brace);
        }
        _ => out.extend_from_slice(row.content()),
    }
    out.extend_from_slice(row.line_end());
}

/// A line that is not an object cannot have members, and a line with another program's members under
/// our names is not changed.
const fn stays(verdict: &Verdict) -> bool {
    match verdict {
        Verdict::Failed(failure) => matches!(
            failure.reason,
            Reason::NotJson | Reason::NotAnObject | Reason::ExistingColumns
        ),
        Verdict::Scored(..) => false,
    }
}

/// The position of the object's last brace in the row.
fn brace(row: &RawRow) -> Option<u32> {
    let content = row.content().trim_ascii_end();
    content
        .ends_with(b"}")
        .then(|| Span::new(0, content.len() - 1).end + row.content.start)
}

fn with_members(
    out: &mut Vec<u8>,
    row: &RawRow,
    verdict: Option<&Verdict>,
    layout: &Layout,
    heads: &MemberHeads,
    brace: u32,
) {
    let Span { start, end } = row.content;
    let inner = row.slice(Span { start, end: brace });
    match verdict {
        None => out.extend_from_slice(inner),
        Some(_) => splice(out, row, layout, brace, |out, content| {
            put_value(out, verdict, content);
        }),
    }
    let mut first = inner.trim_ascii() == b"{";
    for (column, head) in heads.0.iter().enumerate() {
        if !row.has(column) {
            let comma = usize::from(std::mem::take(&mut first));
            out.extend_from_slice(head.get(comma..).unwrap_or_default());
            put_value(out, verdict, layout.columns.content(column));
        }
    }
    out.extend_from_slice(row.slice(Span { start: brace, end }));
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

/// A reject is the original line with three more members.
/// A line that is not an object becomes the text of a member.
pub(super) fn write_reject(out: &mut Vec<u8>, number: RowNumber, row: &RawRow, failure: &Failure) {
    let brace = brace(row)
        .filter(|_| serde_json::from_slice::<serde::de::IgnoredAny>(row.content()).is_ok());
    side_line(out, row, brace, |out| {
        let [number_name, reason, message] = REJECT;
        let front = format!(
            "\"{number_name}\":{number},\"{reason}\":\"{}\",\"{message}\":",
            failure.reason
        );
        out.extend_from_slice(front.as_bytes());
        put_string(&failure.message, out);
        if brace.is_none() {
            out.extend_from_slice(b",\"reject_line\":");
            put_string(&String::from_utf8_lossy(row.content()), out);
        }
    });
}

/// A change is the original line with five more members.
pub(super) fn write_change(
    out: &mut Vec<u8>,
    number: RowNumber,
    row: &RawRow,
    change: &DecisionChange<'_>,
) {
    side_line(out, row, brace(row), |out| {
        let [
            number_name,
            old_decision,
            old_score,
            new_decision,
            new_score,
        ] = CHANGE;
        let members = format!(
            "\"{number_name}\":{number},\"{old_decision}\":\"{}\",\"{old_score}\":{},\"{new_decision}\":\"{}\",\"{new_score}\":{}",
            change.before.word(),
            change.score_before.map_or("null", Score::digits),
            change.now.word(),
            change.score_now.digits(),
        );
        out.extend_from_slice(members.as_bytes());
    });
}

/// Writes a line of the rejects or the changes: the original object with more members before its
/// last brace, which is at `brace`, or without a brace an object with only these members.
fn side_line(
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
