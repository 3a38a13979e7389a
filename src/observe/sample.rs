//! What the shares of a sample mean for all rows: in words, and for programs. How sure a share is, `analysis` knows.

use serde_json::{Value, json};

use super::numbers::{count, counted};
use crate::analysis::{DecisionCounts, SampleSize, rounded};
use crate::base::money::Tariff;
use crate::base::numbers::{percent, rounded as thousandths};
use crate::selection::{Precision, Selection};
use crate::telemetry::counts::Counts;
use crate::verdict::Decision;

/// The size of the sample that a run took. The first rows of a file, or of a sample, stand for nothing but themselves.
/// `requests` are its different ones, as the first pass has counted them.
pub(crate) fn sample_size(
    part: Option<Selection>,
    requests: Option<u64>,
    counts: &Counts,
) -> Option<SampleSize> {
    let part = part?;
    let (percent, rows) = (part.share()?, counts.scored());
    let requests = requests?.min(rows);
    (requests > 0).then_some(SampleSize {
        percent,
        rows,
        requests,
        grows: part.precision.is_some(),
    })
}

/// Whether the shares of `review` and `block` in all rows are known this precisely.
pub(crate) fn is_known(size: &SampleSize, decisions: &DecisionCounts, to: Precision) -> bool {
    [Decision::Review, Decision::Block].iter().all(|decision| {
        let found = size.interval(decisions.of(Some(*decision)), decisions.decided());
        to.has(found.low, found.high)
    })
}

/// From where to where the share of a decision in all rows lies, in 95 of 100 samples: in percent, and how many rows that is.
fn range(
    size: &SampleSize,
    decisions: &DecisionCounts,
    decision: Decision,
) -> ([f64; 2], [u64; 2]) {
    let all = decisions.decided();
    let found = size.interval(decisions.of(Some(decision)), all);
    let ends = [found.low, found.high];
    let in_all = size.in_all(all) as f64;
    (
        ends.map(|end| thousandths(end * 100.0)),
        ends.map(|end| rounded(end * in_all)),
    )
}

/// The ranges of these decisions about rows of the sample, for programs.
pub(super) fn ranges(size: &SampleSize, decisions: &DecisionCounts) -> Value {
    let range = |decision: Decision| {
        let (percent, rows) = range(size, decisions, decision);
        (
            decision.word().to_owned(),
            json!({"percent": percent, "rows": rows}),
        )
    };
    Decision::ALL.into_iter().map(range).collect()
}

/// What a sample with these decisions says about all rows.
pub(crate) fn sample_lines(
    size: &SampleSize,
    decisions: &DecisionCounts,
    tariff: Option<&Tariff>,
) -> Vec<String> {
    let cost = tariff.map(|tariff| tariff.display_for(size.in_all(size.requests)));
    let cost = cost.map(|cost| format!(", which cost about {cost}"));
    let (rows, requests) = (counted(size.rows, "row"), counted(size.requests, "request"));
    let head = [
        format!(
            "a sample of {}% of the distinct requests: {rows} with a verdict, of {requests}",
            size.percent
        ),
        format!(
            "of all rows (about {}{}), with 95% confidence:",
            count(size.in_all(size.rows)),
            cost.unwrap_or_default(),
        ),
    ];
    let range = |decision: Decision| {
        let ([low, high], rows) = range(size, decisions, decision);
        let (word, [fewest, most]) = (decision.word(), rows.map(count));
        format!("  {word} {}: {fewest} to {most} rows", between(low, high))
    };
    head.into_iter().chain(Decision::ALL.map(range)).collect()
}

/// `71.7% to 77.1%`, of two numbers in percent.
pub(super) fn between(low: f64, high: f64) -> String {
    format!("{} to {}", percent(low), percent(high))
}
