//! A row with its verdict, and the earlier verdict on its user: from the row itself, or else from an older answer in the
//! ledger.
//!
//! A word that is not a decision and a number that is not a score are ignored, and nothing is ever
//! guessed. This file must not know what the comparison is used for.

use std::borrow::Cow;

use serde::de::IgnoredAny;

use crate::analysis::{PastVerdict, number_of};
use crate::layout::Format;
use crate::row::{Earlier, Row, Span};
use crate::verdict::{Decision, DecisionPolicy, Score, Verdict};

/// A row with its verdict.
#[derive(Debug, Clone)]
pub struct DoneRow {
    /// The row.
    pub row: Row,
    /// Its verdict.
    pub verdict: Verdict,
    /// The score of an older ledger answer for the same user, if that answer was not used.
    pub old: Option<Score>,
}

/// An earlier verdict.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct EarlierVerdict {
    pub(super) decision: Decision,
    /// `None` if only the decision is known.
    pub(super) score: Option<Score>,
}

impl EarlierVerdict {
    /// The earlier verdict on this row's user; the row takes precedence over the ledger. `policy` decides about a score
    /// without a decision.
    pub(super) fn of(
        finished: &DoneRow,
        format: Format,
        policy: Option<&DecisionPolicy>,
    ) -> Option<Self> {
        let DoneRow { row, old, .. } = finished;
        // Most files have no earlier verdicts, and must not be slowed down by those that do.
        if row.earlier == Earlier::default() && old.is_none() {
            return None;
        }
        let text = |span: Span| text(row.slice(span), format);
        let decision = text(row.earlier.decision).and_then(|word| decision(&word));
        let score = text(row.earlier.score).and_then(|number| score(&number));
        // The earlier decision counts, whatever the thresholds were then: their change should show.
        let decision = decision.or_else(|| policy?.decide_score(score.as_ref()?));
        if let Some(decision) = decision {
            return Some(Self { decision, score });
        }
        let score = old.as_ref()?;
        Some(Self {
            decision: policy?.decide_score(score)?,
            score: Some(score.clone()),
        })
    }
}

impl EarlierVerdict {
    /// It as it is counted.
    pub(super) fn outline(&self) -> PastVerdict {
        PastVerdict {
            decision: self.decision,
            score: self.score.as_ref().map(number_of),
        }
    }
}

/// A decision that differs from the earlier one.
pub(super) struct DecisionChange<'a> {
    pub(super) before: &'a EarlierVerdict,
    pub(super) decision: Decision,
    pub(super) score: &'a Score,
}

/// Longer than any decision or score with each character escaped. Larger values are ignored.
const LONGEST: usize = 8 * Score::MAX_CHARACTERS;

/// The text of a cell or a JSON value, without quotes and white space around it.
fn text(written: &[u8], format: Format) -> Option<Cow<'_, str>> {
    if written.is_empty() || written.len() > LONGEST {
        return None;
    }
    match format {
        Format::Jsonl if written.starts_with(b"\"") => {
            let text: String = serde_json::from_slice(written).ok()?;
            Some(Cow::Owned(text.trim().to_owned()))
        }
        Format::Jsonl => std::str::from_utf8(written).ok().map(Cow::Borrowed),
        Format::Delimited { .. } => {
            let text = std::str::from_utf8(written).ok()?;
            Some(Cow::Borrowed(
                text.trim_matches(|c: char| c == '"' || c.is_whitespace()),
            ))
        }
    }
}

fn decision(word: &str) -> Option<Decision> {
    Decision::ALL
        .into_iter()
        .find(|decision| decision.word().eq_ignore_ascii_case(word))
}

