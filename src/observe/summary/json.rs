//! The summary for programs.
//!
//! The reference documents every key; keys are added, but never change. What is not known is null, never absent.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::num::NonZeroU64;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use super::decisions_json::{DecisionsJson, DriftJson, UndecidedJson};
use super::files::FileJson;
use super::run_summary::RunSummary;
use crate::base::money::{Currency, Price, Tariff};
use crate::observe::cost::Cost;
use crate::observe::json::{indented, one_line, rounded};
use crate::raw_json::escape_unsafe;
use crate::selection::{Sample, Selection};
use crate::telemetry::event::CancelReason;
use crate::telemetry::pace::{Hint, Pace};
use crate::telemetry::stats::Stats;
use crate::verdict::Reason;

#[derive(Debug, Serialize)]
struct SummaryJson<'a> {
    r#type: &'static str,
    version: u8,
    exit_code: u8,
    stopped: Option<&'static str>,
    part: Option<PartJson>,
    sandbox: bool,
    endpoint: &'a str,
    elapsed_seconds: f64,
    rows_per_second: Option<f64>,
    rows: RowsJson,
    known: u64,
    duplicates: u64,
    decisions: DecisionsJson,
    undecided: UndecidedJson<'a>,
    drift: Option<DriftJson>,
    failed: FailedJson<'a>,
    calls: CallsJson,
    cost: Option<CostJson<'a>>,
    ledger_answers_damaged: u64,
    ledger_answers_from_the_future: u64,
    keys_renewed: u64,
    paused_seconds: f64,
    outages: u64,
    down_seconds: f64,
    waited_in_vain_seconds: f64,
    limit: LimitJson,
    headers: HeadersJson,
    pace: PaceJson<'a>,
    latency_ms: LatencyJson,
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

#[derive(Debug, Serialize)]
struct RowsJson {
    read: u64,
    resolved: u64,
    written: u64,
    left: u64,
}

#[derive(Debug, Serialize)]
struct FailedJson<'a> {
    rows: u64,
    reasons: &'a BTreeMap<Reason, u64>,
}

#[derive(Debug, Serialize)]
struct CallsJson {
    sent: u64,
    answered: u64,
    retries: u64,
    throttled: u64,
    maybe_billed_twice: u64,
    unknown_outcome: u64,
    billed_without_verdict: u64,
    lost: u64,
    repeated_transaction_ids: u64,
}

/// What the run has spent and saved, by this price.
#[derive(Debug, Serialize)]
struct CostJson<'a> {
    price: Price,
    currency: Option<&'a Currency>,
    #[serde(flatten)]
    cost: Cost,
}

#[derive(Debug, Serialize)]
struct LimitJson {
    calls_per_second: Option<f64>,
    in_flight: Option<usize>,
}

#[derive(Debug, Serialize)]
struct HeadersJson {
    calls_per_second: Option<f64>,
    disbelieved: bool,
}

#[derive(Debug, Serialize)]
struct PaceJson<'a> {
    slot_seconds: u64,
    calls: &'a [u64],
}

#[derive(Debug, Serialize)]
struct LatencyJson {
    p50: Option<f64>,
    p95: Option<f64>,
    p99: Option<f64>,
}

#[derive(Debug, Serialize)]
struct LedgerJson<'a> {
    path: Cow<'a, str>,
    answers: Option<u64>,
}

