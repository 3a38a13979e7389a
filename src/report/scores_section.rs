//! The histogram of scores, with both thresholds.

use maud::{Markup, html};

use super::chart::{BarChart, STACK, legend, section, stack};
use super::model::PageContent;
use super::words::{count, has, rows, score};
use crate::analysis::{Bars, RowTally};
use crate::base::numbers::Decimal;

/// As many bars as can be told apart on a phone.
const MOST_BARS: i64 = 50;

pub(super) fn of(report: &PageContent) -> Option<Markup> {
    let tally = &report.tally;
    if tally.scored == 0 {
        return None;
    }
    let lines = thresholds(tally);
    // All thresholds are in the picture, with some room on the right of them.
    let least = lines.iter().map(|(at, _)| *at).fold(0.0, f64::min);
    let greatest = lines.iter().map(|(at, _)| at * 1.1).fold(1.0, f64::max);
    let bars = tally.scores.bars(MOST_BARS, least, greatest);
    let has_none = tally.undecided > 0;
    let words: Vec<_> = lines.iter().map(|(_, words)| words.as_str()).collect();
    let words = words.join(", ");
    let chart = BarChart {
        label: format!(
            "Histogram of {} scores, with lines at the thresholds ({}); the numbers are in the table below",
            count(tally.scored),
            words
        ),
        range: (bars.edge(0), bars.edge(bars.counts.len())),
        bars: { bars.counts.iter() }
            .map(|bar| {
                STACK
                    .map(|(decision, class)| (bar.of(decision), class))
                    .to_vec()
            })
            .collect(),
        lines,
    };
    Some(section(
        report.sandbox,
        "scores",
        "Scores",
        &html! {
            p { "How many rows have which score. A higher score is a higher risk; each bar spans " (score(bars.width)) "." }
            (legend(has_none))
            (chart.draw())
            @if tally.decided_otherwise > 0 {
                p.note {
                    (rows(tally.decided_otherwise)) " " (has(tally.decided_otherwise))
                    " another decision than the thresholds of this page give (" (words)
                    "): the file was decided with others, or by level."
                }
            }
            details { summary { "The numbers as a table" } div.scroll tabindex="0" { (table(&bars, has_none)) } }
        },
    ))
}

/// Today's thresholds, each with its words; none if decisions are made by level.
fn thresholds(tally: &RowTally) -> Vec<(f64, String)> {
    let Some(today) = &tally.thresholds else {
        return Vec::new();
    };
    let line = |word: &str, at: &Decimal| {
        let place = at.text().parse().unwrap_or(0.0);
        (place, format!("{word} up to {at}"))
    };
    vec![
        line("approve", today.approve_max()),
        line("review", today.review_max()),
    ]
}

fn table(bars: &Bars, has_none: bool) -> Markup {
    html! {
        table.numbers {
            thead {
                tr {
                    th scope="col" { "Score" } th scope="col" { "Rows" }
                    @for (_, class) in stack(has_none) { th scope="col" { (class) } }
                }
            }
            tbody {
                @for (place, counts) in bars.counts.iter().enumerate() {
                    @if counts.rows() > 0 {
                        tr {
                            th scope="row" { (score(bars.edge(place))) " to " (score(bars.edge(place + 1))) }
                            td { (count(counts.rows())) }
                            @for (decision, _) in stack(has_none) { td { (count(counts.of(decision))) } }
                        }
                    }
                }
            }
        }
    }
}
