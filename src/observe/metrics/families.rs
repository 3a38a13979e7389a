//! The metrics of one moment, by name, as Prometheus wants them: base units, counters that end in `_total`.
//!
//! It must not know where they are written.

use std::time::Duration;

use prometheus::proto::{
    Bucket, Counter, Gauge, Histogram, LabelPair, Metric, MetricFamily, MetricType,
};

use super::super::cost::Cost;
use crate::base::money::Tariff;
use crate::telemetry::stats::Stats;
use crate::verdict::Decision;

/// The upper bounds of the latency histogram, in seconds: from a service next door to the longest that anybody waits.
const LATENCY_BOUNDS: [f64; 12] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
];

/// A number with the labels that are its own.
type LabelledValue<'a> = (Vec<(&'a str, &'a str)>, f64);

/// Collects families that all have the same labels.
pub(super) struct Families {
    common: Vec<LabelPair>,
    families: Vec<MetricFamily>,
}

impl Families {
    /// No metrics yet; all will have these labels.
    pub(super) fn new(common: &[(&str, &str)]) -> Self {
        Self {
            common: common
                .iter()
                .map(|(name, value)| label(name, value))
                .collect(),
            families: Vec::new(),
        }
    }

    /// Everything that was collected, sorted by name as files of metrics are.
    pub(super) fn finish(mut self) -> Vec<MetricFamily> {
        self.families.sort_by(|a, b| a.name().cmp(b.name()));
        self.families
    }

    /// A number that only grows.
    pub(super) fn counter(&mut self, name: &str, help: &str, value: f64) {
        self.counters(name, help, [(Vec::new(), value)]);
    }

    /// A number that rises and falls.
    pub(super) fn gauge(&mut self, name: &str, help: &str, value: f64) {
        self.gauge_with(name, help, &[], value);
    }

    /// A number that rises and falls, with labels of its own.
    pub(super) fn gauge_with(&mut self, name: &str, help: &str, own: &[(&str, &str)], value: f64) {
        let mut gauge = Gauge::default();
        gauge.set_value(value);
        let mut metric = Metric::from_gauge(gauge);
        metric.set_label(self.labels(own));
        self.add(name, help, MetricType::GAUGE, vec![metric]);
    }

    /// Numbers that only grow, told apart by a label.
    fn counters<'a>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = LabelledValue<'a>>,
    ) {
        let metric = |(own, value): LabelledValue<'_>| {
            let mut counter = Counter::default();
            counter.set_value(value);
            let mut metric = Metric::from_label(self.labels(&own));
            metric.set_counter(counter);
            metric
        };
        let metrics = samples.into_iter().map(metric).collect();
        self.add(name, help, MetricType::COUNTER, metrics);
    }

    fn labels(&self, own: &[(&str, &str)]) -> Vec<LabelPair> {
        let own = own.iter().map(|(name, value)| label(name, value));
        self.common.iter().cloned().chain(own).collect()
    }

    fn add(&mut self, name: &str, help: &str, kind: MetricType, metrics: Vec<Metric>) {
        let mut family = MetricFamily::default();
        family.set_name(name.to_owned());
        family.set_help(help.to_owned());
        family.set_field_type(kind);
        family.set_metric(metrics);
        self.families.push(family);
    }
}

fn label(name: &str, value: &str) -> LabelPair {
    let mut pair = LabelPair::default();
    pair.set_name(name.to_owned());
    pair.set_value(value.to_owned());
    pair
}

/// Adds what was counted up to `now`.
#[allow(clippy::cast_precision_loss, reason = "Prometheus has doubles only")]
pub(super) fn add_counts(to: &mut Families, stats: &Stats, now: Duration) {
    let count = |number: u64| number as f64;
    to.counter(
        "rescore_rows_read_total",
        "Rows that were read from the input.",
        count(stats.read),
    );
    to.counter(
        "rescore_rows_written_total",
        "Rows that were written to the output.",
        count(stats.written),
    );
    let decided = [
        (Decision::Approve.word(), stats.approved),
        (Decision::Review.word(), stats.reviewed),
        (Decision::Block.word(), stats.blocked),
        ("undecided", stats.undecided),
    ];
    to.counters(
        "rescore_rows_scored_total",
        "Rows with a verdict, by decision.",
        decided.map(|(word, rows)| (vec![("decision", word)], count(rows))),
    );
    let failed: Vec<_> = { stats.failed.iter() }
        .map(|(reason, rows)| (reason.word(), *rows))
        .collect();
    to.counters(
        "rescore_rows_failed_total",
        "Rows without a verdict, by reason.",
        failed
            .iter()
            .map(|(word, rows)| (vec![("reason", *word)], count(*rows))),
    );
    let reused = [("ledger", stats.known), ("identical_row", stats.duplicates)];
    to.counters(
        "rescore_rows_reused_total",
        "Rows that reused an answer, by where it came from.",
        reused.map(|(word, rows)| (vec![("from", word)], count(rows))),
    );
    add_calls(to, stats);
    add_waits(to, stats, now);
}