fn score(text: &str) -> Option<Score> {
    let score = Score::from_json_number(text).ok()?;
    // It must be written as a JSON number, which `01` and `1.` are not.
    serde_json::from_str::<IgnoredAny>(text).ok()?;
    Some(score)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::row::RowNumber;
    use crate::verdict::{Failure, Reason};

    const CSV: Format = Format::Delimited { delimiter: b',' };

    /// A decision, and perhaps a score.
    type Understood = (&'static str, Option<&'static str>);

    /// What is understood of a decision and a score in a row, and of an older answer.
    fn understood(
        format: Format,
        decision: &str,
        score: &str,
        old: Option<&str>,
    ) -> Option<(&'static str, Option<String>)> {
        let middle = Span::new(0, decision.len());
        let end = Span::new(decision.len(), decision.len() + score.len());
        let finished = DoneRow {
            row: Row {
                number: RowNumber::FIRST,
                raw: Bytes::from([decision, score].concat()),
                content: Span::default(),
                existing: Box::default(),
                earlier: Earlier {
                    decision: middle,
                    score: end,
                },
            },
            verdict: Verdict::Failed(Failure::new(Reason::Refused, "not used here")),
            old: old.map(|digits| Score::from_json_number(digits).unwrap()),
        };
        let previous = EarlierVerdict::of(&finished, format, Some(&DecisionPolicy::default()))?;
        let digits = previous.score.map(|score| score.digits().to_owned());
        Some((previous.decision.word(), digits))
    }

    #[track_caller]
    fn holds(format: Format, cases: &[(&str, &str, Option<Understood>)]) {
        for (decision, score, expected) in cases {
            let expected = expected.map(|(word, digits)| (word, digits.map(str::to_owned)));
            assert_eq!(
                understood(format, decision, score, None),
                expected,
                "{decision} {score}"
            );
        }
    }

    #[test]
    fn only_cells_with_a_clear_meaning_are_understood() {
        holds(
            CSV,
            &[
                ("approve", "1.50", Some(("approve", Some("1.50")))),
                ("\"Block\"", "\"9\"", Some(("block", Some("9")))),
                ("\" REVIEW \"", " 3.0 ", Some(("review", Some("3.0")))),
                // The word counts, not the decision by today's thresholds.
                ("block", "0.1", Some(("block", Some("0.1")))),
                ("", "2", Some(("approve", Some("2")))),
                ("approved by Jo", "5.01", Some(("block", Some("5.01")))),
                ("review", "", Some(("review", None))),
                ("review", "n/a", Some(("review", None))),
                ("review", "=1+1", Some(("review", None))),
                ("review", "1,5", Some(("review", None))),
                ("review", "01", Some(("review", None))),
                ("review", "-0.5", Some(("review", Some("-0.5")))),
                ("approv", "", None),
                ("", "", None),
                ("\"\"", "\"", None),
                ("", "NaN", None),
                ("", "1e999", None),
            ],
        );
        assert_eq!(understood(CSV, "", &"1".repeat(65), None), None);
        let long = format!("\"{}block\"", " ".repeat(LONGEST));
        assert_eq!(understood(CSV, &long, "", None), None);
    }

    #[test]
    fn only_json_values_with_a_clear_meaning_are_understood() {
        holds(
            Format::Jsonl,
            &[
                (
                    r#""approve""#,
                    "1.68000",
                    Some(("approve", Some("1.68000"))),
                ),
                (
                    r#""\u0042lo\u0063k""#,
                    r#"" 9\u002e5 ""#,
                    Some(("block", Some("9.5"))),
                ),
                ("null", "3", Some(("review", Some("3")))),
                ("true", "-1e-2", Some(("approve", Some("-1e-2")))),
                (r#""review""#, "null", Some(("review", None))),
                (r#""review""#, r#""1.""#, Some(("review", None))),
                (r#""review""#, r#"{"a":1}"#, Some(("review", None))),
                (r#"["review"]"#, "[1]", None),
                ("null", "null", None),
                (r#""\ud800""#, "", None),
            ],
        );
    }

    #[test]
    fn an_older_answer_counts_if_the_row_has_no_verdict() {
        let old = |decision, score| understood(CSV, decision, score, Some("3.50"));
        assert_eq!(old("", ""), Some(("review", Some("3.50".to_owned()))));
        assert_eq!(old("?", "?"), Some(("review", Some("3.50".to_owned()))));
        // Never the decision of one with the score of the other.
        assert_eq!(old("block", ""), Some(("block", None)));
        assert_eq!(old("", "1"), Some(("approve", Some("1".to_owned()))));
    }
}
