//! The summary for programs.
//!
//! The reference documents every key; keys are added, but change only with [`VERSION`]. What is not known is null, never
//! absent.

use std::borrow::Cow;
use std::io::{self, Write};
use std::num::NonZeroU64;
use std::path::Path;

use serde::Serialize;

use super::files::FileJson;
use super::run_summary::RunSummary;
use crate::base::stderr::say;
use crate::observe::json::{VERSION, indented, one_line};
use crate::observe::run_counts::RunCounts;
use crate::raw_json::escape_unsafe;
use crate::selection::{Sample, Selection};
use crate::telemetry::event::CancelReason;

#[derive(Debug, Serialize)]
struct SummaryJson<'a> {
    r#type: &'static str,
    version: u8,
    exit_code: u8,
    failures_accepted: bool,
    stopped: Option<&'static str>,
    part: Option<PartJson>,
    sandbox: bool,
    endpoint: &'a str,
    #[serde(flatten)]
    counts: RunCounts,
    pace: PaceJson<'a>,
    output: Option<Cow<'a, str>>,
    rejects: Option<Cow<'a, str>>,
    changes: Option<Cow<'a, str>>,
    ledger: Option<LedgerJson<'a>>,
    files: Option<Vec<FileJson<'a>>>,
}

/// The part of its input that the run took.
#[derive(Debug, Serialize)]
struct PartJson {
    limit: Option<NonZeroU64>,
    sample_percent: Option<f64>,
}

/// The rate over time. It may be long, so it is only in the summary.
#[derive(Debug, Serialize)]
struct PaceJson<'a> {
    slot_seconds: u64,
    calls: &'a [u64],
}

/// The ledger that stays.
#[derive(Debug, Serialize)]
struct LedgerJson<'a> {
    path: Cow<'a, str>,
    answers: Option<u64>,
}

impl<'a> SummaryJson<'a> {
    fn new(run: &'a RunSummary<'_>) -> Self {
        let stats = run.stats;
        let path = |path: &'a Path| path.to_string_lossy();
        Self {
            r#type: "summary",
            version: VERSION,
            exit_code: run.accepted.exit(stats).code(),
            failures_accepted: run.accepted.applied(stats).is_some(),
            stopped: stats.cancelled.map(CancelReason::word),
            part: run.part.map(PartJson::new),
            sandbox: run.sandbox,
            endpoint: run.endpoint,
            counts: RunCounts::of(stats, run.elapsed, run.tariff),
            pace: PaceJson {
                slot_seconds: stats.timeline.slot().as_secs(),
                calls: stats.timeline.calls(),
            },
            output: run.output.as_deref().map(path),
            rejects: run.rejects.as_deref().map(path),
            changes: run.changes.as_deref().map(path),
            ledger: run.ledger.as_ref().map(|ledger| LedgerJson {
                path: ledger.path.to_string_lossy(),
                answers: ledger.answers,
            }),
            files: { run.files }.map(|files| files.iter().map(FileJson::new).collect()),
        }
    }
}

impl PartJson {
    fn new(part: Selection) -> Self {
        Self {
            limit: part.limit,
            sample_percent: part.sample.map(Sample::percent),
        }
    }
}