#[allow(clippy::cast_precision_loss, reason = "Prometheus has doubles only")]
fn add_waits(to: &mut Families, stats: &Stats, now: Duration) {
    to.counter(
        "rescore_paused_seconds_total",
        "Time in pauses that the service asked for.",
        stats.time_paused(now).as_secs_f64(),
    );
    to.counter(
        "rescore_down_seconds_total",
        "Time in which the service was down.",
        stats.time_down(now).as_secs_f64(),
    );
    to.counter(
        "rescore_outages_total",
        "How often the service was down.",
        stats.outages as f64,
    );
}

#[allow(clippy::cast_precision_loss, reason = "Prometheus has doubles only")]
fn add_calls(to: &mut Families, stats: &Stats) {
    let count = |number: u64| number as f64;
    let told_apart = stats.answered
        + stats.throttled
        + stats.unknown_outcome
        + stats.unclear
        + stats.billed_without_verdict
        + stats.in_flight;
    let outcomes = [
        ("answered", stats.answered),
        ("throttled", stats.throttled),
        ("unknown", stats.unknown_outcome),
        ("server_error", stats.unclear),
        ("billed_without_verdict", stats.billed_without_verdict),
        ("not_billed", stats.calls.saturating_sub(told_apart)),
    ];
    to.counters(
        "rescore_calls_total",
        "Calls that have ended, by outcome.",
        outcomes.map(|(word, calls)| (vec![("outcome", word)], count(calls))),
    );
    to.counter(
        "rescore_retries_total",
        "Calls that retried a failed one.",
        count(stats.retries),
    );
    to.counter(
        "rescore_maybe_billed_twice_total",
        "Rows that may have been billed twice.",
        count(stats.maybe_billed_twice()),
    );
    to.counter(
        "rescore_answers_lost_total",
        "Paid answers that may not be on disk.",
        count(stats.lost),
    );
    to.gauge(
        "rescore_calls_in_flight",
        "Calls that are in flight.",
        count(stats.in_flight),
    );
    add_pace(to, stats);
    to.add_latencies(stats);
}

/// Adds the rate and the limit that was found, where they are known.
fn add_pace(to: &mut Families, stats: &Stats) {
    let Some(pace) = &stats.pace else { return };
    if let Some(rate) = pace.rate {
        to.gauge(
            "rescore_rate_calls_per_second",
            "The highest rate at which calls are made now.",
            rate,
        );
    }
    if let Some(limit) = pace.limit {
        to.gauge(
            "rescore_limit_calls_per_second",
            "The limit of the service that was found.",
            limit,
        );
    }
}

impl Families {
    /// How long answered calls took.
    fn add_latencies(&mut self, stats: &Stats) {
        let counted = stats.latencies_up_to(&LATENCY_BOUNDS.map(Duration::from_secs_f64));
        let buckets = { LATENCY_BOUNDS.iter().zip(&counted.up_to) }
            .map(|(bound, calls)| {
                let mut bucket = Bucket::default();
                bucket.set_upper_bound(*bound);
                bucket.set_cumulative_count(*calls);
                bucket
            })
            .collect();
        let mut histogram = Histogram::default();
        histogram.set_sample_count(counted.count);
        histogram.set_sample_sum(counted.sum.as_secs_f64());
        histogram.set_bucket(buckets);
        let mut metric = Metric::from_label(self.labels(&[]));
        metric.set_histogram(histogram);
        self.add(
            "rescore_call_latency_seconds",
            "How long calls took that brought a verdict.",
            MetricType::HISTOGRAM,
            vec![metric],
        );
    }
}

/// Adds what was spent and saved, by the price that the user gave.
pub(super) fn add_cost(to: &mut Families, stats: &Stats, tariff: &Tariff) {
    let cost = Cost::of(stats, tariff);
    let currency = tariff.currency.as_ref().map_or("", |word| word.as_str());
    for (name, help, amount) in [
        ("rescore_spent_total", "Money spent on calls.", cost.spent),
        (
            "rescore_spent_at_most_total",
            "Money spent on calls, with those that may have been billed.",
            cost.spent_at_most,
        ),
        (
            "rescore_saved_total",
            "Money saved by reused answers.",
            cost.saved,
        ),
    ] {
        to.counters(
            name,
            help,
            [(vec![("currency", currency)], amount.as_f64())],
        );
    }
}
