//! What the shares of a sample mean for all rows: in words, and for programs. How sure a share is, `analysis` knows.

use std::collections::BTreeMap;

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

/// Fewer requests say too little of a rare share, whatever the interval.
const FEWEST_REQUESTS: u64 = 200;

/// Whether the shares of `review` and `block` in all rows are known this precisely.
pub(crate) fn is_known(size: &SampleSize, decisions: &DecisionCounts, to: Precision) -> bool {
    let is_known = |decision| {
        let found = size.interval(decisions.of(Some(decision)), decisions.decided());
        to.has(found.low, found.high)
    };
    size.requests >= FEWEST_REQUESTS && is_known(Decision::Review) && is_known(Decision::Block)
}

/// For each decision: from where to where its share in all rows lies, in 95 of 100 samples, in percent, and how many rows that
/// is.
fn ranges(
    size: &SampleSize,
    decisions: &DecisionCounts,
) -> [(&'static str, [f64; 2], [u64; 2]); 3] {
    let all = decisions.decided();
    Decision::ALL.map(|decision| {
        let found = size.interval(decisions.of(Some(decision)), all);
        let ends = [found.low, found.high];
        let rows = ends.map(|end| rounded(end * size.in_all(all) as f64));
        let percent = ends.map(|end| thousandths(end * 100.0));
        (decision.word(), percent, rows)
    })
}

/// The same as [`sample_lines`], for programs.
pub(super) fn sample_json(
    size: &SampleSize,
    decisions: &DecisionCounts,
    tariff: Option<&Tariff>,
) -> Value {
    let shares = ranges(size, decisions);
    let shares =
        shares.map(|(word, percent, rows)| (word, json!({"percent": percent, "rows": rows})));
    json!({
        "percent": size.percent,
        "rows": size.rows,
        "requests": size.requests,
        "rows_in_all": size.in_all(size.rows),
        "cost_in_all": tariff.map(|tariff| tariff.price.of(size.in_all(size.requests))),
        "shares": BTreeMap::from(shares),
    })
}

/// What a sample with these decisions says about all rows.
pub(crate) fn sample_lines(
    size: &SampleSize,
    decisions: &DecisionCounts,
    tariff: Option<&Tariff>,
) -> Vec<String> {
    let cost = tariff.map(|tariff| tariff.display_for(size.in_all(size.requests)));
    let cost = cost.map(|cost| format!(", which cost about {cost}"));
    let cost = cost.unwrap_or_default();
    let (share, all) = (size.percent, count(size.in_all(size.rows)));
    let (rows, requests) = (counted(size.rows, "row"), counted(size.requests, "request"));
    let mut lines = vec![
        format!(
            "a sample of {share}% of the distinct requests: {rows} with a verdict, of {requests}"
        ),
        format!("of all rows (about {all}{cost}), with 95% confidence:"),
    ];
    lines.extend(ranges(size, decisions).map(|(word, share, rows)| {
        let ([low, high], [fewest, most]) = (share.map(percent), rows.map(count));
        format!("  {word} {low} to {high}: {fewest} to {most} rows")
    }));
    lines
}
