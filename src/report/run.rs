//! How the run went that wrote a file: what is read of its summary, and the section that shows it.
//!
//! The summary's keys are an interface: what is read here is the same in all versions. So a report can be made of the summary
//! of any version, and a run makes its own report of the same text.

use std::num::NonZeroU64;
use std::time::Duration;

use maud::{Markup, html};
use serde_json::Value;

use super::chart::Section;
use super::words::{count, score};
use crate::base::elapsed::time;
use crate::base::error::{column, quoted};
use crate::base::money::Money;
use crate::selection::{Sample, Selection};
use crate::verdict::Decision;

/// The summary of a run.
#[derive(Debug, Clone)]
pub(crate) struct RunFacts(Value);

impl RunFacts {
    /// Reads a summary.
    ///
    /// # Errors
    /// Why it is not one.
    pub(crate) fn parse(json: &str) -> Result<Self, String> {
        let summary: Value =
            serde_json::from_str(json).map_err(|_| "it is not a JSON object".to_owned())?;
        let (kind, version) = (summary.get("type"), summary.get("version"));
        match (kind.map(Value::as_str), version.and_then(Value::as_u64)) {
            (Some(Some("summary")), Some(1..=2)) => {}
            (Some(Some("summary")), Some(version)) => {
                return Err(format!("it has version {version} and not 1 or 2"));
            }
            (Some(Some(other)), _) => return Err(format!("its type is {}", quoted(other))),
            _ => return Err("it has no type".to_owned()),
        }
        let facts = Self(summary);
        if facts.stopped() == Some("not_started") {
            return Err("its run could not start".to_owned());
        }
        let needed = ["/rows/written", "/decisions/approve", "/calls/sent"];
        match needed.iter().find(|key| facts.number(key).is_none()) {
            Some(key) => Err(format!("it has no number at `{key}`")),
            None => Ok(facts),
        }
    }

    /// A number of the summary, at this JSON pointer.
    fn number(&self, pointer: &str) -> Option<f64> {
        self.0.pointer(pointer)?.as_f64()
    }

    fn count(&self, pointer: &str) -> u64 {
        { self.0.pointer(pointer).and_then(Value::as_u64) }.unwrap_or(0)
    }

    /// Whether the stand-in answered.
    #[must_use]
    pub(crate) fn is_sandbox(&self) -> bool {
        self.0.get("sandbox") == Some(&Value::Bool(true))
    }

    /// The number of rows in the output.
    #[must_use]
    pub(crate) fn rows(&self) -> u64 {
        self.count("/rows/written")
    }

    /// The number of rows with this decision.
    #[must_use]
    pub(crate) fn decided(&self, decision: Decision) -> u64 {
        self.count(&format!("/decisions/{}", decision.word()))
    }

    /// Whether levels have decided, and not thresholds.
    #[must_use]
    pub(crate) fn is_by_level(&self) -> bool {
        self.0.get("levels").is_some_and(|levels| !levels.is_null())
    }

    /// Why the run stopped early.
    fn stopped(&self) -> Option<&str> {
        self.0.get("stopped")?.as_str()
    }

    /// Rows without a verdict by their reason's word, the most frequent first.
    pub(super) fn failed(&self) -> Vec<(&str, u64)> {
        let reasons = self.0.pointer("/failed/reasons").and_then(Value::as_object);
        let mut sorted: Vec<_> = { reasons.into_iter().flatten() }
            .filter_map(|(reason, rows)| Some((reason.as_str(), rows.as_u64()?)))
            .collect();
        sorted.sort_by_key(|(_, rows)| std::cmp::Reverse(*rows));
        sorted
    }

    /// The rows that the run took, if not all: `the first 100 rows`.
    pub(super) fn part(&self) -> Option<String> {
        let selection = Selection {
            limit: NonZeroU64::new(self.count("/part/limit")),
            sample: self
                .number("/part/sample_percent")
                .and_then(Sample::of_percent),
        };
        selection.words()
    }

