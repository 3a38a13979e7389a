//! The lines of the summary about calls: how many, what they may have cost, and how the service coped with them.

use std::fmt::Write as _;
use std::time::Duration;

use super::run_summary::RunSummary;
use crate::observe::cost;
use crate::observe::numbers::{count, counted, time, times};
use crate::observe::words;
use crate::telemetry::pace::{Hint, Pace};
use crate::telemetry::stats::Stats;

/// Everything about calls, the most important first.
pub(super) fn call_lines(run: &RunSummary<'_>) -> Vec<String> {
    let stats = run.stats;
    let mut lines = Vec::new();
    lines.extend((stats.calls + stats.calls_before > 0).then(|| calls(run)));
    let cost = run
        .tariff
        .map(|tariff| cost::in_all(stats, tariff, run.sandbox));
    lines.extend(cost.into_iter().flatten());
    lines.extend(throttled(run));
    lines.extend(stats.pace.map(limits).into_iter().flatten());
    lines.extend(outages(run));
    lines.extend(doubtful_bills(stats));
    lines.extend(rarities(stats));
    lines
}

fn calls(run: &RunSummary<'_>) -> String {
    let stats = run.stats;
    let mut words = counted(stats.calls, "call");
    if let Some(billed) = run.sandbox_billed.filter(|billed| *billed > 0) {
        let _ = write!(words, " ({} billed by the stand-in)", count(billed));
    }
    if stats.calls_before > 0 {
        let all = stats.calls_before + stats.calls;
        let _ = write!(words, ", {} in all starts of this run", count(all));
    }
    match stats.retries {
        0 => {}
        1 => words.push_str(", 1 of them a retry"),
        retries => {
            let _ = write!(words, ", {} of them retries", count(retries));
        }
    }
    let quantile = |share: f64| stats.latency(share).map(time).unwrap_or_default();
    if stats.answered > 0 {
        let _ = write!(
            words,
            "; latency p50 {}, p95 {}, p99 {}",
            quantile(0.5),
            quantile(0.95),
            quantile(0.99)
        );
    }
    words
}

/// How often the service asked for fewer calls, and what that cost.
fn throttled(run: &RunSummary<'_>) -> Option<String> {
    let stats = run.stats;
    let paused = Some(stats.time_paused(run.elapsed)).filter(|paused| !paused.is_zero());
    let paused = paused.map(|paused| format!("; paused for {} in total", time(paused)));
    let (calls, mut words) = if stats.throttled > 0 {
        let calls = counted(stats.throttled, "call");
        (stats.throttled, format!("the service throttled {calls}"))
    } else if stats.busy > 0 && paused.is_some() {
        let calls = counted(stats.busy, "call");
        (stats.busy, format!("the service answered {calls} with 503"))
    } else {
        return None;
    };
    if let Some(share) = words::share_of(calls, stats.calls) {
        let _ = write!(words, " ({share} of all)");
    }
    words.push_str(&paused.unwrap_or_default());
    Some(words)
}

/// The limits that were found, and what the service's headers asked for.
fn limits(pace: Pace) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(pace.limit.map(words::limit));
    lines.extend(pace.asked_for().map(words::asked_for));
    if pace.headers == Hint::Disbelieved {
        lines.push(words::HEADERS_DISBELIEVED.to_owned());
    }
    lines.extend(pace.limit_in_flight.map(words::limit_in_flight));
    lines.extend(
        pace.refused_at_any
            .map(|_| words::REFUSED_AT_ANY.to_owned()),
    );
    lines
}

fn outages(run: &RunSummary<'_>) -> Vec<String> {
    let stats = run.stats;
    let mut lines = Vec::new();
    if stats.outages > 0 {
        lines.push(format!(
            "the service was down {}, for {} in total",
            times(stats.outages),
            time(stats.time_down(run.elapsed))
        ));
    }
    if stats.dismissed_outages > Duration::ZERO {
        lines.push(format!(
            "waited {} for the service, which failed on each of the last rows",
            time(stats.dismissed_outages)
        ));
    }
    lines
}

/// Calls that may have cost more than they brought.
fn doubtful_bills(stats: &Stats) -> Vec<String> {
    let mut lines = Vec::new();
    let taken_over = stats.taken_over;
    if taken_over > 0 {
        lines.push(format!(
            "{} may have been billed twice: another run may have made the same call, and got no verdict",
            counted(taken_over, "row")
        ));
    }
    let killed = stats.asked_by_killed_run();
    if killed > 0 {
        lines.push(format!(
            "up to {} may have been billed twice: an earlier start of this run ended without {}",
            counted(killed, "row"),
            if killed == 1 {
                "its answer"
            } else {
                "their answers"
            }
        ));
    }
    if stats.resent > 0 {
        lines.push(format!(
            "{} may have been billed twice: sent again because no answer came",
            counted(stats.resent, "row")
        ));
    }
    let unanswered = stats.unknown_outcome - stats.resent;
    if unanswered > 0 {
        lines.push(format!(
            "{} may have been billed without an answer",
            counted(unanswered, "call")
        ));
    }
    if stats.billed_without_verdict > 0 {
        lines.push(format!(
            "{} got an answer without a verdict and will probably be billed",
            counted(stats.billed_without_verdict, "call")
        ));
    }
    lines
}

/// What few runs meet.
fn rarities(stats: &Stats) -> Vec<String> {
    let mut lines = Vec::new();
    if stats.keys_renewed > 0 {
        lines.push(format!(
            "a new API key was read from its file {}",
            times(stats.keys_renewed)
        ));
    }
    if stats.repeated_transactions > 0 {
        lines.push(format!(
            "{} had the transaction id of a different user: {}",
            counted(stats.repeated_transactions, "answer"),
            words::MIXED_UP
        ));
    }
    lines
}
