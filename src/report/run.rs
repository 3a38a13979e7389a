//! How the run went that wrote a file: what is read of its summary, and the section that shows it.
//!
//! A run makes its own report of the same text that `--summary` writes, so that both say the same.

use std::cmp::Reverse;
use std::time::Duration;

use maud::{Markup, html};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::chart::section;
use super::words::count;
use crate::base::money::Money;
use crate::base::numbers::time;
use crate::base::text::{printable, quoted};
use crate::selection::Selection;
use crate::telemetry::counts::{Cost, Counts};
use crate::telemetry::event::CancelReason;

/// The version of summaries that is read.
const VERSION: u64 = 1;

/// The summary of a run.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct RunFacts {
    /// The stand-in answered.
    pub(crate) sandbox: bool,
    levels: Option<IgnoredAny>,
    part: Option<Selection>,
    /// What was counted.
    #[serde(flatten)]
    pub(crate) counts: Counts,
}

impl RunFacts {
    /// Reads a summary.
    ///
    /// # Errors
    /// Why it is not one.
    pub(crate) fn parse(json: &str) -> Result<Self, String> {
        let summary: Value =
            serde_json::from_str(json).map_err(|_| "it is not a JSON object".to_owned())?;
        match summary.get("type").and_then(Value::as_str) {
            Some("summary") => {}
            Some(other) => return Err(format!("its type is {}", quoted(other))),
            None => return Err("it has no type".to_owned()),
        }
        let version = summary
            .get("version")
            .and_then(Value::as_u64)
            .unwrap_or_default();
        if version != VERSION {
            return Err(format!("it has version {version} and not {VERSION}"));
        }
        let facts: Self = serde_json::from_value(summary).map_err(|error| error.to_string())?;
        match facts.counts.cancelled {
            Some(CancelReason::NotStarted) => Err("its run could not start".to_owned()),
            _ => Ok(facts),
        }
    }

    /// Whether levels have decided, and not thresholds.
    pub(crate) const fn is_by_level(&self) -> bool {
        self.levels.is_some()
    }

    /// Rows without a verdict by their reason's word, the most frequent first.
    pub(super) fn failed(&self) -> Vec<(&'static str, u64)> {
        let reasons = self.counts.failed.reasons.iter();
        let mut sorted: Vec<_> = reasons.map(|(why, rows)| (why.word(), *rows)).collect();
        sorted.sort_by_key(|(_, rows)| Reverse(*rows));
        sorted
    }

    /// The rows that the run took, if not all: `the first 100 rows`.
    pub(super) fn part(&self) -> Option<String> {
        self.part?.words()
    }

    /// What is known of the run, the most important first.
    fn lines(&self) -> Vec<(&'static str, String)> {
        let counts = &self.counts;
        let (calls, cost) = (&counts.calls, counts.cost.as_ref());
        let some = |number: u64| (number > 0).then(|| count(number));
        let lasted = |long: Duration| (!long.is_zero()).then(|| time(long));
        let money =
            |amount: fn(&Cost) -> Money| cost.map(|cost| printable(&cost.shown(amount(cost))));
        let has_more = cost.is_some_and(|cost| cost.spent_at_most != cost.spent);
        let has_others = calls.sent_before > 0;
        let lines = [
            ("Time", lasted(counts.elapsed)),
            ("Calls", Some(count(calls.sent))),
            (
                "Calls of all starts of the run",
                has_others.then(|| count(calls.of_all_starts())),
            ),
            ("Spent", money(|cost| cost.spent)),
            (
                "Spent at most",
                money(|cost| cost.spent_at_most).filter(|_| has_more),
            ),
            (
                "Spent by all starts, at most",
                money(|cost| cost.all_starts_at_most).filter(|_| has_others),
            ),
            (
                "Paid for earlier",
                money(|cost| cost.paid_earlier).filter(|_| counts.known > 0),
            ),
            (
                "Saved by equal rows",
                money(|cost| cost.saved).filter(|_| counts.duplicates > 0),
            ),
            ("Answered with a verdict", Some(count(calls.answered))),
            ("Retries", Some(count(calls.retries))),
            ("Paid for by an earlier run", some(counts.known)),
            ("Same as another row", some(counts.duplicates)),
            ("Perhaps billed twice", some(calls.maybe_billed_twice)),
            (
                "Billed without a verdict",
                some(calls.billed_without_verdict),
            ),
        ];
        { lines.into_iter() }
            .filter_map(|(name, value)| Some((name, value?)))
            .collect()
    }
}

/// The section about the run; `sandbox` says that a stand-in answered.
pub(super) fn of(run: &RunFacts, sandbox: bool) -> Markup {
    let content = html! {
        @if let Some(stopped) = run.counts.cancelled {
            p.lead { "The run was stopped before its end (" (stopped.words()) ")." }
        }
        dl.facts {
            @for (name, value) in run.lines() {
                div { dt { (name) } dd { (value) } }
            }
        }
    };
    section(sandbox, "run", "The run", &content)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::example::SUMMARY;
    use super::*;

    #[test]
    fn a_summary_is_read_with_keys_that_are_missing_or_unknown_and_others_are_refused() {
        let facts = RunFacts::parse(SUMMARY).unwrap();
        let counts = &facts.counts;
        assert_eq!((counts.rows.written, counts.calls.sent), (1_000, 990));
        let refused = |summary: &str| RunFacts::parse(summary).unwrap_err();
        let other = SUMMARY.replace("\"version\":1", "\"version\":3");
        assert_eq!(refused(&other), "it has version 3 and not 1");
        let not_started = SUMMARY.replace("\"stopped\":null", "\"stopped\":\"not_started\"");
        assert_eq!(refused(&not_started), "its run could not start");
    }
}
