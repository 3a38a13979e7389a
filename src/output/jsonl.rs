//! JSON lines with our members added.
//!
//! A line's own bytes are copied. Our members are added before the last brace, or replace old ones.

use super::csv::{CHANGE, REJECT};
use super::earlier::DecisionChange;
use crate::layout::{ColumnContent, Existing, Layout, PREVIOUS};
use crate::raw_json::{self, put_string};
use crate::row::{Row, Span};
use crate::verdict::{Failure, Reason, Score, Verdict};

/// What is written before the value of each new member, such as `,"decision":`. It is the same in every row.
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

pub(super) fn write_row(
    out: &mut Vec<u8>,
    row: &Row,
    verdict: &Verdict,
    layout: &Layout,
    heads: &MemberHeads,
) {
    out.extend_from_slice(row.before());
    match brace(row) {
        Some(brace) if !stays(verdict) => {
            with_members(out, row, verdict, layout, heads, brace);
        }
        _ => out.extend_from_slice(row.content()),
    }
    out.extend_from_slice(row.line_end());
}

/// A line that is not an object cannot have members, and a line with somebody else's members under
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
fn brace(row: &Row) -> Option<u32> {
    let content = row.content().trim_ascii_end();
    content
        .ends_with(b"}")
        .then(|| Span::new(0, content.len() - 1).end + row.content.start)
}

fn with_members(
    out: &mut Vec<u8>,
    row: &Row,
    verdict: &Verdict,
    layout: &Layout,
    heads: &MemberHeads,
    brace: u32,
) {
    let keep = layout.existing == Existing::Keep;
    let mut copied = row.content.start;
    for (span, column) in &row.existing {
        let content = layout.columns.content(*column);
        if layout.columns.only_decisions() && content != ColumnContent::Decision {
            continue;
        }
        out.extend_from_slice(row.slice(Span {
            start: copied,
            end: span.start,
        }));
        if keep {
            let name = layout.columns.get(*column).map_or("", String::as_str);
            put_string(&format!("{PREVIOUS}{name}"), out);
        } else {
            put_value(out, verdict, content);
        }
        copied = span.end;
    }
    out.extend_from_slice(row.slice(Span {
        start: copied,
        end: brace,
    }));
    let mut first = row
        .slice(Span {
            start: row.content.start,
            end: brace,
        })
        .trim_ascii()
        == b"{";
    for (column, head) in heads.0.iter().enumerate() {
        if keep || !row.has(column) {
            let comma = usize::from(std::mem::take(&mut first));
            out.extend_from_slice(head.get(comma..).unwrap_or_default());
            put_value(out, verdict, layout.columns.content(column));
        }
    }
    out.extend_from_slice(row.slice(Span {
        start: brace,
        end: row.content.end,
    }));
}

fn put_value(out: &mut Vec<u8>, verdict: &Verdict, content: ColumnContent) {
    let value = match verdict {
        Verdict::Scored(answer, decision) => match (content, decision) {
            (ColumnContent::TransactionId, _) => {
                return put_string(answer.transaction_id.as_str(), out);
            }
            (ColumnContent::Score, _) => Some(answer.score.digits()),
            (ColumnContent::Decision, Some(decision)) => return put_string(decision.word(), out),
            (ColumnContent::Decision, None) | (ColumnContent::Reason, _) => None,
            (ColumnContent::Captured(index), _) => {
                answer.captured.get(index).and_then(Option::as_deref)
            }
        },
        Verdict::Failed(failure) if content == ColumnContent::Reason => {
            return put_string(failure.reason.word(), out);
        }
        Verdict::Failed(_) => None,
    };
    // Null, never 0 or an empty string: an absent score must not look like a low one.
    out.extend_from_slice(value.unwrap_or("null").as_bytes());
}

/// A reject is the original line with three more members, which replace those from an earlier run.
/// A line that is not an object becomes the text of a member.
pub(super) fn write_reject(out: &mut Vec<u8>, row: &Row, failure: &Failure) {
    let brace = brace(row)
        .filter(|_| serde_json::from_slice::<serde::de::IgnoredAny>(row.content()).is_ok());
    side_line(out, row, brace, &REJECT, |out| {
        let [number, reason, message] = REJECT;
        let front = format!(
            "\"{number}\":{},\"{reason}\":\"{}\",\"{message}\":",
            row.number, failure.reason
        );
        out.extend_from_slice(front.as_bytes());
        put_string(&failure.message, out);
        if brace.is_none() {
            out.extend_from_slice(b",\"reject_line\":");
            put_string(&String::from_utf8_lossy(row.content()), out);
        }
    });
}

/// The object without the members with these names, up to its last brace; `None` unless it has each
/// of them exactly once, as otherwise they are the user's.
fn without(object: &[u8], names: &[&str]) -> Option<Vec<u8>> {
    let (mut others, mut ours) = (vec![b'{'], Vec::new());
    raw_json::members(std::str::from_utf8(object).ok()?, |key, value| {
        let name = raw_json::string(key);
        if let Some(at) = names.iter().position(|ours| name.as_deref() == Some(*ours)) {
            ours.push(at);
            return;
        }
        if others.len() > 1 {
            others.push(b',');
        }
        for part in [key.get(), ":", value.get()] {
            others.extend_from_slice(part.as_bytes());
        }
    })
    .ok()?;
    ours.sort_unstable();
    ours.iter().copied().eq(0..names.len()).then_some(others)
}

/// A change is the original line with five more members.
pub(super) fn write_change(out: &mut Vec<u8>, row: &Row, change: &DecisionChange<'_>) {
    side_line(out, row, brace(row), &CHANGE, |out| {
        let [number, old_decision, old_score, new_decision, new_score] = CHANGE;
        let members = format!(
            "\"{number}\":{},\"{old_decision}\":\"{}\",\"{old_score}\":{},\"{new_decision}\":\"{}\",\"{new_score}\":{}",
            row.number,
            change.before.decision.word(),
            change.before.score.as_ref().map_or("null", Score::digits),
            change.decision.word(),
            change.score.digits(),
        );
        out.extend_from_slice(members.as_bytes());
    });
}

/// Writes a line of the rejects or the changes: the original object with more members before its
/// last brace, which is at `brace`, or without a brace an object with only these members. Members
/// with these `names` from an earlier run are replaced.
fn side_line(
    out: &mut Vec<u8>,
    row: &Row,
    brace: Option<u32>,
    names: &[&str],
    members: impl FnOnce(&mut Vec<u8>),
) {
    let Span { start, end } = row.content;
    let others = brace.and_then(|_| without(row.content(), names));
    let (head, tail) = match (&others, brace) {
        (Some(others), _) => (others.as_slice(), &b"}"[..]),
        (None, Some(brace)) => (
            row.slice(Span { start, end: brace }),
            row.slice(Span { start: brace, end }),
        ),
        (None, None) => (&b"{"[..], &b"}"[..]),
    };
    out.extend_from_slice(head);
    if head.trim_ascii() != b"{" {
        out.push(b',');
    }
    members(out);
    out.extend_from_slice(tail);
    out.extend_from_slice(row.line_end_or_new());
}
