//! How the run went: time, calls, cost, latency, and the rate over time.

use std::time::Duration;

use maud::{Markup, html};

use super::chart::BarChart;
use super::model::PageContent;
use super::run_facts::{CostFacts, PaceFacts, RunFacts};
use super::section::{Section, numbers};
use super::words::{NO_BREAK, count, score};
use crate::base::elapsed::time;
use crate::base::error::column;
use crate::base::money::Money;

pub(super) fn section(report: &PageContent) -> Option<Markup> {
    let run = report.run.as_ref()?;
    let place = Section {
        id: "run",
        title: "The run".to_owned(),
        sandbox: report.sandbox,
        is_wide: true,
    };
    Some(place.with(&html! {
        @if let Some(stopped) = &run.stopped {
            p.lead { "The run was stopped before its end (" (column(stopped)) ")." }
        }
        div.columns {
            dl.facts {
                @for (name, value) in facts(run) {
                    div { dt { (name) } dd { (value) } }
                }
            }
            // A single period does not make a picture.
            @if run.pace.calls.len() > 1 { div { (rate(run)) } }
        }
    }))
}

/// What is known of the run, the most important first.
fn facts(run: &RunFacts) -> Vec<(&'static str, String)> {
    let calls = &run.calls;
    let mut facts = vec![
        ("Time", seconds(run.elapsed_seconds)),
        ("Calls", count(calls.sent)),
    ];
    if let Some(cost) = &run.cost {
        facts.push(("Spent", money(cost, cost.spent.get())));
        let most = cost.spent_at_most.as_ref().map(|most| most.get());
        let most = most.filter(|most| *most != cost.spent.get());
        facts.extend(most.map(|most| ("Spent at most", money(cost, most))));
        facts.push(("Saved", money(cost, cost.saved.get())));
    }
    facts.push(("Answered with a verdict", count(calls.answered)));
    facts.push(("Retries", count(calls.retries)));
    let some = [
        ("Throttled by the service", calls.throttled),
        ("Paid for by an earlier run", run.known),
        ("Same as another row", run.duplicates),
        ("Perhaps billed twice", calls.maybe_billed_twice),
        ("Billed without a verdict", calls.billed_without_verdict),
    ];
    let some = some.into_iter().filter(|(_, number)| *number > 0);
    facts.extend(some.map(|(name, number)| (name, count(number))));
    let latency = &run.latency_ms;
    for (name, value) in [
        ("Latency, median", latency.p50),
        ("Latency, 95th percentile", latency.p95),
        ("Latency, 99th percentile", latency.p99),
    ] {
        facts.extend(value.map(|milliseconds| (name, seconds(milliseconds / 1e3))));
    }
    let per_second = |rate: f64| format!("{}/s", decimals(rate));
    facts.extend({ run.rows_per_second }.map(|rate| ("Rows per second", decimals(rate))));
    let limit = &run.limit;
    facts.extend({ limit.calls_per_second }.map(|rate| ("Limit found", per_second(rate))));
    facts.extend({ limit.in_flight }.map(|calls| ("Limit of calls in flight", count(calls))));
    if run.paused_seconds > 0.0 {
        facts.push(("Paused", seconds(run.paused_seconds)));
    }
    if run.outages > 0 {
        let times = if run.outages == 1 { "once" } else { "in all" };
        facts.push((
            "Service down",
            format!("{} {times}", seconds(run.down_seconds)),
        ));
    }
    facts
}

/// An amount with its currency, as the summary shows it to people. A longer one keeps the digits of the JSON.
fn money(cost: &CostFacts, amount: &str) -> String {
    let amount = amount
        .parse::<Money>()
        .map_or_else(|_| column(amount), |amount| amount.to_string());
    match &cost.currency {
        Some(currency) => format!("{amount} {}", column(currency)),
        None => amount,
    }
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

fn rate(run: &RunFacts) -> Markup {
    let PaceFacts {
        slot_seconds,
        calls,
    } = &run.pace;
    let end = slot_seconds.saturating_mul(calls.len() as u64);
    let slot = seconds_of(*slot_seconds);
    let chart = BarChart {
        label: format!("Calls over time, in periods of {slot}; the numbers are in the table below"),
        range: (0.0, minutes_or_seconds(end, end).0),
        bars: calls
            .iter()
            .map(|calls| vec![(*calls, "approve")])
            .collect(),
        lines: Vec::new(),
        unit: "calls",
    };
    let (_, unit) = minutes_or_seconds(end, end);
    html! {
        h3 { "Calls over time" }
        p { "Calls in each period of " (slot) "; the axis shows " (unit) " since the start. The last period may be incomplete." }
        (chart.draw())
        (numbers("The numbers as a table", &html! {
            table.numbers {
                thead { tr { th scope="col" { "From second" } th scope="col" { "Calls" } th scope="col" { "Per second" } } }
                tbody {
                    @for (slot, calls) in (0_u64..).zip(calls) {
                        tr {
                            th scope="row" { (count(slot * slot_seconds)) }
                            td { (count(*calls)) }
                            td { (decimals(per_second(*calls, *slot_seconds))) }
                        }
                    }
                }
            }
        }))
    }
}

/// A whole number of seconds, without decimals.
fn seconds_of(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}{NO_BREAK}s"),
        seconds => time(Duration::from_secs(seconds)),
    }
}

#[allow(clippy::cast_precision_loss, reason = "shown with three digits")]
fn per_second(calls: u64, seconds: u64) -> f64 {
    calls as f64 / seconds.max(1) as f64
}

/// A time in the unit that suits the whole.
#[allow(clippy::cast_precision_loss, reason = "shown on an axis")]
const fn minutes_or_seconds(seconds: u64, whole: u64) -> (f64, &'static str) {
    match whole {
        0..=300 => (seconds as f64, "seconds"),
        301..=18_000 => (seconds as f64 / 60.0, "minutes"),
        _ => (seconds as f64 / 3_600.0, "hours"),
    }
}
