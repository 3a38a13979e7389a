//! What was counted of a run up to a moment, for programs and for the views of progress.
//!
//! Progress lines and the summary have the same keys because both contain this. The reference documents every key. What is
//! not known is null, never absent.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::cost::Cost;
use super::decisions_json::{DecisionsJson, DriftJson, UndecidedJson};
use super::json::rounded;
use crate::base::money::{Currency, Price, Tariff};
use crate::telemetry::pace::{Hint, Pace};
use crate::telemetry::stats::Stats;
use crate::verdict::Reason;

/// What was counted up to a moment.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct RunCounts {
    elapsed_seconds: f64,
    rows_per_second: Option<f64>,
    pub(super) rows: RowsJson,
    known: u64,
    duplicates: u64,
    dropped: u64,
    pub(super) decisions: DecisionsJson,
    pub(super) undecided: UndecidedJson,
    drift: Option<DriftJson>,
    pub(super) failed: FailedJson,
    pub(super) calls: CallsJson,
    pub(super) cost: Option<CostJson>,
    ledger_answers_damaged: u64,
    ledger_answers_too_old: u64,
    ledger_answers_aged: u64,
    ledger_failures_retried: u64,
    keys_renewed: u64,
    paused_seconds: f64,
    outages: u64,
    down_seconds: f64,
    waited_in_vain_seconds: f64,
    limit: LimitJson,
    headers: HeadersJson,
    latency_ms: LatencyJson,
}

/// Rows by how far they are.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct RowsJson {
    read: u64,
    pub(super) resolved: u64,
    written: u64,
    left: u64,
}

/// Rows without a verdict.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct FailedJson {
    pub(super) rows: u64,
    reasons: BTreeMap<Reason, u64>,
}

/// Calls, by what became of them.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct CallsJson {
    pub(super) sent: u64,
    sent_before: u64,
    answered: u64,
    pub(super) retries: u64,
    pub(super) throttled: u64,
    maybe_billed_twice: u64,
    unknown_outcome: u64,
    billed_without_verdict: u64,
    lost: u64,
    repeated_transaction_ids: u64,
}

/// What the run has spent and saved, by this price.
#[derive(Debug, Clone, Serialize)]
pub(super) struct CostJson {
    price: Price,
    currency: Option<Currency>,
    #[serde(flatten)]
    pub(super) amounts: Cost,
}

/// The limit that was found.
#[derive(Debug, Clone, Default, Serialize)]
struct LimitJson {
    calls_per_second: Option<f64>,
    in_flight: Option<usize>,
}

/// What the service's headers ask for.
#[derive(Debug, Clone, Default, Serialize)]
struct HeadersJson {
    calls_per_second: Option<f64>,
    disbelieved: bool,
}

/// How long answers took.
#[derive(Debug, Clone, Default, Serialize)]
struct LatencyJson {
    p50: Option<f64>,
    p95: Option<f64>,
    p99: Option<f64>,
}

impl RunCounts {
    /// The counts of a run that has lasted this long. `tariff` is what calls cost, if the user says so.
    pub(super) fn of(stats: &Stats, elapsed: Duration, tariff: Option<&Tariff>) -> Self {
        let seconds = |time: Duration| rounded(time.as_secs_f64());
        let pace = stats.pace.as_ref();
        Self {
            elapsed_seconds: seconds(elapsed),
            rows_per_second: speed(stats, elapsed).map(rounded),
            rows: RowsJson::of(stats),
            known: stats.known,
            duplicates: stats.duplicates,
            dropped: stats.dropped,
            decisions: [stats.approved, stats.reviewed, stats.blocked].into(),
            undecided: UndecidedJson::new(stats.undecided, &stats.unknown_levels),
            drift: DriftJson::new(&stats.drift),
            failed: FailedJson {
                rows: stats.failures(),
                reasons: stats.failed.clone(),
            },
            calls: CallsJson::of(stats),
            cost: tariff.map(|tariff| CostJson::of(stats, tariff)),
            ledger_answers_damaged: stats.damaged_answers,
            ledger_answers_too_old: stats.too_old_answers,
            ledger_answers_aged: stats.aged_answers,
            ledger_failures_retried: stats.retried_failures,
            keys_renewed: stats.keys_renewed,
            paused_seconds: seconds(stats.time_paused(elapsed)),
            outages: stats.outages,
            down_seconds: seconds(stats.time_down(elapsed)),
            waited_in_vain_seconds: seconds(stats.dismissed_outages),
            limit: LimitJson {
                calls_per_second: pace.and_then(|pace| pace.limit).map(rounded),
                in_flight: pace.and_then(|pace| pace.limit_in_flight),
            },
            headers: HeadersJson {
                calls_per_second: pace.and_then(Pace::asked_for).map(rounded),
                disbelieved: pace.is_some_and(|pace| pace.headers == Hint::Disbelieved),
            },
            latency_ms: LatencyJson::of(stats),
        }
    }
}

/// The average speed in rows a second; `None` if no row is done.
pub(super) fn speed(stats: &Stats, elapsed: Duration) -> Option<f64> {
    let (rows, seconds) = (stats.resolved(), elapsed.as_secs_f64());
    #[allow(clippy::cast_precision_loss, reason = "shown with three digits")]
    (seconds > 0.0 && rows > 0).then(|| rows as f64 / seconds)
}

impl RowsJson {
    fn of(stats: &Stats) -> Self {
        Self {
            read: stats.read,
            resolved: stats.resolved(),
            written: stats.written,
            left: stats.read - stats.resolved(),
        }
    }
}

impl CallsJson {
    const fn of(stats: &Stats) -> Self {
        Self {
            sent: stats.calls,
            sent_before: stats.calls_before,
            answered: stats.answered,
            retries: stats.retries,
            throttled: stats.throttled,
            maybe_billed_twice: stats.maybe_billed_twice(),
            unknown_outcome: stats.unknown_outcome,
            billed_without_verdict: stats.billed_without_verdict,
            lost: stats.lost,
            repeated_transaction_ids: stats.repeated_transactions,
        }
    }
}

impl CostJson {
    fn of(stats: &Stats, tariff: &Tariff) -> Self {
        Self {
            price: tariff.price,
            currency: tariff.currency.clone(),
            amounts: Cost::of(stats, tariff),
        }
    }
}

impl LatencyJson {
    fn of(stats: &Stats) -> Self {
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