impl RunSummary<'_> {
    /// The object for programs, on one line.
    #[must_use]
    pub(crate) fn json_line(&self) -> String {
        escape_unsafe(&one_line(&SummaryJson::new(self)))
    }

    /// Says the object for programs.
    pub(crate) fn say_line(&self) {
        say(&self.json_line());
    }

    /// Writes the object for programs, indented.
    ///
    /// # Errors
    /// Those of the writer.
    pub(crate) fn write_json(&self, mut to: impl Write) -> io::Result<()> {
        to.write_all(indented(&SummaryJson::new(self)).as_bytes())?;
        to.flush()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use insta::assert_snapshot;
    use serde_json::Value;

    use super::super::example;
    use super::*;
    use crate::observe::documented::table_with;
    use crate::telemetry::stats::Stats;

    fn value(run: &RunSummary<'_>) -> Value {
        let line: Value = serde_json::from_str(&run.json_line()).unwrap();
        let mut written = Vec::new();
        run.write_json(&mut written).unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&written).unwrap(), line);
        line
    }

    #[test]
    fn a_summary_with_everything_has_these_keys_in_this_order() {
        let stats = example::stats();
        let summary = example::everything(&stats).json_line();
        assert_snapshot!(summary, @r#"{"type":"summary","version":2,"exit_code":3,"failures_accepted":false,"stopped":"max_calls","part":{"limit":9,"sample_percent":0.5},"sandbox":false,"endpoint":"https://api.example.com/v1/validate/user","elapsed_seconds":100.0,"rows_per_second":0.05,"rows":{"read":9,"resolved":5,"written":5,"left":4},"known":2,"duplicates":1,"decisions":{"approve":1,"review":1,"block":1},"undecided":{"rows":1,"levels":[{"level":"3","rows":1}]},"drift":{"compared":1,"changed":1,"approve":{"approve":0,"review":0,"block":1},"review":{"approve":0,"review":0,"block":0},"block":{"approve":0,"review":0,"block":0}},"failed":{"rows":1,"reasons":{"refused":1}},"calls":{"sent":5,"answered":1,"retries":2,"throttled":1,"maybe_billed_twice":1,"unknown_outcome":2,"settled_by_uuid":0,"billed_without_verdict":1,"lost":1,"repeated_transaction_ids":1},"cost":{"price":0.004,"currency":"EUR","spent":0.008,"spent_at_most":0.016,"saved":0.012},"ledger_answers_damaged":1,"ledger_answers_from_the_future":1,"keys_renewed":1,"paused_seconds":2.5,"outages":1,"down_seconds":30.0,"waited_in_vain_seconds":60.0,"limit":{"calls_per_second":50.0,"in_flight":16},"headers":{"calls_per_second":48.0,"disbelieved":false},"latency_ms":{"p50":80.383,"p95":80.383,"p99":80.383},"pace":{"slot_seconds":1,"calls":[5]},"output":"scored.csv.partial","rejects":"scored.rejects.csv.partial","changes":"changes.csv.partial","ledger":{"path":"scored.csv.ledger","answers":3},"files":[{"input":"parts/a.csv","output":"scored/a.csv","rejects":"scored/a.rejects.csv","state":"finished","rows":4,"decisions":{"approve":1,"review":1,"block":0},"undecided":1,"failed":1,"error":"broken"}]}"#);
    }

    #[test]
    fn what_is_not_known_is_null_and_not_absent() {
        let (everything, nothing) = (example::stats(), Stats::default());
        let everything = value(&example::everything(&everything));
        let nothing = value(&example::nothing(&nothing));
        for (key, value) in everything.as_object().unwrap() {
            assert_ne!(*value, Value::Null, "{key}");
            assert!(nothing.get(key).is_some(), "{key}");
        }
        for key in [
            "stopped",
            "part",
            "rows_per_second",
            "drift",
            "cost",
            "output",
            "rejects",
            "changes",
            "ledger",
            "files",
        ] {
            assert_eq!(nothing[key], Value::Null, "{key}");
        }
        let unknown = serde_json::json!({"calls_per_second": null, "in_flight": null});
        assert_eq!(nothing["limit"], unknown);
        let unknown = serde_json::json!({"p50": null, "p95": null, "p99": null});
        assert_eq!(nothing["latency_ms"], unknown);
    }

    #[test]
    fn every_key_is_in_the_reference_and_every_key_of_the_reference_exists() {
        let stats = example::stats();
        let summary = value(&example::everything(&stats));
        let own = table_with("endpoint");
        let mut documented = table_with("ledger_answers_damaged");
        documented.keys.extend(own.keys);
        let mut keys: Vec<_> = summary.as_object().unwrap().keys().cloned().collect();
        // The reference groups them by theme.
        documented.keys.sort();
        keys.sort();
        assert_eq!(documented.keys, keys);
        // Reasons are words with a table of their own.
        let nested = summary.as_object().unwrap().values();
        let nested = nested.filter_map(Value::as_object).flatten();
        for (key, _) in nested {
            assert!(documented.text.contains(&format!("`{key}`")), "{key}");
        }
    }

    #[test]
    fn a_path_cannot_steer_the_terminal() {
        let stats = Stats::default();
        let mut run = example::nothing(&stats);
        run.output = Some("a\u{202e}b".into());
        assert!(run.json_line().contains(r#""output":"a\u202eb""#));
        assert_eq!(value(&run)["output"], "a\u{202e}b");
    }
}