    /// What is known of the run, the most important first.
    fn lines(&self) -> Vec<(&'static str, String)> {
        let seconds = |pointer| {
            self.number(pointer)
                .filter(|seconds| *seconds > 0.0)
                .map(seconds)
        };
        let rate = |pointer| self.number(pointer).map(decimals);
        let some = |pointer| {
            Some(self.count(pointer))
                .filter(|number| *number > 0)
                .map(count)
        };
        let all = |pointer| Some(count(self.count(pointer)));
        let at_most = "/cost/spent_at_most";
        let is_known = self.number(at_most) == self.number("/cost/spent");
        let lines = [
            ("Time", seconds("/elapsed_seconds")),
            ("Calls", all("/calls/sent")),
            ("Spent", self.money("/cost/spent")),
            ("Spent at most", self.money(at_most).filter(|_| !is_known)),
            ("Saved", self.money("/cost/saved")),
            ("Answered with a verdict", all("/calls/answered")),
            ("Retries", all("/calls/retries")),
            ("Throttled by the service", some("/calls/throttled")),
            ("Paid for by an earlier run", some("/known")),
            ("Same as another row", some("/duplicates")),
            ("Perhaps billed twice", some("/calls/maybe_billed_twice")),
            (
                "Billed without a verdict",
                some("/calls/billed_without_verdict"),
            ),
            ("Rows per second", rate("/rows_per_second")),
            (
                "Limit found, calls per second",
                rate("/limit/calls_per_second"),
            ),
            ("Limit of calls in flight", some("/limit/in_flight")),
            ("Paused", seconds("/paused_seconds")),
            ("Service down", seconds("/down_seconds")),
        ];
        { lines.into_iter() }
            .filter_map(|(name, value)| Some((name, value?)))
            .collect()
    }

    /// An amount with its currency, as the summary shows it to people.
    fn money(&self, pointer: &str) -> Option<String> {
        let amount = self
            .0
            .pointer(pointer)
            .filter(|amount| amount.is_number())?;
        let amount = amount.to_string();
        let shown = amount.parse::<Money>();
        let shown = shown.map_or_else(|_| column(&amount), |amount| amount.to_string());
        let currency = self.0.pointer("/cost/currency").and_then(Value::as_str);
        Some(match currency {
            Some(currency) => format!("{shown} {}", column(currency)),
            None => shown,
        })
    }
}

/// The section about the run; `sandbox` says that a stand-in answered.
pub(super) fn section(run: &RunFacts, sandbox: bool) -> Markup {
    let place = Section {
        id: "run",
        title: "The run".to_owned(),
        sandbox,
        is_wide: true,
    };
    place.with(&html! {
        @if let Some(stopped) = run.stopped() {
            p.lead { "The run was stopped before its end (" (column(stopped)) ")." }
        }
        dl.facts {
            @for (name, value) in run.lines() {
                div { dt { (name) } dd { (value) } }
            }
        }
    })
}

fn seconds(seconds: f64) -> String {
    Duration::try_from_secs_f64(seconds).map_or_else(|_| "–".to_owned(), time)
}

/// A rate as people read it: whole numbers above a hundred.
fn decimals(rate: f64) -> String {
    if rate >= 100.0 {
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a rate above zero"
        )]
        let whole = rate.round() as u64;
        return count(whole);
    }
    score((rate * 10.0).round() / 10.0)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::example::SUMMARY;
    use super::*;

    #[test]
    fn summaries_of_both_versions_are_read_and_others_are_refused() {
        let version =
            |number: u8| SUMMARY.replace("\"version\":1", &format!("\"version\":{number}"));
        for number in [1, 2] {
            let facts = RunFacts::parse(&version(number)).unwrap();
            assert_eq!((facts.rows(), facts.count("/calls/sent")), (1_000, 990));
        }
        let refused = RunFacts::parse(&version(3)).unwrap_err();
        assert_eq!(refused, "it has version 3 and not 1 or 2");
        let not_started = SUMMARY.replace("\"stopped\":null", "\"stopped\":\"not_started\"");
        let refused = RunFacts::parse(&not_started).unwrap_err();
        assert_eq!(refused, "its run could not start");
        let other = SUMMARY.replace("written", "seen");
        let refused = RunFacts::parse(&other).unwrap_err();
        assert_eq!(refused, "it has no number at `/rows/written`");
    }
}