impl<'a> SummaryJson<'a> {
    fn new(run: &'a RunSummary<'_>) -> Self {
        let stats = run.stats;
        let pace = stats.pace.as_ref();
        let seconds = |time: Duration| rounded(time.as_secs_f64());
        let path = |path: &'a Path| path.to_string_lossy();
        Self {
            r#type: "summary",
            version: 1,
            exit_code: stats.exit().code(),
            stopped: stats.cancelled.map(CancelReason::word),
            part: run.part.map(PartJson::new),
            sandbox: run.sandbox,
            endpoint: run.endpoint,
            elapsed_seconds: seconds(run.elapsed),
            rows_per_second: run.rows_per_second().map(rounded),
            rows: RowsJson::new(stats),
            known: stats.known,
            duplicates: stats.duplicates,
            decisions: [stats.approved, stats.reviewed, stats.blocked].into(),
            undecided: UndecidedJson::new(&stats.unknown_levels),
            drift: DriftJson::new(&stats.drift),
            failed: FailedJson {
                rows: stats.failures(),
                reasons: &stats.failed,
            },
            calls: CallsJson::new(stats),
            cost: run.tariff.map(|tariff| CostJson::new(stats, tariff)),
            ledger_answers_damaged: stats.damaged_answers,
            ledger_answers_from_the_future: stats.future_answers,
            keys_renewed: stats.keys_renewed,
            paused_seconds: seconds(stats.time_paused(run.elapsed)),
            outages: stats.outages,
            down_seconds: seconds(stats.time_down(run.elapsed)),
            waited_in_vain_seconds: seconds(stats.dismissed_outages),
            limit: LimitJson {
                calls_per_second: pace.and_then(|pace| pace.limit).map(rounded),
                in_flight: pace.and_then(|pace| pace.limit_in_flight),
            },
            headers: HeadersJson {
                calls_per_second: pace.and_then(Pace::asked_for).map(rounded),
                disbelieved: pace.is_some_and(|pace| pace.headers == Hint::Disbelieved),
            },
            pace: PaceJson {
                slot_seconds: stats.timeline.slot().as_secs(),
                calls: stats.timeline.calls(),
            },
            latency_ms: LatencyJson::new(stats),
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

impl RowsJson {
    fn new(stats: &Stats) -> Self {
        Self {
            read: stats.read,
            resolved: stats.resolved(),
            written: stats.written,
            left: stats.read - stats.resolved(),
        }
    }
}

impl CallsJson {
    const fn new(stats: &Stats) -> Self {
        Self {
            sent: stats.calls,
            answered: stats.answered,
            retries: stats.retries,
            throttled: stats.throttled,
            maybe_billed_twice: stats.maybe_billed_twice,
            unknown_outcome: stats.unknown_outcome,
            billed_without_verdict: stats.billed_without_verdict,
            lost: stats.lost,
            repeated_transaction_ids: stats.repeated_transactions,
        }
    }
}

impl<'a> CostJson<'a> {
    fn new(stats: &Stats, tariff: &'a Tariff) -> Self {
        Self {
            price: tariff.price,
            currency: tariff.currency.as_ref(),
            cost: Cost::of(stats, tariff),
        }
    }
}

impl LatencyJson {
    fn new(stats: &Stats) -> Self {
        let milliseconds = |share| {
            let latency = stats.latency(share)?;
            Some(rounded(latency.as_secs_f64() * 1000.0))
        };
        Self {
            p50: milliseconds(0.5),
            p95: milliseconds(0.95),
            p99: milliseconds(0.99),
        }
    }
}

impl RunSummary<'_> {
    /// The object for programs, on one line.
    #[must_use]
    pub(crate) fn json_line(&self) -> String {
        escape_unsafe(&one_line(&SummaryJson::new(self)))
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
    use serde_json::Value;

    use super::super::example;
    use super::*;
    use crate::observe::documented::table_with;

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
        assert_eq!(
            summary,
            concat!(
                r#"{"type":"summary","version":1,"exit_code":3,"stopped":"max_calls","part":{"limit":9,"sample_percent":0.5},"sandbox":false,"#,
                r#""endpoint":"https://api.example.com/v1/validate/user","elapsed_seconds":100.0,"rows_per_second":0.05,"#,
                r#""rows":{"read":9,"resolved":5,"written":5,"left":4},"known":2,"duplicates":1,"#,
                r#""decisions":{"approve":1,"review":1,"block":1},"#,
                r#""undecided":{"rows":1,"levels":[{"level":"3","rows":1}]},"#,
                r#""drift":{"compared":1,"changed":1,"approve":{"approve":0,"review":0,"block":1},"#,
                r#""review":{"approve":0,"review":0,"block":0},"block":{"approve":0,"review":0,"block":0}},"#,
                r#""failed":{"rows":1,"reasons":{"refused":1}},"#,
                r#""calls":{"sent":5,"answered":1,"retries":2,"throttled":1,"maybe_billed_twice":1,"unknown_outcome":2,"#,
                r#""billed_without_verdict":1,"lost":1,"repeated_transaction_ids":1},"#,
                r#""cost":{"price":0.004,"currency":"EUR","spent":0.008,"spent_at_most":0.016,"saved":0.012},"#,
                r#""ledger_answers_damaged":1,"ledger_answers_from_the_future":1,"keys_renewed":1,"#,
                r#""paused_seconds":2.5,"outages":1,"down_seconds":30.0,"waited_in_vain_seconds":60.0,"#,
                r#""limit":{"calls_per_second":50.0,"in_flight":16},"headers":{"calls_per_second":48.0,"disbelieved":false},"#,
                r#""pace":{"slot_seconds":1,"calls":[5]},"latency_ms":{"p50":80.383,"p95":80.383,"p99":80.383},"#,
                r#""output":"scored.csv.partial","rejects":"scored.rejects.csv.partial","#,
                r#""changes":"changes.csv.partial","ledger":{"path":"scored.csv.ledger","answers":3},"#,
                r#""files":[{"input":"parts/a.csv","output":"scored/a.csv","rejects":"scored/a.rejects.csv","state":"finished","#,
                r#""rows":4,"decisions":{"approve":1,"review":1,"block":0},"undecided":1,"failed":1,"error":"broken"}]}"#
            )
        );
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
        let mut documented = table_with("ledger_answers_damaged");
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
