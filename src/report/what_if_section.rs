//! What other thresholds would do, around those of today.

use maud::{Markup, html};

use super::chart::section;
use super::model::PageContent;
use super::words::{count, rows, share};
use crate::analysis::{ThresholdStep, WhatIf};

/// How many thresholds below and above today's the table has: five columns fit on a phone.
const AROUND: usize = 2;

pub(super) fn of(report: &PageContent) -> Option<Markup> {
    let what_if = report.tally.what_if.as_ref()?;
    let all = report.tally.rows();
    if what_if.scores() == 0 {
        return None;
    }
    Some(section(
        report.sandbox,
        "what-if",
        "What other thresholds would do",
        &html! {
            p {
                "Each cell is the share of rows that a person would have to review. On the left is what would be approved, on top "
                "what would be blocked. As at the top of the page, shares are of all " (rows(all)) "."
            }
            (table(what_if, all))
        },
    ))
}

/// The steps around today's.
fn around<'a>(
    what_if: &'a WhatIf,
    is_today: impl Fn(&ThresholdStep<'a>) -> bool,
) -> Vec<ThresholdStep<'a>> {
    let steps: Vec<_> = what_if.steps().collect();
    let today = steps.iter().position(is_today).unwrap_or(0);
    let shown = 2 * AROUND + 1;
    // At an end of the scale, there are more on the other side.
    let first = today
        .saturating_sub(AROUND)
        .min(steps.len().saturating_sub(shown));
    steps.into_iter().skip(first).take(shown).collect()
}

fn table(what_if: &WhatIf, all: u64) -> Markup {
    let approve = around(what_if, |step| step.is_approve_max);
    let review = around(what_if, |step| step.is_review_max);
    html! {
        div.scroll tabindex="0" {
            table.what-if {
                thead {
                    tr {
                        th scope="col" { "approve up to" }
                        @for step in &review {
                            th.now[step.is_review_max] scope="col" {
                                span { "review to" } b { (step.threshold) } small { (share(step.above, all)) " blocked" }
                            }
                        }
                    }
                }
                tbody {
                    @for first in &approve {
                        tr {
                            th.now[first.is_approve_max] scope="row" { b { (first.threshold) } small { (share(first.up_to, all)) " approved" } }
                            @for second in &review {
                                (cell(*first, *second, all))
                            }
                        }
                    }
                }
            }
        }
    }
}

fn cell(first: ThresholdStep<'_>, second: ThresholdStep<'_>, all: u64) -> Markup {
    if first.threshold > second.threshold {
        return html! { td.never { "–" } };
    }
    let reviewed = second.up_to - first.up_to;
    let is_today = first.is_approve_max && second.is_review_max;
    html! {
        td class=(heat(reviewed, all)) {
            @if is_today { span.today { "today" } }
            (share(reviewed, all)) small { (count(reviewed)) }
        }
    }
}

/// The darker, the more there is to review.
const fn heat(reviewed: u64, all: u64) -> &'static str {
    match reviewed.saturating_mul(100) / all {
        0..5 => "heat0",
        5..15 => "heat1",
        15..30 => "heat2",
        30..50 => "heat3",
        _ => "heat4",
    }
}
