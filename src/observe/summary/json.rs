//! The summary for programs.
//!
//! The reference documents every key; keys are added, but change only with the version. What is not known is null, never
//! absent.

use std::borrow::Cow;
use std::io::{self, Write};
use std::num::NonZeroU64;

use serde::Serialize;

use super::files::FileEndJson;
use super::named_file::FileJson;
use super::run_summary::RunSummary;
use crate::base::error::Exit;
use crate::base::stderr::say;
use crate::observe::json::{indented, one_line};
use crate::observe::numbers::utc_seconds;
use crate::observe::run_counts::RunCounts;
use crate::observe::run_identity::{DecisionRule, RunHead};
use crate::raw_json::escape_unsafe;
use crate::selection::{Sample, Selection};
use crate::telemetry::event::CancelReason;

#[derive(Debug, Serialize)]
pub(super) struct SummaryJson<'a> {
    r#type: &'static str,
    #[serde(flatten)]
    head: RunHead<'a>,
    rescore_version: &'static str,
    profile: Option<&'a str>,
    end_time: String,
    exit_code: u8,
    failures_accepted: bool,
    error: Option<ErrorJson<'a>>,
    endpoint: Option<&'a str>,
    input: FileJson<'a>,
    part: Option<PartJson>,
    #[serde(flatten)]
    rule: &'a DecisionRule,
    #[serde(flatten)]
    counts: RunCounts,
    pace: PaceJson<'a>,
    output: Option<FileJson<'a>>,
    rejects: Option<FileJson<'a>>,
    changes: Option<FileJson<'a>>,
    ledger: Option<LedgerJson<'a>>,
    files: Option<Vec<FileEndJson<'a>>>,
}

/// What ended the run early. Details and hints are left out: they may quote the input.
#[derive(Debug, Serialize)]
struct ErrorJson<'a> {
    message: &'a str,
    causes: Vec<String>,
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
}

impl<'a> SummaryJson<'a> {
    pub(super) fn new(run: &'a RunSummary<'_>) -> Self {
        let (stats, identity) = (run.stats, run.identity);
        let stopped = stats.cancelled.map(CancelReason::word);
        Self {
            r#type: "summary",
            head: identity.head(stopped, run.sandbox),
            rescore_version: env!("CARGO_PKG_VERSION"),
            profile: identity.profile.as_deref(),
            end_time: utc_seconds(run.end),
            exit_code: run.accepted.exit(stats).code(),
            failures_accepted: run.accepted.applied(stats).is_some(),
            error: run.error.map(|error| ErrorJson {
                message: error.message(),
                causes: error.causes(),
            }),
            endpoint: run.endpoint,
            input: FileJson::read(&run.input),
            part: run.part.map(PartJson::new),
            rule: &identity.rule,
            counts: RunCounts::of(stats, run.elapsed, run.tariff),
            pace: PaceJson {
                slot_seconds: stats.timeline.slot().as_secs(),
                calls: stats.timeline.calls(),
            },
            output: run.output.as_ref().map(FileJson::written),
            rejects: run.rejects.as_ref().map(FileJson::written),
            changes: run.changes.as_ref().map(FileJson::written),
            ledger: run.ledger.kept().map(|ledger| LedgerJson {
                path: ledger.path.to_string_lossy(),
            }),
            files: { run.files }.map(|files| files.iter().map(FileEndJson::new).collect()),
        }
    }

    /// The same for a run that ended without statistics that would say how.
    pub(super) fn ended(mut self, exit: Exit, stopped: &'static str) -> Self {
        self.exit_code = exit.code();
        self.head.stopped = Some(stopped);
        self
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
        assert_snapshot!(summary.replace(env!("CARGO_PKG_VERSION"), "0.1.0"), @r#"{"type":"summary","version":2,"job":"scored.csv","start_time":"2026-11-22T02:00:00Z","stopped":"max_calls","sandbox":false,"rescore_version":"0.1.0","profile":"nightly","end_time":"2026-11-22T02:01:40Z","exit_code":5,"failures_accepted":false,"error":{"message":"`--max-calls` is reached","causes":["a cause"]},"endpoint":"https://api.example.com/v1/validate/user","input":{"path":"users.csv","bytes":1024},"part":{"limit":9,"sample_percent":0.5},"thresholds":{"approve_max":"2","review_max":"5"},"levels":null,"elapsed_seconds":100.0,"rows_per_second":0.05,"rows":{"read":9,"resolved":5,"written":5,"left":4},"known":2,"duplicates":1,"dropped":1,"decisions":{"approve":1,"review":1,"block":1},"undecided":{"rows":1,"first":[1]},"drift":{"compared":1,"changed":1,"approve":{"approve":0,"review":0,"block":1},"review":{"approve":0,"review":0,"block":0},"block":{"approve":0,"review":0,"block":0}},"failed":{"rows":1,"reasons":{"refused":1}},"calls":{"sent":5,"sent_before":0,"answered":1,"retries":2,"throttled":1,"maybe_billed_twice":1,"unknown_outcome":2,"billed_without_verdict":1,"lost":1,"repeated_transaction_ids":1},"cost":{"price":0.004,"currency":"EUR","spent":0.008,"spent_at_most":0.016,"paid_earlier":0.008,"saved":0.004},"ledger_answers_damaged":1,"ledger_answers_too_old":1,"ledger_answers_aged":1,"ledger_failures_retried":1,"keys_renewed":1,"paused_seconds":2.5,"outages":1,"down_seconds":30.0,"waited_in_vain_seconds":60.0,"limit":{"calls_per_second":50.0,"in_flight":16},"headers":{"calls_per_second":48.0,"disbelieved":false},"latency_ms":{"p50":80.383,"p95":80.383,"p99":80.383},"pace":{"slot_seconds":1,"calls":[5]},"output":{"path":"scored.csv.partial","bytes":512},"rejects":{"path":"scored.rejects.csv.partial","bytes":512},"changes":{"path":"changes.csv.partial","bytes":512},"ledger":{"path":"rescore.ledger"},"files":[{"input":"parts/a.csv","output":"scored/a.csv","rejects":"scored/a.rejects.csv","state":"finished","rows":{"resolved":4},"decisions":{"approve":1,"review":1,"block":0},"undecided":{"rows":1},"failed":{"rows":1},"error":"broken"}]}"#);
    }

    #[test]
    fn what_is_not_known_is_null_and_not_absent() {
        let (everything, nothing) = (example::stats(), Stats::default());
        let everything = value(&example::everything(&everything));
        let nothing = value(&example::nothing(&nothing));
        for (key, value) in everything.as_object().unwrap() {
            // Scores decide, not levels.
            assert_eq!(value.is_null(), key == "levels", "{key}");
            assert!(nothing.get(key).is_some(), "{key}");
        }
        for key in [
            "stopped",
            "profile",
            "error",
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
        let own = table_with("rescore_version");
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
        run.output = Some(example::written("a\u{202e}b"));
        assert!(run.json_line().contains(r#""path":"a\u202eb""#));
        assert_eq!(value(&run)["output"]["path"], "a\u{202e}b");
    }
}
